/* The n-th host allocation of a whole run fails, for every n: configuration, data, weights in and out, checkpoints,
 * records, evaluation. The run ends with MK_ERR_MEMORY (exit code 3), one message that names its place, an end record,
 * no block of our heap left and no half-written file. The same for every communication call of one rank. */
#include <dirent.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "tests/support/check_main.h"
#include "tests/support/files.h"
#include "tests/trainer/support/tiny.h"
#include "trainer/checkpoint/safetensors_set.h"
#include "trainer/step/loop.h"

static const struct {
  const char *name, *device, *precision, *recompute;
  bool guard;
} CASES[] = {
    {"cpu", "cpu", "fp32", "none", false},
    {"cpu_async bf16", "cpu_async", "bf16", "full", false},
    {"guarded memory", "cpu", "bf16", "none", true},
    {"reference device", "ref", "fp64", "full", false},
};
enum { N_CASES = sizeof CASES / sizeof CASES[0] };

/* One step of the smallest model, from weights to weights, with an evaluation. */
static mt_config config_of(int i, const test_folder *folder) {
  mk_context ctx = {0};
  mt_config c = tiny_config();
  c.layers = 2, c.experts = 4, c.steps = 1, c.eval_tokens = c.seq_len, c.guard = CASES[i].guard;
  c.rank_tokens = c.global_tokens = c.seq_len;
  tiny_ok(&ctx, mt_config_set(&ctx, &c, "device", CASES[i].device), "device");
  tiny_ok(&ctx, mt_config_set(&ctx, &c, "precision", CASES[i].precision), "precision");
  tiny_ok(&ctx, mt_config_set(&ctx, &c, "recompute", CASES[i].recompute), "recompute");
  test_path(folder, "weights", c.weights_out);
  return c;
}

/* A whole run as moemark-trainer does it, with records in `out`. */
static mk_status run(mk_context *ctx, const mt_config *c, int64_t comm_fails_at, const char *out) {
  mt_comm *world = NULL;
  mk_status st = mt_comm_self_create(ctx, &world);
  if (st == MK_OK && comm_fails_at > 0) st = mt_comm_fault_create(ctx, world, comm_fails_at, &world);
  if (st == MK_OK) st = mt_loop_run(ctx, c, world, out);
  mt_comm_destroy(world);
  return st;
}

/* The weights' folder holds no temporary file, and what stands under its name is whole; it must where `wanted`. */
static void check_weights(const test_folder *folder, bool wanted, const char *what) {
  char path[TEST_PATH_BYTES];
  bool stands = false;
  DIR *dir = opendir(test_path(folder, "w", path));
  for (const struct dirent *entry = dir != NULL ? readdir(dir) : NULL; entry != NULL; entry = readdir(dir)) {
    ck_assert_msg(strstr(entry->d_name, ".tmp") == NULL, "%s: %s is left", what, entry->d_name);
    stands = stands || strstr(entry->d_name, ".safetensors") != NULL;
  }
  if (dir != NULL) closedir(dir);
  ck_assert_msg(stands || !wanted, "%s: no weights", what);
  if (!stands) return;
  mk_context ctx = {0};
  mt_st_set set = {0};
  tiny_ok(&ctx, mt_st_set_open(&ctx, path, &set), what);
  mt_st_set_fini(&set);
}

static void check_record(const test_folder *folder, const char *status, const char *what) {
  char path[TEST_PATH_BYTES], end[96];
  char *text = NULL;
  size_t bytes = 0;
  mk_context ctx = {0};
  if (mk_file_read(&ctx, test_path(folder, "records.jsonl", path), &text, &bytes) != MK_OK) return; /* not begun */
  snprintf(end, sizeof end, "\"type\":\"end\",\"status\":\"%s\",\"code\":3", status);
  ck_assert_msg(bytes == 0 || strstr(text, end) != NULL, "%s: records end in '%.300s'", what, text);
  ck_assert_msg(bytes == 0 || text[bytes - 1] == '\n', "%s: records end within a line", what);
  mk_heap_free(&ctx, text);
}

/* A folder with a checkpoint under its name must load; it must be there where `wanted`. */
static void check_resumes(const mt_config *c, bool wanted, const char *what) {
  char path[MT_TEXT_BYTES + 32];
  mt_config again = *c;
  mk_context ctx = {0};
  snprintf(path, sizeof path, "%s/step-000000002", c->checkpoint_dir);
  bool stands = access(path, F_OK) == 0;
  ck_assert_msg(stands || !wanted, "%s: no checkpoint", what);
  if (!stands) return;
  snprintf(again.resume, sizeof again.resume, "%.500s", path);
  again.checkpoint_dir[0] = '\0';
  tiny_ok(&ctx, run(&ctx, &again, 0, NULL), what);
}

START_TEST(every_allocation_of_a_run_may_fail) {
  test_folder weights = test_folder_make();
  mt_config c = config_of(_i, &weights);
  mk_context first = {0};
  tiny_ok(&first, run(&first, &c, 0, NULL), "weights to start from");
  ck_assert_int_eq(first.heap_live, 0);
  snprintf(c.weights_in, sizeof c.weights_in, "%s", c.weights_out);
  long long n = 1;
  for (bool reached = true; reached; n++) {
    test_folder out = test_folder_make();
    mk_context ctx = {.heap_fail_at = n};
    char what[64];
    snprintf(what, sizeof what, "%s, allocation %lld", CASES[_i].name, n);
    test_path(&out, "w", c.weights_out);
    mk_status st = run(&ctx, &c, 0, out.path);
    reached = ctx.heap_calls >= n;
    ck_assert_msg(ctx.heap_live == 0, "%s: %lld blocks are left; %s", what, ctx.heap_live, ctx.error.message);
    ck_assert_msg(st == (reached ? MK_ERR_MEMORY : MK_OK), "%s: status %s: %s", what, mk_status_name(st),
                  ctx.error.message);
    ck_assert_msg(!reached || strstr(ctx.error.message, ".c:") != NULL, "%s: no place in '%s'", what,
                  ctx.error.message);
    if (reached) check_record(&out, "oom", what);
    check_weights(&out, !reached, what);
    test_folder_remove(&out);
  }
  ck_assert_int_gt(n, 100);
  ck_assert_int_eq(mt_exit_code(MK_ERR_MEMORY), 3);
  test_folder_remove(&weights);
}
END_TEST

/* The same where the second of two steps goes on from a checkpoint of the first and saves another: what is not whole is
 * not taken for a checkpoint, and the one that was there stays. */
START_TEST(every_allocation_around_a_checkpoint_may_fail) {
  test_folder first = test_folder_make();
  mt_config c = config_of(_i, &first);
  mk_context ctx = {0};
  long long n = 1;
  c.weights_out[0] = '\0', c.eval_tokens = 0;
  test_path(&first, "c", c.checkpoint_dir);
  tiny_ok(&ctx, run(&ctx, &c, 0, NULL), "a checkpoint to start from");
  snprintf(c.resume, sizeof c.resume, "%.480s/step-000000001", c.checkpoint_dir);
  c.steps = 2;
  for (bool reached = true; reached; n++) {
    test_folder out = test_folder_make();
    char what[64];
    ctx = (mk_context){.heap_fail_at = n};
    snprintf(what, sizeof what, "%s, allocation %lld around a checkpoint", CASES[_i].name, n);
    test_path(&out, "c", c.checkpoint_dir);
    mk_status st = run(&ctx, &c, 0, out.path);
    reached = ctx.heap_calls >= n;
    ck_assert_msg(ctx.heap_live == 0, "%s: %lld blocks are left; %s", what, ctx.heap_live, ctx.error.message);
    ck_assert_msg(st == (reached ? MK_ERR_MEMORY : MK_OK), "%s: status %s: %s", what, mk_status_name(st),
                  ctx.error.message);
    if (reached) check_record(&out, "oom", what);
    check_resumes(&c, !reached, what);
    test_folder_remove(&out);
  }
  ck_assert_int_gt(n, 100);
  test_folder_remove(&first);
}
END_TEST

START_TEST(every_communication_call_of_one_rank_may_fail) {
  test_folder weights = test_folder_make();
  mt_config c = config_of(_i, &weights);
  c.weights_out[0] = '\0';
  int64_t n = 1;
  for (bool failed = true; failed; n++) {
    test_folder out = test_folder_make();
    mk_context ctx = {0};
    char what[64];
    snprintf(what, sizeof what, "%s, call %lld", CASES[_i].name, (long long)n);
    mk_status st = run(&ctx, &c, n, out.path);
    failed = st != MK_OK;
    ck_assert_msg(ctx.heap_live == 0, "%s: %lld blocks are left; %s", what, ctx.heap_live, ctx.error.message);
    if (failed) {
      snprintf(what, sizeof what, "communication call %lld of rank 0 fails", (long long)n);
      ck_assert_msg(st == MK_ERR_COMM && strstr(ctx.error.message, what) != NULL, "%s: %s", what, ctx.error.message);
      check_record(&out, "comm", what);
    }
    test_folder_remove(&out);
  }
  ck_assert_int_gt(n, 5); /* the mesh alone splits five times */
  ck_assert_int_eq(mt_exit_code(MK_ERR_COMM), 3);
  test_folder_remove(&weights);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("run_faults");
  TCase *tc = test_case(suite, "one rank", 240);
  tcase_add_loop_test(tc, every_allocation_of_a_run_may_fail, 0, N_CASES);
  tcase_add_loop_test(tc, every_allocation_around_a_checkpoint_may_fail, 0, 2);
  tcase_add_loop_test(tc, every_communication_call_of_one_rank_may_fail, 0, N_CASES);
  return test_main(suite);
}

/* Files of checkpoints on one rank: what damage is refused, what a resumed run may change, what stays on the disk. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/folder.h"
#include "kernels/base/heap.h"
#include "tests/support/check_main.h"
#include "tests/support/files.h"
#include "tests/trainer/support/tiny.h"
#include "trainer/checkpoint/checkpoint_same.h"
#include "trainer/checkpoint/checkpoint_shards.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/step/checkpoint.h"

enum { STEP = 2 };

/* A trainer of two steps whose checkpoint stands in folder/c/step-000000002. */
typedef struct fixture {
  mk_context ctx;
  test_folder folder;
  mt_config cfg;
  mt_comm *world;
  mt_trainer *t;
  mt_data *data;
  char path[MT_CHECKPOINT_PATH_BYTES];
} fixture;

static void open_trainer(fixture *f, const char *resume) {
  snprintf(f->cfg.resume, sizeof f->cfg.resume, "%s", resume);
  tiny_ok(&f->ctx, mt_trainer_create(&f->ctx, &f->cfg, f->world, &f->t), "create");
  tiny_ok(&f->ctx, mt_data_create(&f->ctx, &f->cfg, 0, &f->data), "data");
}

static void close_trainer(fixture *f) {
  mt_data_destroy(f->data);
  mt_trainer_destroy(f->t);
  f->data = NULL;
  f->t = NULL;
}

static mk_status save_at(fixture *f, int64_t step) {
  char path[MK_MESSAGE_BYTES];
  mt_run_position at = {.trained_s = 1.25, .evaluated = 1, .end = step};
  return mt_checkpoint_save(f->t, f->data, step, &at, path);
}

static void setup(fixture *f) {
  *f = (fixture){.folder = test_folder_make(), .cfg = tiny_config()};
  test_path(&f->folder, "c", f->cfg.checkpoint_dir);
  tiny_ok(&f->ctx, mt_comm_self_create(&f->ctx, &f->world), "self");
  open_trainer(f, "none");
  tiny_train(&f->ctx, f->t, STEP, false);
  tiny_ok(&f->ctx, save_at(f, STEP), "save");
  mt_checkpoint_path(f->cfg.checkpoint_dir, STEP, f->path);
}

static void teardown(fixture *f) {
  close_trainer(f);
  mt_comm_destroy(f->world);
  ck_assert_int_eq(f->ctx.heap_live, 0);
  test_folder_remove(&f->folder);
}

/* What a resume does before it reads values. */
static mk_status verify(fixture *f, mt_checkpoint_meta *meta) {
  mk_status st = mt_checkpoint_meta_read(&f->ctx, f->path, meta);
  for (int64_t i = 0; i < meta->files && st == MK_OK; i++)
    st = mt_checkpoint_file_check(&f->ctx, f->path, &meta->file[i]);
  return st;
}

static uint32_t next_random(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

/* Flips one bit, cuts the end off, or appends, in one of the two files. */
START_TEST(every_alteration_is_refused) { /* C-03, C-04 */
  fixture f;
  uint32_t random = 7;
  setup(&f);
  const char *const names[] = {"shard-00000.safetensors", "checkpoint.json"};
  for (int i = 0; i < 400; i++) {
    char path[MT_CHECKPOINT_PATH_BYTES + 64], *good = NULL;
    size_t bytes = 0;
    mt_checkpoint_meta meta = {0};
    const char *name = names[i % 2];
    snprintf(path, sizeof path, "%s/%s", f.path, name);
    test_must(&f.ctx, mk_file_read(&f.ctx, path, &good, &bytes), name);
    size_t at = ((size_t)next_random(&random) << 8 | next_random(&random)) % bytes;
    int kind = i / 2 % 4, bit = (int)(next_random(&random) % 8);
    if (kind < 2) good[at] = (char)(good[at] ^ (1 << bit));
    test_file_write(path, good, kind == 2 ? at : kind == 3 ? bytes + 1 : bytes);
    if (kind < 2) good[at] = (char)(good[at] ^ (1 << bit));
    mk_status st = verify(&f, &meta);
    ck_assert_msg(st == MK_ERR_FORMAT || st == MK_ERR_IO, "%s: alteration %d at %zu: status %d", name, i, at, st);
    ck_assert_msg(strstr(f.ctx.error.message, name) != NULL, "%s is not named: %s", name, f.ctx.error.message);
    mk_error_clear(&f.ctx);
    mt_checkpoint_meta_fini(&f.ctx, &meta);
    test_file_write(path, good, bytes);
    mk_heap_free(&f.ctx, good);
  }
  mt_checkpoint_meta meta = {0};
  test_must(&f.ctx, verify(&f, &meta), "the restored one");
  ck_assert_int_eq(meta.step, STEP);
  ck_assert_int_eq(meta.taken, STEP);
  ck_assert_int_eq(meta.windows, STEP * f.cfg.global_tokens / f.cfg.seq_len);
  ck_assert(meta.trained_s == 1.25);
  ck_assert_int_eq(meta.evaluated, 1);
  ck_assert_int_eq(meta.end, STEP);
  mt_checkpoint_meta_fini(&f.ctx, &meta);
  teardown(&f);
}
END_TEST

/* Alterations under a checksum that fits: nothing to trust but the checks of the content. Some are harmless (a digit of
 * a time); none may crash, and an error has its message. */
START_TEST(descriptions_with_a_right_checksum_are_still_checked) {
  static const char KEY[] = ",\"checksum\":\"";
  fixture f;
  uint32_t random = 11;
  int refused = 0;
  setup(&f);
  char path[MT_CHECKPOINT_PATH_BYTES + 64], *good = NULL, sum[MK_HASH_BYTES];
  size_t bytes = 0;
  snprintf(path, sizeof path, "%s/checkpoint.json", f.path);
  test_must(&f.ctx, mk_file_read(&f.ctx, path, &good, &bytes), "read");
  size_t body = (size_t)(strstr(good, KEY) - good);
  char *text = malloc(bytes + 1);
  for (int i = 0; i < 300; i++) {
    mt_checkpoint_meta meta = {0};
    memcpy(text, good, bytes + 1);
    for (int n = 0; n < 1 + i % 3; n++)
      text[next_random(&random) % body] = "09{}[],:\"eE-+.xtn"[next_random(&random) % 17];
    test_must(&f.ctx, mk_hash_bytes(&f.ctx, text, body, sum), "hash");
    memcpy(text + body + strlen(KEY), sum, strlen(sum));
    test_file_write(path, text, bytes);
    mk_status st = verify(&f, &meta);
    refused += st != MK_OK;
    ck_assert_msg(st == MK_OK || strlen(f.ctx.error.message) > 20, "alteration %d: no message", i);
    mk_error_clear(&f.ctx);
    mt_checkpoint_meta_fini(&f.ctx, &meta);
  }
  ck_assert_int_gt(refused, 200);
  free(text);
  mk_heap_free(&f.ctx, good);
  teardown(&f);
}
END_TEST

/* Shards of another making with sizes and checksums that fit: opened completely or refused with a message. */
START_TEST(foreign_shards_are_refused) {
  fixture f;
  uint32_t random = 13;
  int refused = 0;
  setup(&f);
  char path[MT_CHECKPOINT_PATH_BYTES + 64], *good = NULL;
  size_t bytes = 0;
  mt_checkpoint_meta meta = {0};
  test_must(&f.ctx, verify(&f, &meta), "verify");
  snprintf(path, sizeof path, "%s/shard-00000.safetensors", f.path);
  test_must(&f.ctx, mk_file_read(&f.ctx, path, &good, &bytes), "read");
  uint64_t header = 0;
  memcpy(&header, good, sizeof header);
  for (int i = 0; i < 300; i++) {
    mt_shards *shards = NULL;
    size_t at = 8 + next_random(&random) % (size_t)header;
    char kept = good[at];
    good[at] = "0123456789abmv.\"}{,"[next_random(&random) % 19];
    test_file_write(path, good, bytes);
    mk_status st = mt_shards_open(&f.ctx, f.path, &meta, &f.cfg, &shards);
    refused += st != MK_OK;
    ck_assert_msg(st == MK_OK || strlen(f.ctx.error.message) > 20, "alteration %d: no message", i);
    mk_error_clear(&f.ctx);
    mt_shards_close(shards);
    good[at] = kept;
  }
  ck_assert_int_gt(refused, 200);
  mk_heap_free(&f.ctx, good);
  mt_checkpoint_meta_fini(&f.ctx, &meta);
  teardown(&f);
}
END_TEST

/* A piece that is missing, there twice, or of another model is named. */
START_TEST(shards_must_cover_the_model) {
  fixture f;
  mt_shards *shards = NULL;
  mt_checkpoint_meta meta = {0};
  setup(&f);
  test_must(&f.ctx, verify(&f, &meta), "verify");
  mt_config other = f.cfg;
  other.layers += 1;
  TEST_ERROR(&f.ctx, mt_shards_open(&f.ctx, f.path, &meta, &other, &shards), MK_ERR_FORMAT, "layers.3.", "0 elements");
  other = f.cfg;
  other.layers -= 1;
  TEST_ERROR(&f.ctx, mt_shards_open(&f.ctx, f.path, &meta, &other, &shards), MK_ERR_FORMAT, "tensors, the model has");
  /* C-02: without the second moment of one parameter */
  char path[MT_CHECKPOINT_PATH_BYTES + 64], *text = NULL;
  size_t bytes = 0;
  snprintf(path, sizeof path, "%s/shard-00000.safetensors", f.path);
  test_must(&f.ctx, mk_file_read(&f.ctx, path, &text, &bytes), "read");
  char *place = memmem(text, bytes, "layers.1.router.v", 17);
  ck_assert_ptr_nonnull(place);
  place[16] = 'x';
  test_file_write(path, text, bytes);
  TEST_ERROR(&f.ctx, mt_shards_open(&f.ctx, f.path, &meta, &f.cfg, &shards), MK_ERR_FORMAT, "layers.1.router.v",
             "0 elements in 0 files");
  place[16] = 'v';
  test_file_write(path, text, bytes);
  mk_heap_free(&f.ctx, text);
  mt_checkpoint_file twice[2] = {meta.file[0], meta.file[0]};
  mt_checkpoint_meta doubled = meta;
  doubled.files = 2, doubled.file = twice;
  TEST_ERROR(&f.ctx, mt_shards_open(&f.ctx, f.path, &doubled, &f.cfg, &shards), MK_ERR_FORMAT, "embed.table.main",
             "there twice");
  mt_checkpoint_meta_fini(&f.ctx, &meta);
  teardown(&f);
}
END_TEST

/* Resumes under `key` = value: the status, and a word that the message must hold. */
static const struct {
  const char *key, *value;
  mk_status want;
  const char *said;
} CHANGES[] = {
    {"seed", "4321", MK_ERR_CONFIG, "seed: "},
    {"layers", "2", MK_ERR_CONFIG, "layers: "},
    {"experts", "16", MK_ERR_CONFIG, "experts: "},
    {"qk_norm", "none", MK_ERR_CONFIG, "qk_norm: "},
    {"precision", "bf16", MK_ERR_CONFIG, "precision: "},
    {"routing", "random", MK_ERR_CONFIG, "routing: "},
    {"seq_len", "18", MK_ERR_CONFIG, "seq_len: "},
    {"lr", "0.001", MK_ERR_CONFIG, "lr: 0.0002999"}, /* C-10: the rule is to refuse; the old value is named */
    {"schedule", "cosine", MK_ERR_CONFIG, "schedule: "},
    {"beta2", "0.99", MK_ERR_CONFIG, "beta2: "},
    {"weight_decay", "0", MK_ERR_CONFIG, "weight_decay: "},
    {"clip", "0", MK_ERR_CONFIG, "clip: "},
    {"skip_step", "true", MK_ERR_CONFIG, "skip_step: "},
    {"label_shift_inside", "false", MK_ERR_CONFIG, "label_shift_inside: "},
    {"steps", "1", MK_ERR_CONFIG, "is at step 2, beyond the end of this run at step 1"},
    {"steps", "77", MK_OK, ""},
    {"model", "other", MK_OK, ""},
    {"threads", "2", MK_OK, ""},
    {"device", "ref", MK_OK, ""},
    {"rank_tokens", "12", MK_OK, ""},
    {"global_tokens", "72", MK_OK, ""},
    {"recompute", "full", MK_OK, ""},
    {"eval_tokens", "12", MK_OK, ""},
};

START_TEST(what_may_change_and_what_not) {
  fixture f;
  setup(&f);
  for (size_t i = 0; i < sizeof CHANGES / sizeof CHANGES[0]; i++) {
    mt_run_position at = {0};
    mt_config kept = f.cfg;
    close_trainer(&f);
    test_must(&f.ctx, mt_config_set(&f.ctx, &f.cfg, CHANGES[i].key, CHANGES[i].value), CHANGES[i].key);
    open_trainer(&f, "auto");
    mk_status st = mt_checkpoint_resume(f.t, f.data, &at);
    ck_assert_msg(st == CHANGES[i].want, "%s=%s: status %d: %s", CHANGES[i].key, CHANGES[i].value, st,
                  f.ctx.error.message);
    ck_assert_msg(strstr(f.ctx.error.message, CHANGES[i].said) != NULL, "%s: said %s", CHANGES[i].key,
                  f.ctx.error.message);
    ck_assert_int_eq(f.t->step, st == MK_OK ? STEP : 0);
    mk_error_clear(&f.ctx);
    f.cfg = kept;
  }
  teardown(&f);
}
END_TEST

/* A schedule that is not constant ends where it was to end: steps alone may not move it. */
START_TEST(the_schedule_keeps_its_end) {
  mk_context ctx = {0};
  mt_checkpoint_meta meta = {.schedule_end = 10, .config = mt_config_default()};
  meta.config.schedule = MK_LR_COSINE;
  mt_config now = meta.config;
  now.steps = 20;
  TEST_ERROR(&ctx, mt_checkpoint_same(&ctx, "c", &meta, &now, 20), MK_ERR_CONFIG, "schedule_steps=10");
  now.schedule_steps = 10;
  test_must(&ctx, mt_checkpoint_same(&ctx, "c", &meta, &now, 10), "same end");
  now.schedule = meta.config.schedule = MK_LR_CONSTANT;
  test_must(&ctx, mt_checkpoint_same(&ctx, "c", &meta, &now, 20), "constant");
}
END_TEST

/* Two histories do not share a folder. */
START_TEST(a_fresh_run_does_not_write_into_a_used_folder) {
  fixture f;
  mt_run_position at = {0};
  setup(&f);
  close_trainer(&f);
  open_trainer(&f, "none");
  TEST_ERROR(&f.ctx, mt_checkpoint_resume(f.t, f.data, &at), MK_ERR_OUTPUT, "already holds step 2");
  teardown(&f);
}
END_TEST

static int folders_in(fixture *f, const char *prefix) {
  char **names = NULL;
  size_t count = 0;
  test_must(&f->ctx, mk_folder_names(&f->ctx, f->cfg.checkpoint_dir, prefix, &names, &count), "names");
  mk_folder_names_free(&f->ctx, names, count);
  return (int)count;
}

/* A resume from the folder at `from`, with checkpoint_dir `dir`, both named in the test's folder. */
static mt_run_position resumed_at(fixture *f, const char *from, const char *dir, double time_limit_s) {
  mt_run_position at = {.end = 100};
  mt_config kept = f->cfg;
  close_trainer(f);
  test_path(&f->folder, dir, f->cfg.checkpoint_dir);
  f->cfg.steps = 100, f->cfg.time_limit_s = time_limit_s;
  open_trainer(f, from);
  test_must(&f->ctx, mt_checkpoint_resume(f->t, f->data, &at), from);
  f->cfg = kept;
  return at;
}

START_TEST(only_the_own_folder_counts_as_saved) {
  fixture f;
  char path[MT_CHECKPOINT_PATH_BYTES + 64];
  setup(&f);
  ck_assert_int_eq(resumed_at(&f, "auto", "c", 0).saved, STEP);
  snprintf(path, sizeof path, "%s/../c/step-%09d/", f.cfg.checkpoint_dir, STEP); /* by another path */
  ck_assert_int_eq(resumed_at(&f, path, "c", 0).saved, STEP);
  ck_assert_int_eq(resumed_at(&f, path, "new", 0).saved, 0);
  ck_assert_int_eq(resumed_at(&f, path, "new", 0).evaluated, 1);
  test_path(&f.folder, "new", path);
  ck_assert_int_eq(rmdir(path), 0);
  teardown(&f);
}
END_TEST

/* C-14 for runs that end by time: 1.25 s were trained. */
START_TEST(a_run_that_its_time_has_ended_stays_ended) {
  fixture f;
  setup(&f);
  f.t->cfg.steps = 100, f.t->cfg.time_limit_s = 2;
  test_must(&f.ctx, save_at(&f, STEP), "save at the end that the time gave");
  ck_assert_int_eq(resumed_at(&f, "auto", "c", 2).end, STEP);
  ck_assert_int_eq(resumed_at(&f, "auto", "c", 1).end, STEP);
  ck_assert_int_eq(resumed_at(&f, "auto", "c", 3).end, 100); /* was given more time */
  ck_assert_int_eq(resumed_at(&f, "auto", "c", 0).end, 100);
  f.t->cfg.steps = STEP;
  test_must(&f.ctx, save_at(&f, STEP), "save at the end that steps gave");
  ck_assert_int_eq(resumed_at(&f, "auto", "c", 2).end, 100);
  ck_assert_int_eq(resumed_at(&f, "auto", "c", 1.25).end, STEP); /* no time is left */
  teardown(&f);
}
END_TEST

/* What is in the way is said before a run, by name; what has nearly our names is left alone. */
START_TEST(names_of_others_are_left_alone) {
  static const char *const OTHERS[] = {".tmp-mine", ".tmp-step-9", ".tmp-step-000000009x", ".tmp-old-", ".tmp-"};
  static const char *const TAKEN[] = {".tmp-step-000000009", ".tmp-old-000000009", "step-000000009"};
  fixture f;
  char path[MT_CHECKPOINT_PATH_BYTES + 64], notes[MT_CHECKPOINT_PATH_BYTES + 96];
  setup(&f);
  for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++) {
    snprintf(path, sizeof path, "%s/%s", f.cfg.checkpoint_dir, OTHERS[i]);
    test_must(&f.ctx, mk_folder_make(&f.ctx, path), "foreign folder");
    snprintf(notes, sizeof notes, "%s/notes", path);
    test_file_write(notes, "x", 1);
    test_must(&f.ctx, mt_checkpoint_tidy(&f.ctx, f.cfg.checkpoint_dir), OTHERS[i]);
    test_must(&f.ctx, save_at(&f, STEP + 1), OTHERS[i]);
    ck_assert_msg(access(notes, F_OK) == 0, "%s was removed", OTHERS[i]);
    ck_assert_int_eq(unlink(notes), 0);
    ck_assert_int_eq(rmdir(path), 0);
  }
  for (size_t i = 0; i < sizeof TAKEN / sizeof TAKEN[0]; i++) {
    for (int link = 0; link < 2; link++) {
      snprintf(path, sizeof path, "%s/%s", f.cfg.checkpoint_dir, TAKEN[i]);
      if (link == 0) test_file_write(path, "x", 1);
      if (link == 1) ck_assert_int_eq(symlink(f.path, path), 0);
      TEST_ERROR(&f.ctx, mt_checkpoint_tidy(&f.ctx, f.cfg.checkpoint_dir), MK_ERR_OUTPUT, TAKEN[i], "is not a folder",
                 "move it away");
      ck_assert_int_eq(unlink(path), 0);
    }
  }
  teardown(&f);
}
END_TEST

START_TEST(the_newest_stay) {
  fixture f;
  char path[MT_CHECKPOINT_PATH_BYTES];
  int64_t step = 0;
  setup(&f);
  snprintf(path, sizeof path, "%s/step-12x", f.cfg.checkpoint_dir); /* not ours: never touched, never taken */
  test_must(&f.ctx, mk_folder_make(&f.ctx, path), "foreign folder");
  mt_checkpoint_temporary(f.cfg.checkpoint_dir, 9, path); /* what a killed run left */
  test_must(&f.ctx, mk_folder_make(&f.ctx, path), "left");
  for (int64_t n = STEP + 1; n <= STEP + 4; n++)
    test_must(&f.ctx, save_at(&f, n), "save");
  ck_assert_int_eq(folders_in(&f, "step-00"), 2);
  ck_assert_int_eq(folders_in(&f, "step-12x"), 1);
  ck_assert_int_eq(folders_in(&f, ".tmp"), 0);
  test_must(&f.ctx, mt_checkpoint_newest(&f.ctx, f.cfg.checkpoint_dir, INT64_MAX, &step), "newest");
  ck_assert_int_eq(step, STEP + 4);
  f.t->cfg.checkpoint_keep = 0;
  test_must(&f.ctx, save_at(&f, STEP + 5), "save");
  test_must(&f.ctx, save_at(&f, STEP + 5), "the same step again"); /* replaced, not refused */
  ck_assert_int_eq(folders_in(&f, "step-00"), 3);
  teardown(&f);
}
END_TEST

/* C-05: sizes of the disk from nothing up to the whole shard. */
START_TEST(a_full_disk_keeps_the_old_checkpoint) {
  fixture f;
  setup(&f);
  signal(SIGXFSZ, SIG_IGN);
  for (rlim_t bytes = 0; bytes < 200000; bytes += 9973) {
    struct rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    mt_checkpoint_meta meta = {0};
    setrlimit(RLIMIT_FSIZE, &limit);
    mk_status st = save_at(&f, STEP + 1);
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
    ck_assert_msg(st == MK_ERR_OUTPUT, "%lld bytes: status %d", (long long)bytes, st);
    ck_assert_msg(strstr(f.ctx.error.message, "checkpoint_dir: ") != NULL, "said %s", f.ctx.error.message);
    mk_error_clear(&f.ctx);
    ck_assert_int_eq(folders_in(&f, ""), 1);
    test_must(&f.ctx, verify(&f, &meta), "the old one");
    mt_checkpoint_meta_fini(&f.ctx, &meta);
  }
  test_must(&f.ctx, save_at(&f, STEP + 1), "with room again");
  teardown(&f);
}
END_TEST

/* C-11, on a model whose values outweigh their names. */
START_TEST(a_checkpoint_is_as_large_as_its_content) {
  fixture f = {.folder = test_folder_make(), .cfg = tiny_config()};
  mt_checkpoint_meta meta = {0};
  struct stat json;
  char path[MT_CHECKPOINT_PATH_BYTES + 32];
  test_path(&f.folder, "c", f.cfg.checkpoint_dir);
  f.cfg.vocab = 8000, f.cfg.d_model = 96;
  tiny_ok(&f.ctx, mt_comm_self_create(&f.ctx, &f.world), "self");
  open_trainer(&f, "none");
  test_must(&f.ctx, save_at(&f, 1), "save");
  mt_checkpoint_path(f.cfg.checkpoint_dir, 1, f.path);
  test_must(&f.ctx, verify(&f, &meta), "verify");
  snprintf(path, sizeof path, "%s/checkpoint.json", f.path);
  ck_assert_int_eq(stat(path, &json), 0);
  double bytes = (double)meta.file[0].bytes + (double)json.st_size, content = 0;
  for (int i = 0; i < f.t->model->params.count; i++)
    content += 3.0 * sizeof(float) * (double)f.t->model->params.item[i].total;
  ck_assert_msg(bytes <= 1.01 * content, "%.0f bytes for %.0f of content", bytes, content);
  mt_checkpoint_meta_fini(&f.ctx, &meta);
  teardown(&f);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("checkpoint");
  TCase *tc = test_case(s, "one rank", 240);
  tcase_add_test(tc, every_alteration_is_refused);
  tcase_add_test(tc, descriptions_with_a_right_checksum_are_still_checked);
  tcase_add_test(tc, foreign_shards_are_refused);
  tcase_add_test(tc, shards_must_cover_the_model);
  tcase_add_test(tc, what_may_change_and_what_not);
  tcase_add_test(tc, the_schedule_keeps_its_end);
  tcase_add_test(tc, a_fresh_run_does_not_write_into_a_used_folder);
  tcase_add_test(tc, only_the_own_folder_counts_as_saved);
  tcase_add_test(tc, a_run_that_its_time_has_ended_stays_ended);
  tcase_add_test(tc, names_of_others_are_left_alone);
  tcase_add_test(tc, the_newest_stay);
  tcase_add_test(tc, a_full_disk_keeps_the_old_checkpoint);
  tcase_add_test(tc, a_checkpoint_is_as_large_as_its_content);
  return s;
}

int main(void) { return test_main(suite()); }

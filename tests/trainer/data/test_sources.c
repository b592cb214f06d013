/* Files as sources: lengths at every edge, and each refusal with its words. */
#include <unistd.h>

#include "tests/support/check_main.h"
#include "tests/support/files.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/data/data.h"

enum { SEQ = 8 };

static mt_config file_config(mt_data_kind kind, const char *path) {
  mt_config c = mt_config_default();
  c.seq_len = SEQ;
  c.rank_tokens = 2 * SEQ;
  c.global_tokens = 4 * SEQ;
  c.steps = 2;
  c.data = kind;
  snprintf(c.data_path, sizeof c.data_path, "%.500s", path);
  return c;
}

static mk_status try_create(mk_context *ctx, const mt_config *c) {
  mt_data *data = NULL;
  mk_status st = mt_data_create(ctx, c, 0, &data);
  ck_assert((st == MK_OK) == (data != NULL));
  mt_data_destroy(data);
  ck_assert_int_eq(ctx->heap_live, 0);
  return st;
}

START_TEST(bytes_refused) {
  mk_context ctx = {0};
  test_folder folder = test_folder_make();
  char path[TEST_PATH_BYTES];
  mt_config c = file_config(MT_DATA_BYTES, test_path(&folder, "text", path));
  TEST_ERROR(&ctx, try_create(&ctx, &c), MK_ERR_IO, "data_path", path, "cannot open");
  mt_config dir = file_config(MT_DATA_BYTES, folder.path);
  TEST_ERROR(&ctx, try_create(&ctx, &dir), MK_ERR_IO, "not a regular file");
  test_file_write(path, "", 0);
  TEST_ERROR(&ctx, try_create(&ctx, &c), MK_ERR_FORMAT, path, "empty");
  test_file_write(path, "1234567", 7);
  TEST_ERROR(&ctx, try_create(&ctx, &c), MK_ERR_FORMAT, "7 training tokens", "seq_len 8");
  test_file_write(path, "12345678", 8);
  test_must(&ctx, try_create(&ctx, &c), "one window");
  c.label_shift_inside = false; /* the last label needs a ninth byte */
  TEST_ERROR(&ctx, try_create(&ctx, &c), MK_ERR_FORMAT, "8 training tokens");
  test_file_write(path, "123456789", 9);
  test_must(&ctx, try_create(&ctx, &c), "one window and its label");
  c.label_shift_inside = true;
  test_file_write(path, "0123456789abcdef0123456789abcdef", 32);
  c.holdout = 0.5;
  c.eval_tokens = 16;
  test_must(&ctx, try_create(&ctx, &c), "two held-out windows");
  c.eval_tokens = 24;
  TEST_ERROR(&ctx, try_create(&ctx, &c), MK_ERR_FORMAT, "held-out tail of 16 tokens has 2 windows", "needs 3");
  test_folder_remove(&folder);
}
END_TEST

/* Lengths around whole windows: no read past the end, no short window. */
START_TEST(bytes_lengths) {
  mk_context ctx = {0};
  test_folder folder = test_folder_make();
  char path[TEST_PATH_BYTES], text[64];
  for (int i = 0; i < 64; i++)
    text[i] = (char)(i + 1);
  mt_config c = file_config(MT_DATA_BYTES, test_path(&folder, "text", path));
  c.label_shift_inside = _i == 0;
  for (size_t bytes = 9; bytes <= 50; bytes++) {
    test_file_write(path, text, bytes);
    int64_t windows = c.label_shift_inside ? (int64_t)bytes / SEQ : ((int64_t)bytes - 1) / SEQ;
    int seen[64] = {0};
    mt_data *data = NULL;
    test_must(&ctx, mt_data_create(&ctx, &c, 0, &data), "create");
    for (int64_t step = 0; step < windows; step++) { /* four windows a step: four epochs of all windows */
      for (int64_t m = 0; m < 2; m++) {
        int32_t tokens[2 * SEQ], labels[2 * SEQ];
        test_must(&ctx, mt_data_batch(data, step, m, tokens, labels), "batch");
        for (int w = 0; w < 2; w++) {
          int32_t first = tokens[w * SEQ];
          ck_assert_msg((first - 1) % SEQ == 0 && (first - 1) / SEQ < windows, "%zu bytes: window at %d", bytes,
                        first - 1);
          seen[(first - 1) / SEQ] += 1;
          ck_assert_int_eq(labels[w * SEQ + SEQ - 1], c.label_shift_inside ? MT_LABEL_IGNORED : first + SEQ);
        }
      }
    }
    for (int64_t w = 0; w < windows; w++)
      ck_assert_msg(seen[w] == 4, "%zu bytes: window %lld: %d", bytes, (long long)w, seen[w]);
    mt_data_destroy(data);
  }
  test_folder_remove(&folder);
}
END_TEST

START_TEST(bytes_faults) {
  mk_context ctx = {0};
  test_folder folder = test_folder_make();
  char path[TEST_PATH_BYTES];
  int32_t tokens[2 * SEQ], labels[2 * SEQ];
  mt_data *data = NULL;
  mt_config c = file_config(MT_DATA_BYTES, test_path(&folder, "text", path));
  c.vocab = 200;
  test_file_write(path, "abc\xc8\x65\x66\x67h", 8); /* byte 3 is 200 */
  test_must(&ctx, mt_data_create(&ctx, &c, 0, &data), "create");
  TEST_ERROR(&ctx, mt_data_batch(data, 0, 0, tokens, labels), MK_ERR_FORMAT, path, "byte 3 is 200",
             "vocabulary of 200");
  TEST_ERROR(&ctx, mt_data_batch(data, 0, 2, tokens, labels), MK_ERR_ARG, "no microbatch 2");
  ck_assert_int_eq(truncate(path, 3), 0);
  TEST_ERROR(&ctx, mt_data_batch(data, 0, 0, tokens, labels), MK_ERR_IO, path, "ended at byte 3");
  mt_data_destroy(data);
  ck_assert_int_eq(ctx.heap_live, 0);
  test_folder_remove(&folder);
}
END_TEST

typedef struct token_file {
  mt_st_tensor spec[2];
  int n;
  int32_t tokens[3 * 4 * SEQ], labels[3 * 4 * SEQ];
} token_file;

/* Three steps of four windows, as the golden files keep them. */
static token_file token_file_make(bool labels) {
  token_file f = {.n = labels ? 2 : 1};
  for (int t = 0; t < 2; t++) {
    f.spec[t] = (mt_st_tensor){.name = t == 0 ? "tokens" : "labels", .dtype = MK_I32, .n_dims = 3, .dim = {3, 4, SEQ}};
  }
  for (int i = 0; i < 3 * 4 * SEQ; i++) {
    f.tokens[i] = i;
    f.labels[i] = 100 + i;
  }
  return f;
}

static void token_file_write(mk_context *ctx, const token_file *f, const char *path) {
  mt_st_writer *w = NULL;
  test_must(ctx, mt_st_writer_create(ctx, path, f->spec, f->n, NULL, &w), "create");
  for (int t = 0; t < f->n; t++) {
    int64_t count = f->spec[t].dim[0] * f->spec[t].dim[1] * f->spec[t].dim[2];
    test_must(ctx, mt_st_writer_put(w, t, t == 0 ? f->tokens : f->labels, count), "put");
  }
  test_must(ctx, mt_st_writer_commit(w), "commit");
  mt_st_writer_destroy(w);
}

START_TEST(tensors_in_order) {
  mk_context ctx = {0};
  test_folder folder = test_folder_make();
  char path[TEST_PATH_BYTES];
  int32_t tokens[2 * SEQ], labels[2 * SEQ];
  bool given = _i == 0;
  token_file f = token_file_make(given);
  mt_config c = file_config(MT_DATA_TENSORS, test_path(&folder, "t.safetensors", path));
  c.label_shift_inside = !given;
  c.holdout = 0.34; /* the last four of twelve windows */
  c.eval_tokens = 4 * SEQ;
  token_file_write(&ctx, &f, path);
  mt_data *data = NULL;
  test_must(&ctx, mt_data_create(&ctx, &c, 0, &data), "create");
  for (int64_t b = 0; b < 6; b++) {
    mk_status st =
        b < 4 ? mt_data_batch(data, b / 2, b % 2, tokens, labels) : mt_data_eval_batch(data, b - 4, tokens, labels);
    test_must(&ctx, st, "batch");
    for (int i = 0; i < 2 * SEQ; i++) {
      int32_t at = (int32_t)b * 2 * SEQ + i;
      ck_assert_int_eq(tokens[i], at);
      ck_assert_int_eq(labels[i], given ? 100 + at : i % SEQ == SEQ - 1 ? MT_LABEL_IGNORED : at + 1);
    }
  }
  TEST_ERROR(&ctx, mt_data_batch(data, 2, 0, tokens, labels), MK_ERR_FORMAT, path, "window 8", "has 8");
  mt_data_destroy(data);
  ck_assert_int_eq(ctx.heap_live, 0);
  test_folder_remove(&folder);
}
END_TEST

START_TEST(tensors_refused) {
  mk_context ctx = {0};
  test_folder folder = test_folder_make();
  char path[TEST_PATH_BYTES];
  int32_t tokens[2 * SEQ], labels[2 * SEQ];
  mt_config c = file_config(MT_DATA_TENSORS, test_path(&folder, "t.safetensors", path));
  TEST_ERROR(&ctx, try_create(&ctx, &c), MK_ERR_IO, path);
  token_file f = token_file_make(true);
  f.spec[0].name = "token";
  token_file_write(&ctx, &f, path);
  TEST_ERROR(&ctx, try_create(&ctx, &c), MK_ERR_FORMAT, "'tokens' is missing");
  f = token_file_make(true);
  f.spec[0].dtype = MK_F32;
  token_file_write(&ctx, &f, path);
  TEST_ERROR(&ctx, try_create(&ctx, &c), MK_ERR_FORMAT, "'tokens' is f32");
  f = token_file_make(true);
  f.spec[1].dim[1] = 2;
  token_file_write(&ctx, &f, path);
  TEST_ERROR(&ctx, try_create(&ctx, &c), MK_ERR_FORMAT, "differ in shape");
  f = token_file_make(false);
  token_file_write(&ctx, &f, path);
  c.label_shift_inside = false;
  TEST_ERROR(&ctx, try_create(&ctx, &c), MK_ERR_FORMAT, "'labels' is missing", "label_shift_inside");
  c.label_shift_inside = true;
  c.eval_tokens = SEQ;
  TEST_ERROR(&ctx, try_create(&ctx, &c), MK_ERR_FORMAT, "0 windows are held out");
  c.eval_tokens = 0;
  c.seq_len = c.rank_tokens = 4;
  TEST_ERROR(&ctx, try_create(&ctx, &c), MK_ERR_FORMAT, "[3,4,8]", "[steps,batch,4]");

  f = token_file_make(true);
  f.tokens[11] = 256;
  f.labels[2 * SEQ + 5] = MT_LABEL_IGNORED;
  token_file_write(&ctx, &f, path);
  c = file_config(MT_DATA_TENSORS, path);
  c.label_shift_inside = false;
  mt_data *data = NULL;
  test_must(&ctx, mt_data_create(&ctx, &c, 0, &data), "create");
  TEST_ERROR(&ctx, mt_data_batch(data, 0, 0, tokens, labels), MK_ERR_FORMAT, path, "'tokens'",
             "window 1, position 3 is 256", "0 to 255");
  TEST_ERROR(&ctx, mt_data_batch(data, 0, 1, tokens, labels), MK_ERR_FORMAT, "'labels'",
             "window 2, position 5 is -100");
  mt_data_destroy(data);
  c.label_shift_inside = true; /* then the last label of each window must be -100 */
  test_must(&ctx, mt_data_create(&ctx, &c, 0, &data), "create");
  TEST_ERROR(&ctx, mt_data_batch(data, 1, 0, tokens, labels), MK_ERR_FORMAT, "position 7 is 139", "ignored label -100");
  mt_data_destroy(data);
  test_folder_remove(&folder);
}
END_TEST

/* Twelve windows, four a step: counted from where the run goes on. */
START_TEST(tensors_length) {
  mk_context ctx = {0};
  char path[TEST_PATH_BYTES];
  test_folder folder = test_folder_make();
  token_file f = token_file_make(true);
  token_file_write(&ctx, &f, test_path(&folder, "tokens.safetensors", path));
  mt_config c = file_config(MT_DATA_TENSORS, path);
  c.steps = 9; /* what the file has to last for is asked for, not taken from here */
  mt_data *data = NULL;
  test_must(&ctx, mt_data_create(&ctx, &c, 0, &data), "create");
  test_must(&ctx, mt_data_check_length(data, 0, 3), "the whole file");
  TEST_ERROR(&ctx, mt_data_check_length(data, 0, 4), MK_ERR_FORMAT, path, "12 windows", "steps 1 to 4 of", "need 16;");
  mt_data_start(data, 2, 4); /* steps of two windows were done before */
  test_must(&ctx, mt_data_check_length(data, 2, 4), "the rest of the file");
  TEST_ERROR(&ctx, mt_data_check_length(data, 2, 5), MK_ERR_FORMAT, "steps 3 to 5 of", "need 16 with those already");
  mt_data_start(data, 1, 8); /* of eight windows */
  TEST_ERROR(&ctx, mt_data_check_length(data, 1, 3), MK_ERR_FORMAT, "steps 2 to 3 of", "need 16 with those already");
  TEST_ERROR(&ctx, mt_data_check_length(data, 1, INT64_MAX), MK_ERR_FORMAT, "12 windows");
  mt_data_destroy(data);
  test_folder_remove(&folder);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sources");
  TCase *tcase = test_case(suite, "files", 60);
  tcase_add_test(tcase, bytes_refused);
  tcase_add_loop_test(tcase, bytes_lengths, 0, 2);
  tcase_add_test(tcase, bytes_faults);
  tcase_add_loop_test(tcase, tensors_in_order, 0, 2);
  tcase_add_test(tcase, tensors_refused);
  tcase_add_test(tcase, tensors_length);
  return test_main(suite);
}

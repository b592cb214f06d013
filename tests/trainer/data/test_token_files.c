/* Files of tokens as llm.c, numpy and Olmo-core write them: every token where it belongs, in the documented order; ends
 * of files (C-16), several files, and headers that are damaged. */
#include "tests/support/check_main.h"
#include "tests/support/files.h"
#include "trainer/data/data.h"
#include "trainer/data/npy_header.h"
#include "trainer/data/shuffle.h"

enum { SEQ = 8 };

/* Token k is (7919 k + b) mod vocab; see golden/make_token_files.py. */
static const struct {
  const char *name;
  mt_data_kind kind;
  mt_data_dtype dtype;
  int64_t count, b, modulus, vocab;
} FILES[] = {
    {"llmc-u16.bin", MT_DATA_BIN, MT_DTYPE_AUTO, 101, 13, 50257, 50257},
    {"llmc-u32.bin", MT_DATA_BIN, MT_DTYPE_AUTO, 100, 99990, 100277, 100277},
    {"numpy-u8.npy", MT_DATA_NPY, MT_DTYPE_AUTO, 83, 5, 251, 251},
    {"numpy-u16.npy", MT_DATA_NPY, MT_DTYPE_U16, 83, 5, 50257, 50257},
    {"numpy-u32.npy", MT_DATA_NPY, MT_DTYPE_AUTO, 83, 5, 100277, 100277},
    {"numpy-u64.npy", MT_DATA_NPY, MT_DTYPE_AUTO, 83, 5, 100277, 100277},
    {"olmo-u16.npy", MT_DATA_NPY, MT_DTYPE_AUTO, 99, 3, 50257, 50257}, /* auto: the width follows from vocab */
    {"olmo-u32.npy", MT_DATA_NPY, MT_DTYPE_AUTO, 98, 99000, 100278, 100278},
    {"olmo-u32.npy", MT_DATA_NPY, MT_DTYPE_U32, 98, 99000, 100278, 1 << 20},
};

static mt_config config_for(mt_data_kind kind, int64_t vocab, const char *path) {
  mt_config c = mt_config_default();
  c.seq_len = c.rank_tokens = c.global_tokens = SEQ;
  c.data = kind, c.vocab = vocab, c.seed = 5;
  snprintf(c.data_path, sizeof c.data_path, "%.500s", path);
  return c;
}

START_TEST(every_token_is_where_it_belongs) {
  for (size_t f = 0; f < sizeof FILES / sizeof FILES[0]; f++) {
    for (int inside = 0; inside < 2; inside++) {
      mk_context ctx = {0};
      mt_data *data = NULL;
      int32_t tokens[SEQ], labels[SEQ];
      char path[TEST_PATH_BYTES];
      snprintf(path, sizeof path, "%s/%s", TOKEN_FILES, FILES[f].name);
      mt_config c = config_for(FILES[f].kind, FILES[f].vocab, path);
      c.data_dtype = FILES[f].dtype, c.label_shift_inside = inside;
      test_must(&ctx, mt_data_create(&ctx, &c, 0, &data), FILES[f].name);
      int64_t windows = (FILES[f].count - (inside ? 0 : 1)) / SEQ;
      for (int64_t g = 0; g < 2 * windows; g++) { /* two epochs, each in its own order */
        test_must(&ctx, mt_data_batch(data, g, 0, tokens, labels), FILES[f].name);
        int64_t first = mt_shuffle((uint64_t)c.seed, (uint32_t)(g / windows), windows, g % windows) * SEQ;
        for (int64_t i = 0; i < SEQ; i++) {
          int64_t want = (7919 * (first + i) + FILES[f].b) % FILES[f].modulus;
          int64_t next = (7919 * (first + i + 1) + FILES[f].b) % FILES[f].modulus;
          ck_assert_msg(tokens[i] == want, "%s: window %lld, token %lld: expected %lld got %d", FILES[f].name,
                        (long long)g, (long long)i, (long long)want, tokens[i]);
          ck_assert_int_eq(labels[i], inside && i == SEQ - 1 ? MT_LABEL_IGNORED : next);
        }
      }
      mt_data_destroy(data);
      ck_assert_int_eq(ctx.heap_live, 0);
    }
  }
}
END_TEST

/* C-16: one token more, as many, and one fewer than three steps of two ranks need; the rest of a file is left out. */
START_TEST(the_end_of_a_file) {
  enum { RANKS = 2, STEPS = 3 };
  test_folder folder = test_folder_make();
  char path[TEST_PATH_BYTES];
  unsigned char text[SEQ * RANKS * STEPS + 1];
  for (size_t i = 0; i < sizeof text; i++)
    text[i] = (unsigned char)i;
  for (int more = -1; more <= 1; more++) {
    mk_context ctx = {0};
    size_t bytes = (size_t)(SEQ * RANKS * STEPS + more);
    int64_t windows =
        more == 1 ? RANKS * STEPS : RANKS * STEPS - 1; /* every label counts: the last one needs a token */
    int seen[RANKS * STEPS] = {0};
    test_file_write(test_path(&folder, "t.npy", path), text, bytes);
    mt_config c = config_for(MT_DATA_NPY, 256, path);
    c.ranks = RANKS, c.shard = MT_SHARD_DDP, c.global_tokens = RANKS * SEQ, c.label_shift_inside = false;
    for (int rank = 0; rank < RANKS; rank++) {
      mt_data *data = NULL;
      int32_t tokens[SEQ], labels[SEQ];
      test_must(&ctx, mt_data_create(&ctx, &c, rank, &data), "create");
      for (int64_t step = 0; step < windows; step++) { /* each window once on either rank: two epochs in all */
        test_must(&ctx, mt_data_batch(data, step, 0, tokens, labels), "batch");
        ck_assert_int_eq(labels[SEQ - 1], tokens[SEQ - 1] + 1);
        seen[tokens[0] / SEQ] += 1;
      }
      mt_data_destroy(data);
    }
    for (int64_t w = 0; w < windows; w++)
      ck_assert_msg(seen[w] == 2, "%zu bytes: window %lld was given out %d times", bytes, (long long)w, seen[w]);
  }
  test_folder_remove(&folder);
}
END_TEST

/* Files of 3, 1 (too short for a window) and 2 windows: one row of five, no window across two files; a list in its
 * order and a pattern give the same. */
START_TEST(several_files_are_one_row) {
  static const int lengths[] = {3 * SEQ + 5, SEQ - 1, 2 * SEQ};
  test_folder folder = test_folder_make();
  char path[3][TEST_PATH_BYTES], list[3 * TEST_PATH_BYTES], pattern[TEST_PATH_BYTES];
  for (int f = 0; f < 3; f++) {
    unsigned char text[64];
    char name[8];
    for (int i = 0; i < lengths[f]; i++)
      text[i] = (unsigned char)(64 * f + i);
    snprintf(name, sizeof name, "%c.npy", 'a' + f);
    test_file_write(test_path(&folder, name, path[f]), text, (size_t)lengths[f]);
  }
  snprintf(list, sizeof list, "%s,%s,%s", path[0], path[1], path[2]);
  test_path(&folder, "?.npy", pattern);
  static const int firsts[] = {0, SEQ, 2 * SEQ, 128, 128 + SEQ};
  for (int way = 0; way < 2; way++) {
    mk_context ctx = {0};
    mt_data *data = NULL;
    mt_config c = config_for(MT_DATA_NPY, 256, way == 0 ? list : pattern);
    test_must(&ctx, mt_data_create(&ctx, &c, 0, &data), "create");
    for (int64_t g = 0; g < 10; g++) {
      int32_t tokens[SEQ], labels[SEQ];
      test_must(&ctx, mt_data_batch(data, g, 0, tokens, labels), "batch");
      int first = firsts[mt_shuffle((uint64_t)c.seed, (uint32_t)(g / 5), 5, g % 5)];
      for (int i = 0; i < SEQ; i++)
        ck_assert_int_eq(tokens[i], first + i);
    }
    mt_data_destroy(data);
    ck_assert_int_eq(ctx.heap_live, 0);
  }
  test_folder_remove(&folder);
}
END_TEST

/* Each file keeps its last part for evaluation. */
START_TEST(each_file_holds_out_its_tail) {
  mk_context ctx = {0};
  mt_data *data = NULL;
  test_folder folder = test_folder_make();
  char a[TEST_PATH_BYTES], b[TEST_PATH_BYTES], list[2 * TEST_PATH_BYTES];
  unsigned char text[4 * SEQ];
  for (int i = 0; i < 4 * SEQ; i++)
    text[i] = (unsigned char)i;
  test_file_write(test_path(&folder, "a", a), text, sizeof text);
  for (int i = 0; i < 4 * SEQ; i++)
    text[i] = (unsigned char)(100 + i);
  test_file_write(test_path(&folder, "b", b), text, sizeof text);
  snprintf(list, sizeof list, "%s,%s", a, b);
  mt_config c = config_for(MT_DATA_BYTES, 256, list);
  c.holdout = 0.25, c.eval_tokens = 2 * SEQ;
  test_must(&ctx, mt_data_create(&ctx, &c, 0, &data), "create");
  for (int64_t m = 0; m < 2; m++) {
    int32_t tokens[SEQ], labels[SEQ];
    test_must(&ctx, mt_data_eval_batch(data, m, tokens, labels), "eval");
    ck_assert_int_eq(tokens[0], 100 * m + 3 * SEQ);
  }
  for (int64_t g = 0; g < 12; g++) {
    int32_t tokens[SEQ], labels[SEQ];
    test_must(&ctx, mt_data_batch(data, g, 0, tokens, labels), "batch");
    ck_assert_int_lt(tokens[SEQ - 1] % 100, 3 * SEQ);
  }
  mt_data_destroy(data);
  test_folder_remove(&folder);
}
END_TEST

/* Altered numpy headers: taken or refused with a message, never read beyond the buffer. */
START_TEST(damaged_numpy_headers) {
  mk_context ctx = {0};
  char good[MT_NPY_HEAD_BYTES] = {0}, path[TEST_PATH_BYTES];
  uint32_t random = 3;
  int refused = 0;
  snprintf(path, sizeof path, "%s/numpy-u16.npy", TOKEN_FILES);
  FILE *file = fopen(path, "rb");
  ck_assert_ptr_nonnull(file);
  int64_t bytes = (int64_t)fread(good, 1, sizeof good, file);
  fclose(file);
  for (int i = 0; i < 500; i++) {
    int64_t cut = i % 5 == 0 ? i % 130 : bytes;
    char *head = malloc((size_t)cut + 1); /* of its exact size, so that a read beyond it is found */
    mt_npy_header npy;
    memcpy(head, good, (size_t)cut);
    random = random * 1664525u + 1013904223u;
    if (cut > 6) head[6 + (random >> 8) % (uint32_t)(cut - 6)] = (char)(random >> 24);
    mk_status st = mt_npy_header_is(head, cut) ? mt_npy_header_parse(&ctx, "f.npy", head, cut, &npy) : MK_ERR_FORMAT;
    refused += st != MK_OK;
    if (st == MK_OK) ck_assert(npy.width >= 1 && npy.width <= 8 && npy.count >= 0 && npy.begin_bytes <= cut);
    mk_error_clear(&ctx);
    free(head);
  }
  ck_assert_int_gt(refused, 100);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("token files");
  TCase *tc = tcase_create("token files");
  tcase_add_test(tc, every_token_is_where_it_belongs);
  tcase_add_test(tc, the_end_of_a_file);
  tcase_add_test(tc, several_files_are_one_row);
  tcase_add_test(tc, each_file_holds_out_its_tail);
  tcase_add_test(tc, damaged_numpy_headers);
  suite_add_tcase(s, tc);
  return s;
}

int main(void) { return test_main(suite()); }

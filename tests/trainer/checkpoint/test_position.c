/* The position in the data over resumes: no window twice, none left out, on any number of ranks and for steps of any
 * size (C-07, C-09, C-15); other data are recognised (C-08). Epochs are crossed; windows carry their number. */
#include <unistd.h>

#include "tests/support/check_main.h"
#include "tests/support/files.h"
#include "tests/trainer/support/tiny.h"

enum { SEQ = 4, WINDOWS = 50 };

/* A file of WINDOWS windows whose bytes are the window's number. */
static mt_config text_config(const test_folder *folder, int64_t seed_byte) {
  unsigned char text[WINDOWS * SEQ];
  char path[TEST_PATH_BYTES];
  mt_config c = tiny_config();
  for (int i = 0; i < WINDOWS * SEQ; i++)
    text[i] = (unsigned char)(i / SEQ + seed_byte);
  test_file_write(test_path(folder, "text", path), text, sizeof text);
  c.data = MT_DATA_BYTES, c.vocab = 256, c.seq_len = SEQ;
  snprintf(c.data_path, sizeof c.data_path, "%s", path);
  return c;
}

/* Counts the windows of steps [first, first + steps) on all `ranks`; step `first` begins at window `start`. */
static void count_windows(mk_context *ctx, mt_config c, int ranks, int64_t step_windows, int64_t first, int64_t steps,
                          int64_t start, int *seen) {
  c.ranks = ranks, c.shard = MT_SHARD_DDP, c.rank_tokens = SEQ, c.global_tokens = step_windows * SEQ;
  for (int rank = 0; rank < ranks; rank++) {
    mt_data *data = NULL;
    int32_t tokens[SEQ], labels[SEQ];
    test_must(ctx, mt_data_create(ctx, &c, rank, &data), "data");
    mt_data_start(data, first, start);
    for (int64_t step = first; step < first + steps; step++) {
      for (int64_t m = 0; m < mt_config_microbatches(&c); m++) {
        test_must(ctx, mt_data_batch(data, step, m, tokens, labels), "batch");
        seen[tokens[0]] += 1;
      }
    }
    ck_assert_int_eq(mt_data_windows_before(data, first + steps), start + steps * step_windows);
    mt_data_destroy(data);
  }
}

START_TEST(no_window_twice_and_none_left_out) {
  static const struct {
    int ranks;
    int64_t step_windows, steps;
  } PARTS[] = {{4, 4, 3}, {2, 4, 2}, {4, 8, 2}, {1, 5, 1}, {2, 2, 4}, {1, 1, 1}}; /* 12+8+16+5+8+1 = 50 windows */
  mk_context ctx = {0};
  test_folder folder = test_folder_make();
  mt_config c = text_config(&folder, 0);
  for (int epoch = 0; epoch < 2; epoch++) {
    int seen[256] = {0};
    int64_t step = 0, window = epoch * WINDOWS;
    for (size_t i = 0; i < sizeof PARTS / sizeof PARTS[0]; i++) {
      count_windows(&ctx, c, PARTS[i].ranks, PARTS[i].step_windows, step, PARTS[i].steps, window, seen);
      step += PARTS[i].steps;
      window += PARTS[i].steps * PARTS[i].step_windows;
    }
    for (int i = 0; i < WINDOWS; i++)
      ck_assert_msg(seen[i] == 1, "epoch %d: window %d was given out %d times", epoch, i, seen[i]);
  }
  test_folder_remove(&folder);
}
END_TEST

static void fingerprint(mk_context *ctx, const mt_config *c, char out[MK_HASH_BYTES]) {
  mt_data *data = NULL;
  test_must(ctx, mt_data_create(ctx, c, 0, &data), "data");
  test_must(ctx, mt_data_fingerprint(data, out), "fingerprint");
  mt_data_destroy(data);
}

START_TEST(other_data_have_another_fingerprint) {
  mk_context ctx = {0};
  char same[MK_HASH_BYTES], moved[MK_HASH_BYTES], other[MK_HASH_BYTES], random[MK_HASH_BYTES];
  test_folder folder = test_folder_make(), second = test_folder_make();
  mt_config c = text_config(&folder, 0), elsewhere = text_config(&second, 0);
  fingerprint(&ctx, &c, same);
  fingerprint(&ctx, &elsewhere, moved); /* the same bytes under another name */
  ck_assert_str_eq(same, moved);
  c = text_config(&folder, 1);
  fingerprint(&ctx, &c, other);
  ck_assert_str_ne(same, other);
  c.data = MT_DATA_RANDOM;
  fingerprint(&ctx, &c, random);
  ck_assert_str_ne(same, random);
  test_folder_remove(&second);
  test_folder_remove(&folder);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("position");
  TCase *tc = tcase_create("data");
  tcase_add_test(tc, no_window_twice_and_none_left_out);
  tcase_add_test(tc, other_data_have_another_fingerprint);
  suite_add_tcase(s, tc);
  return s;
}

int main(void) { return test_main(suite()); }

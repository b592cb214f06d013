/* Which tokens a step sees: the same for every number of ranks and microbatches, each window once an epoch, labels by
 * the rule, held-out text apart from training text. */
#include "kernels/base/heap.h"
#include "tests/support/check_main.h"
#include "tests/support/files.h"
#include "trainer/data/data.h"
#include "trainer/data/shuffle.h"

enum { SEQ = 8, STEP_WINDOWS = 12, STEP_TOKENS = SEQ * STEP_WINDOWS };

static mt_config base_config(void) {
  mt_config c = mt_config_default();
  c.seq_len = SEQ;
  c.rank_tokens = SEQ;
  c.global_tokens = STEP_TOKENS;
  c.vocab = 1000;
  return c;
}

/* All blocks of a step in block order, by `dp` ranks of `block` windows. */
static void read_step(mk_context *ctx, mt_config c, int64_t dp, int64_t block, int64_t step, int32_t *tokens,
                      int32_t *labels) {
  c.ranks = dp;
  c.rank_tokens = block * SEQ;
  for (int64_t r = 0; r < dp; r++) {
    mt_data *data = NULL;
    test_must(ctx, mt_data_create(ctx, &c, r, &data), "create");
    for (int64_t m = 0; m < mt_config_microbatches(&c); m++) {
      int64_t at = mt_data_first_token(&c, r, m);
      ck_assert_int_eq(at, (m * dp + r) * c.rank_tokens);
      test_must(ctx, mt_data_batch(data, step, m, tokens + at, labels + at), "batch");
    }
    mt_data_destroy(data);
  }
}

static mt_config corpus(const test_folder *folder, char *path, size_t bytes, double holdout) {
  mt_config c = base_config();
  unsigned char *text = malloc(bytes > 0 ? bytes : 1);
  for (size_t i = 0; i < bytes; i++)
    text[i] = (unsigned char)(i / SEQ * 7 + i % SEQ); /* windows differ */
  test_file_write(test_path(folder, "corpus", path), text, bytes);
  free(text);
  c.data = MT_DATA_BYTES;
  c.holdout = holdout;
  snprintf(c.data_path, sizeof c.data_path, "%.500s", path);
  return c;
}

static const struct {
  int64_t dp, block;
} WORLDS[] = {{1, 1}, {1, 3}, {1, 12}, {2, 1}, {2, 6}, {3, 2}, {4, 3}, {12, 1}};

START_TEST(same_for_every_world) {
  mk_context ctx = {0};
  test_folder folder = test_folder_make();
  char path[TEST_PATH_BYTES];
  mt_config c = _i % 2 == 0 ? base_config() : corpus(&folder, path, 30 * SEQ, 0);
  c.label_shift_inside = _i / 2 % 2 == 0;
  int32_t want[STEP_TOKENS], want_labels[STEP_TOKENS], got[STEP_TOKENS], labels[STEP_TOKENS];
  for (int64_t step = 0; step < 5; step++) {
    read_step(&ctx, c, 1, 12, step, want, want_labels);
    for (size_t w = 0; w < sizeof WORLDS / sizeof WORLDS[0]; w++) {
      read_step(&ctx, c, WORLDS[w].dp, WORLDS[w].block, step, got, labels);
      ck_assert_msg(memcmp(want, got, sizeof got) == 0 && memcmp(want_labels, labels, sizeof got) == 0,
                    "step %lld differs with %lld ranks x blocks of %lld", (long long)step, (long long)WORLDS[w].dp,
                    (long long)WORLDS[w].block);
    }
  }
  ck_assert_int_eq(ctx.heap_live, 0);
  test_folder_remove(&folder);
}
END_TEST

START_TEST(label_rule) {
  mk_context ctx = {0};
  mt_config c = base_config();
  int32_t tokens[STEP_TOKENS], inside[STEP_TOKENS], every[STEP_TOKENS];
  read_step(&ctx, c, 1, 12, 0, tokens, inside);
  c.label_shift_inside = false;
  read_step(&ctx, c, 1, 12, 0, tokens, every);
  int64_t counted = 0;
  for (int i = 0; i < STEP_TOKENS; i++) {
    bool last = i % SEQ == SEQ - 1;
    ck_assert_int_eq(inside[i], last ? MT_LABEL_IGNORED : tokens[i + 1]);
    if (i + 1 < STEP_TOKENS) ck_assert_int_eq(every[i], tokens[i + 1]); /* the stream goes on */
    counted += inside[i] != MT_LABEL_IGNORED;
  }
  ck_assert_int_eq(mt_data_labels_per_step(&c), STEP_TOKENS);
  c.label_shift_inside = true;
  ck_assert_int_eq(mt_data_labels_per_step(&c), counted);
}
END_TEST

/* Random tokens: of the seed, inside the vocabulary, spread over it, evaluation apart from training. */
START_TEST(random_tokens) {
  mk_context ctx = {0};
  mt_config c = base_config();
  c.vocab = 4;
  c.eval_tokens = STEP_TOKENS;
  int32_t a[STEP_TOKENS], b[STEP_TOKENS], labels[STEP_TOKENS];
  int counts[4] = {0};
  for (int64_t step = 0; step < 50; step++) {
    read_step(&ctx, c, 1, 12, step, a, labels);
    for (int i = 0; i < STEP_TOKENS; i++) {
      ck_assert(a[i] >= 0 && a[i] < 4);
      counts[a[i]] += 1;
    }
  }
  for (int v = 0; v < 4; v++)
    ck_assert_msg(abs(counts[v] - 1200) < 150, "token %d: %d of 4800", v, counts[v]); /* 5 sigma */
  c.vocab = 1000;
  read_step(&ctx, c, 1, 12, 0, a, labels);
  c.seed += 1;
  read_step(&ctx, c, 1, 12, 0, b, labels);
  ck_assert_msg(memcmp(a, b, sizeof a) != 0, "the seed changes nothing");
  c.seed -= 1;
  mt_data *data = NULL;
  c.rank_tokens = STEP_TOKENS;
  test_must(&ctx, mt_data_create(&ctx, &c, 0, &data), "create");
  test_must(&ctx, mt_data_eval_batch(data, 0, b, labels), "eval");
  ck_assert_msg(memcmp(a, b, sizeof a) != 0, "evaluation sees training tokens");
  mt_data_destroy(data);
}
END_TEST

static const int64_t SIZES[] = {1, 2, 3, 4, 5, 7, 16, 17, 64, 65, 1000};

START_TEST(permutation) {
  int64_t n = SIZES[_i];
  int fixed = 0, same = 0;
  char seen[1000] = {0};
  for (int64_t i = 0; i < n; i++) {
    int64_t image = mt_shuffle(77, 3, n, i);
    ck_assert_msg(image >= 0 && image < n && !seen[image], "n %lld: %lld -> %lld", (long long)n, (long long)i,
                  (long long)image);
    seen[image] = 1;
    fixed += image == i;
    same += image == mt_shuffle(77, 4, n, i);
  }
  if (n >= 64) { /* a random permutation has one fixed point on average */
    ck_assert_msg(fixed <= 8, "n %lld: %d fixed points", (long long)n, fixed);
    ck_assert_msg(same <= 8, "n %lld: epochs agree in %d places", (long long)n, same);
  }
}
END_TEST

/* Neighbours of the order should not stay neighbours: successive images differ by +1 about once. */
START_TEST(no_runs) {
  int64_t n = 10000;
  int runs = 0;
  for (int64_t i = 1; i < n; i++)
    runs += mt_shuffle(5, 0, n, i) == mt_shuffle(5, 0, n, i - 1) + 1;
  ck_assert_msg(runs <= 10, "%d runs", runs);
}
END_TEST

/* 30 training windows, 12 a step: over five steps (two epochs) every window comes twice, and once in each epoch. */
START_TEST(epochs) {
  mk_context ctx = {0};
  test_folder folder = test_folder_make();
  char path[TEST_PATH_BYTES];
  mt_config c = corpus(&folder, path, 40 * SEQ + 5, 0.25);
  int32_t tokens[STEP_TOKENS], labels[STEP_TOKENS];
  int seen[2][256] = {{0}};
  int order_differs = 0;
  int32_t first_epoch[30];
  for (int64_t step = 0; step < 5; step++) {
    read_step(&ctx, c, 3, 2, step, tokens, labels);
    for (int w = 0; w < STEP_WINDOWS; w++) {
      int64_t g = step * STEP_WINDOWS + w;
      int32_t mark = tokens[w * SEQ]; /* 7 * window mod 256: unique below 256 windows */
      seen[g / 30][mark] += 1;
      if (g < 30) first_epoch[g] = mark;
      if (g >= 30) order_differs += first_epoch[g - 30] != mark;
      for (int i = 1; i < SEQ; i++)
        ck_assert_int_eq(tokens[w * SEQ + i], (mark + i) % 256);
    }
  }
  for (int e = 0; e < 2; e++) {
    for (int w = 0; w < 40; w++) {
      ck_assert_msg(seen[e][7 * w % 256] == (w < 30), "epoch %d: window %d came %d times", e, w, seen[e][7 * w % 256]);
    }
  }
  ck_assert_int_gt(order_differs, 20);
  test_folder_remove(&folder);
}
END_TEST

/* Held-out windows: in order, from the start of the tail, never seen in training; the rest of the last batch is
 * padding. */
START_TEST(held_out) {
  mk_context ctx = {0};
  test_folder folder = test_folder_make();
  char path[TEST_PATH_BYTES];
  mt_config c = corpus(&folder, path, 40 * SEQ, 0.25);
  c.eval_tokens = 7 * SEQ;
  c.ranks = 2;
  c.rank_tokens = 2 * SEQ;
  int seen[10] = {0};
  int64_t counted = 0;
  ck_assert_int_eq(mt_data_eval_microbatches(&c), 2);
  for (int64_t r = 0; r < 2; r++) {
    mt_data *data = NULL;
    test_must(&ctx, mt_data_create(&ctx, &c, r, &data), "create");
    for (int64_t m = 0; m < 2; m++) {
      int32_t tokens[2 * SEQ], batch_labels[2 * SEQ];
      test_must(&ctx, mt_data_eval_batch(data, m, tokens, batch_labels), "eval");
      for (int i = 0; i < 2; i++) {
        int64_t w = (m * 2 + r) * 2 + i;
        for (int j = 0; j < SEQ; j++) {
          bool pad = w >= 7;
          ck_assert_int_eq(tokens[i * SEQ + j], pad ? 0 : (int)((30 + w) * 7 + j) % 256);
          ck_assert_int_eq(batch_labels[i * SEQ + j], pad || j == SEQ - 1 ? MT_LABEL_IGNORED : tokens[i * SEQ + j + 1]);
          counted += batch_labels[i * SEQ + j] != MT_LABEL_IGNORED;
        }
        if (w < 7) seen[w] += 1;
      }
    }
    mt_data_destroy(data);
  }
  for (int w = 0; w < 7; w++)
    ck_assert_int_eq(seen[w], 1);
  ck_assert_int_eq(counted, mt_data_eval_labels(&c));
  test_folder_remove(&folder);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("data");
  TCase *tcase = test_case(suite, "order", 60);
  tcase_add_loop_test(tcase, same_for_every_world, 0, 4);
  tcase_add_test(tcase, label_rule);
  tcase_add_test(tcase, random_tokens);
  tcase_add_loop_test(tcase, permutation, 0, (int)(sizeof SIZES / sizeof SIZES[0]));
  tcase_add_test(tcase, no_runs);
  tcase_add_test(tcase, epochs);
  tcase_add_test(tcase, held_out);
  return test_main(suite);
}

/* Mutated study files must give a study or faults, never a crash or a leak. Fixed seed; run under ASan in CI. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "kernels/base/rng.h"
#include "suite/study/study.h"
#include "tests/support/check_main.h"

enum { ROUNDS = 1500, SEED = 20260101 };

static uint64_t draw_state;

/* SplitMix64 (Steele et al. 2014): enough for choosing bytes. */
static uint64_t draw(uint64_t below) {
  draw_state += 0x9e3779b97f4a7c15u;
  uint64_t z = draw_state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (z ^ (z >> 31)) % below;
}

static const char *const TOKENS[] = {"{",   "}",    "[",      "]",  ":",    ",",         "\"",
                                     "&a ", "*a",   "!!int ", "\n", "- ",   "---\n",     "? ",
                                     "|\n", "<<: ", "1e999",  "-1", "\xff", "%YAML 9\n", "'"};

static size_t mutate(char *text, size_t bytes, size_t room) {
  for (uint64_t i = 0, n = 1 + draw(4); i < n; i++) {
    size_t at = (size_t)draw(bytes);
    const char *token = TOKENS[draw(sizeof TOKENS / sizeof TOKENS[0])];
    size_t length = strlen(token), cut = (size_t)draw(40);
    switch (draw(4)) {
      case 0:
        text[at] = (char)draw(256);
        break;
      case 1: /* cut out */
        if (at + cut < bytes) {
          memmove(text + at, text + at + cut, bytes - at - cut);
          bytes -= cut;
        }
        break;
      case 2: /* repeat a piece */
        if (at + cut < bytes && bytes + cut < room) {
          memmove(text + at + cut, text + at, bytes - at);
          bytes += cut;
        }
        break;
      default: /* put a token in */
        if (bytes + length < room) {
          memmove(text + at + length, text + at, bytes - at);
          memcpy(text + at, token, length);
          bytes += length;
        }
    }
  }
  return bytes;
}

static void read_one(const char *path, const char *text, size_t bytes, int round) {
  FILE *file = fopen(path, "wb");
  ck_assert(file != NULL && fwrite(text, 1, bytes, file) == bytes && fclose(file) == 0);
  mk_context ctx = {0};
  ms_diagnostics diag = {0};
  ms_study *study = NULL;
  mk_status st = ms_study_read(&ctx, path, &diag, &study);
  ck_assert_msg((st == MK_OK) == (study != NULL), "seed %d, round %d: status %d", SEED, round, st);
  ck_assert_msg(st == MK_OK || (st == MK_ERR_CONFIG && diag.count > 0), "seed %d, round %d: status %d, %s", SEED, round,
                st, ctx.error.message);
  ms_study_destroy(&ctx, study);
  ms_diagnostics_fini(&ctx, &diag);
  ck_assert_msg(ctx.heap_live == 0, "seed %d, round %d: %lld blocks leaked", SEED, round, ctx.heap_live);
}

START_TEST(test_mutations) {
  mk_context ctx = {0};
  char *seed = NULL, *text = NULL, path[128];
  size_t bytes = 0;
  draw_state = SEED;
  ck_assert_int_eq(mk_file_read(&ctx, TEST_DATA "/good.yaml", &seed, &bytes), MK_OK);
  ck_assert_int_eq(mk_heap_alloc(&ctx, bytes + 4096, &text), MK_OK);
  snprintf(path, sizeof path, "/tmp/moemark-fuzz-%ld.yaml", (long)getpid());
  for (int round = 0; round < ROUNDS; round++) {
    memcpy(text, seed, bytes);
    read_one(path, text, mutate(text, bytes, bytes + 4096), round);
  }
  unlink(path);
  mk_heap_free(&ctx, text);
  mk_heap_free(&ctx, seed);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("study_fuzz");
  TCase *tcase = test_case(suite, "mutations", 240);
  tcase_add_test(tcase, test_mutations);
  return test_main(suite);
}

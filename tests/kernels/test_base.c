/* kernels/base: random numbers, BF16 rounding, tensors, the heap's counters and faults, the error record,
 * command lines. */
#include <math.h>
#include <stdlib.h>

#include "kernels/base/arguments.h"
#include "kernels/base/heap.h"
#include "kernels/base/rng.h"
#include "kernels/base/tensor.h"
#include "tests/support/check_main.h"

/* Known-answer vectors of Philox4x32-10 from Random123 (kat_vectors): counter, key, result. */
START_TEST(philox_known_answers) {
  static const struct {
    uint32_t counter[4], key[2], want[4];
  } kat[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (int i = 0; i < 3; i++) {
    uint64_t seed = kat[i].key[0] | (uint64_t)kat[i].key[1] << 32;
    uint64_t index = kat[i].counter[0] | (uint64_t)kat[i].counter[1] << 32;
    mk_rng_block got = mk_rng_draw(seed, kat[i].counter[3], kat[i].counter[2], index);
    for (int w = 0; w < 4; w++)
      ck_assert_uint_eq(got.word[w], kat[i].want[w]);
  }
}
END_TEST

START_TEST(rng_unit_range) {
  ck_assert(mk_rng_unit(0) == 0.0f);
  ck_assert(mk_rng_unit(~0u) < 1.0f);
  ck_assert(mk_rng_unit(0x80000000u) == 0.5f);
}
END_TEST

static float from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Ties go to the even neighbour; the largest finite values round to infinity; NaN stays NaN, even if its payload lies
 * in the bits that are cut. */
START_TEST(bf16_edges) {
  static const struct {
    uint32_t bits;
    mk_bf16 want;
  } edge[] = {
      {0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81}, {0x3f807fff, 0x3f80},
      {0x00000000, 0x0000}, {0x80000000, 0x8000}, {0x7f7f7fff, 0x7f7f}, {0x7f7f8000, 0x7f80}, {0x7f7fffff, 0x7f80},
      {0xff7fffff, 0xff80}, {0x7f800000, 0x7f80}, {0xff800000, 0xff80}, {0x00008000, 0x0000}, {0x00008001, 0x0001},
      {0x00018000, 0x0002}, {0x007fffff, 0x0080}, {0xbf818000, 0xbf82},
  };
  for (size_t i = 0; i < sizeof edge / sizeof edge[0]; i++) {
    mk_bf16 got = mk_f32_to_bf16(from_bits(edge[i].bits));
    ck_assert_msg(got == edge[i].want, "%08x: got %04x, expected %04x", edge[i].bits, got, edge[i].want);
  }
  static const uint32_t nans[] = {0x7f800001, 0x7fc00000, 0xffffffff, 0x7f80ffff, 0xff800001};
  for (int i = 0; i < 5; i++)
    ck_assert(isnan(mk_bf16_to_f32(mk_f32_to_bf16(from_bits(nans[i])))));
}
END_TEST

START_TEST(bf16_round_trip) {
  for (uint32_t bits = 0; bits < 0x10000; bits++) {
    float value = mk_bf16_to_f32((mk_bf16)bits);
    if (isnan(value)) continue;
    ck_assert_uint_eq(mk_f32_to_bf16(value), bits);
  }
}
END_TEST

/* Never further away than either neighbour. */
START_TEST(bf16_is_nearest) {
  for (uint64_t i = 0; i < 200000; i++) {
    float value = from_bits(mk_rng_draw(1, MK_RNG_TEST, 0, i).word[0]);
    if (!isfinite(value) || fabsf(value) > 3e38f) continue;
    mk_bf16 got = mk_f32_to_bf16(value);
    double error = fabs((double)mk_bf16_to_f32(got) - (double)value);
    double up = fabs((double)mk_bf16_to_f32((mk_bf16)(got + 1)) - (double)value);
    double down = (got & 0x7fff) == 0 ? error : fabs((double)mk_bf16_to_f32((mk_bf16)(got - 1)) - (double)value);
    ck_assert_msg(error <= up && error <= down, "%a became %a", value, mk_bf16_to_f32(got));
    if (error == up || error == down) ck_assert((got & 1) == 0 || error == 0);
  }
}
END_TEST

START_TEST(tensor_views) {
  float data[24];
  char text[64];
  mk_tensor t = mk_tensor_2d(MK_F32, 4, 6);
  t.data = data;
  ck_assert_int_eq(mk_tensor_count(&t), 24);
  ck_assert_uint_eq(mk_tensor_bytes(&t), 96);
  mk_tensor rows = mk_tensor_rows(&t, 1, 2);
  ck_assert_ptr_eq(rows.data, &data[6]);
  ck_assert_int_eq(mk_tensor_count(&rows), 12);
  mk_tensor slice = mk_tensor_slice(&t, 5, 3);
  ck_assert_ptr_eq(slice.data, &data[5]);
  ck_assert_int_eq(slice.n_dims, 1);
  ck_assert_str_eq(mk_tensor_describe(&t, text, sizeof text), "f32[4,6]");
  mk_tensor flat = mk_tensor_as_2d(&t, 2, 12);
  ck_assert(!mk_tensor_same_shape(&t, &flat));
  mk_tensor absent = {0};
  ck_assert_int_eq(mk_tensor_count(&absent), 0);
  mk_tensor empty = mk_tensor_2d(MK_F32, 0, 6), none = mk_tensor_rows(&empty, 0, 0);
  ck_assert_int_eq(mk_tensor_count(&none), 0);
}
END_TEST

START_TEST(heap_counts_and_fails_on_request) {
  mk_context ctx = {.heap_fail_at = 2};
  char *a = NULL, *b = NULL;
  ck_assert_int_eq(mk_heap_alloc(&ctx, 100, &a), MK_OK);
  for (int i = 0; i < 100; i++)
    ck_assert_int_eq(a[i], 0);
  ck_assert_int_eq(mk_heap_alloc(&ctx, 100, &b), MK_ERR_MEMORY);
  ck_assert_ptr_null(b);
  ck_assert_int_eq(ctx.error.status, MK_ERR_MEMORY);
  mk_error_clear(&ctx);
  ck_assert_int_eq(mk_heap_resize(&ctx, &b, 10), MK_OK);
  ck_assert_int_eq(ctx.heap_live, 2);
  ck_assert_int_eq(ctx.heap_calls, 3);
  mk_heap_free(&ctx, a);
  mk_heap_free(&ctx, b);
  mk_heap_free(&ctx, NULL);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

static mk_status two_blocks(mk_context *ctx, char **out) {
  MK_TRY(ctx, mk_heap_printf(ctx, out, "%d", 17)); /* the line that the message names */
  return mk_heap_resize(ctx, out, 1000);
}

/* The message of a lack of memory names who asked, once, and keeps it on the way up; a later lack changes nothing. */
START_TEST(a_heap_failure_names_its_place) {
  mk_context ctx = {.heap_fail_at = 1};
  char *text = NULL, said[MK_MESSAGE_BYTES];
  ck_assert_int_eq(mk_trace(&ctx, two_blocks(&ctx, &text), "/a/b/outer.c", 7), MK_ERR_MEMORY);
  snprintf(said, sizeof said, "out of host memory: could not allocate 3 bytes (test_base.c:%d)",
           ctx.error.frames[1].line);
  ck_assert_str_eq(ctx.error.message, said);
  ck_assert_int_eq(ctx.error.n_frames, 3);
  ctx.heap_fail_at = 2;
  ck_assert_int_eq(mk_trace(&ctx, mk_heap_resize(&ctx, &text, 9), "other.c", 1), MK_ERR_MEMORY);
  ck_assert_str_eq(ctx.error.message, said);
  mk_error_clear(&ctx);
  ctx.heap_fail_at = 4;
  ck_assert_int_eq(mk_trace(&ctx, two_blocks(&ctx, &text), "/a/b/outer.c", 7), MK_ERR_MEMORY);
  ck_assert_str_eq(ctx.error.message, "out of host memory: could not resize to 1000 bytes (outer.c:7)");
  mk_heap_free(&ctx, text);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

START_TEST(heap_refuses_overflow) {
  mk_context ctx = {0};
  void *block = NULL;
  ck_assert_int_eq(mk_heap_array(&ctx, SIZE_MAX / 4, 8, &block), MK_ERR_MEMORY);
  ck_assert_ptr_null(block);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

static mk_status fails(mk_context *ctx) { return MK_FAIL(ctx, MK_ERR_IO, "first %d", 1); }

static mk_status passes_on(mk_context *ctx) {
  MK_TRY(ctx, fails(ctx));
  return MK_OK;
}

START_TEST(the_first_error_is_kept) {
  mk_context ctx = {0};
  ck_assert_int_eq(passes_on(&ctx), MK_ERR_IO);
  ck_assert_int_eq(MK_FAIL(&ctx, MK_ERR_ARG, "second"), MK_ERR_ARG);
  ck_assert_int_eq(ctx.error.status, MK_ERR_IO);
  ck_assert_str_eq(ctx.error.message, "first 1");
  ck_assert_int_eq(ctx.error.n_frames, 2);
  mk_error_clear(&ctx);
  ck_assert_int_eq(ctx.error.status, MK_OK);
  ck_assert_str_eq(mk_status_name(MK_ERR_UNSUPPORTED), "unsupported");
}
END_TEST

START_TEST(a_message_stays_one_line) {
  mk_context ctx = {0};
  MK_FAIL(&ctx, MK_ERR_CONFIG, "key: <%s> is wrong", "a\nb\033[2J\x7fz");
  ck_assert_str_eq(ctx.error.message, "key: <a?b?[2J?z> is wrong");
  mk_error_prefix(&ctx, "a file\n");
  ck_assert_str_eq(ctx.error.message, "a file?: key: <a?b?[2J?z> is wrong");
  char is_long[2 * MK_MESSAGE_BYTES];
  memset(is_long, 'x', sizeof is_long - 1);
  is_long[sizeof is_long - 1] = '\0';
  mk_error_clear(&ctx);
  MK_FAIL(&ctx, MK_ERR_CONFIG, "%s", is_long);
  mk_error_prefix(&ctx, is_long);
  ck_assert_int_eq((int)strlen(ctx.error.message), MK_MESSAGE_BYTES - 1);
}
END_TEST

static const struct argp_option CHILD_OPTIONS[] = {
    {"scale", 's', "NAME", 0, "", 0}, {"set", 'S', "PAIR", 0, "", 0}, {0}};
static const struct argp CHILD = {.options = CHILD_OPTIONS};
static const struct argp_child CHILDREN[] = {{&CHILD, 0, NULL, 0}, {0}};
static const struct argp_option PARENT_OPTIONS[] = {{"out", 'o', "DIR", 0, "", 0},
                                                    {"strict", 256, NULL, 0, "", 0},
                                                    {"quiet", 'q', NULL, 0, "", 0},
                                                    {"launches", 257, "N", 0, "", 0},
                                                    {0}};

static error_t parse_options(int key, char *arg, struct argp_state *state) {
  (void)arg;
  return key == 257 ? mk_arguments_fail(state->input, "--launches: '%s' is no number", arg)
         : key > 0  ? 0
                    : ARGP_ERR_UNKNOWN;
}

START_TEST(wrong_options_are_one_message) {
  static const struct argp argp = {.options = PARENT_OPTIONS, .parser = parse_options, .children = CHILDREN};
  static const struct {
    const char *word[4];
    const char *said; /* NULL: nothing is wrong */
  } CASES[] = {
      {{"file", "-q", "--out=x"}, NULL},
      {{"-qo", "x", "--stric"}, NULL},
      {{"--", "--bogus"}, NULL},
      {{"--lanches", "3"}, "unknown option '--lanches'; the nearest is '--launches' (b --help lists all)"},
      {{"--s", "x"}, "option '--s' may be --strict or --scale or --set; write it out (b --help)"},
      {{"file", "--out"}, "option '--out' needs a value (b --help)"},
      {{"-q", "-o"}, "option '-o' needs a value (b --help)"},
      {{"-qz"}, "unknown option '-z' (b --help lists all)"},
      {{"--quiet=3"}, "option '--quiet=3' takes no value (b --help)"},
      {{"--launches", "x"}, "--launches: 'x' is no number"},
  };
  for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
    mk_context ctx = {0};
    char name[] = "a/b", copy[4][16];
    char *argv[6] = {name};
    int argc = 1, first = 0;
    for (int w = 0; w < 4 && CASES[i].word[w] != NULL; w++) {
      snprintf(copy[w], sizeof copy[w], "%s", CASES[i].word[w]);
      argv[argc++] = copy[w];
    }
    mk_status st = mk_arguments_parse(&ctx, &argp, argc, argv, &first, &ctx);
    ck_assert_msg(st == (CASES[i].said == NULL ? MK_OK : MK_ERR_CONFIG), "case %zu: status %d", i, st);
    ck_assert_str_eq(ctx.error.message, CASES[i].said == NULL ? "" : CASES[i].said);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("base");
  TCase *tcase = test_case(suite, "base", 60);
  tcase_add_test(tcase, philox_known_answers);
  tcase_add_test(tcase, rng_unit_range);
  tcase_add_test(tcase, bf16_edges);
  tcase_add_test(tcase, bf16_round_trip);
  tcase_add_test(tcase, bf16_is_nearest);
  tcase_add_test(tcase, tensor_views);
  tcase_add_test(tcase, heap_counts_and_fails_on_request);
  tcase_add_test(tcase, a_heap_failure_names_its_place);
  tcase_add_test(tcase, heap_refuses_overflow);
  tcase_add_test(tcase, the_first_error_is_kept);
  tcase_add_test(tcase, a_message_stays_one_line);
  tcase_add_test(tcase, wrong_options_are_one_message);
  return test_main(suite);
}

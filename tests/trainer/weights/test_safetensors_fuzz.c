/* Damaged safetensors headers, fixed seeds: each is read or refused, never more (run it under the sanitizers).
 * A header that is accepted must describe ranges inside the data, and names that are found again. */
#include "kernels/base/rng.h"
#include "tests/support/check_main.h"
#include "tests/support/files.h"
#include "trainer/checkpoint/safetensors_header.h"

enum { ROUNDS = 40000, DATA_BYTES = 64, TEXT_BYTES = 512 };

static const char *const SEEDS[] = {
    "{\"__metadata__\":{\"format\":\"pt\"},\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[0,32]},"
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[16],\"data_offsets\":[32,64]}}",
    "{\"z\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[56,64]},\"y\":{\"dtype\":\"U8\",\"shape\":[0,3],"
    "\"data_offsets\":[56,56]},\"x\":{\"dtype\":\"F64\",\"shape\":[7],\"data_offsets\":[0,56]}}   ",
    "{\"\\u0041\\n\":{\"dtype\":\"I32\",\"shape\":[4,4],\"data_offsets\":[0,64]}}",
};

static const char *const TOKENS[] = {"{",
                                     "}",
                                     "[",
                                     "]",
                                     "\"",
                                     ",",
                                     ":",
                                     "-1",
                                     "0",
                                     "1e18",
                                     "9223372036854775807",
                                     "18446744073709551616",
                                     "null",
                                     "[[[[[[[[",
                                     "\\u0000",
                                     "\\ud800",
                                     "F32",
                                     "64"};

static uint32_t draw(uint64_t round, uint32_t which) {
  return mk_rng_draw(20260101, MK_RNG_TEST, which, round).word[0];
}

/* One to four edits: flip a byte, delete, repeat a range, insert a token, cut. Returns the new length. */
static size_t mutate(uint64_t round, const char *seed, char *text) {
  size_t length = strlen(seed);
  memcpy(text, seed, length + 1);
  int edits = 1 + (int)(draw(round, 0) % 4);
  for (int e = 0; e < edits && length > 2; e++) {
    size_t at = draw(round, 10u + (uint32_t)e) % length, span = 1 + draw(round, 20u + (uint32_t)e) % 12;
    const char *token = TOKENS[draw(round, 30u + (uint32_t)e) % (sizeof TOKENS / sizeof TOKENS[0])];
    if (span > length - at) span = length - at;
    switch (draw(round, 40u + (uint32_t)e) % 5) {
      case 0:
        text[at] = (char)(1 + draw(round, 50u + (uint32_t)e) % 255);
        break;
      case 1:
        memmove(text + at, text + at + span, length - at - span + 1);
        length -= span;
        break;
      case 2:
        memmove(text + at + span, text + at, length - at + 1);
        length += span;
        break;
      case 3:
        memmove(text + at + strlen(token), text + at, length - at + 1);
        memcpy(text + at, token, strlen(token));
        length += strlen(token);
        break;
      default:
        text[length = at] = '\0';
        break;
    }
  }
  return length;
}

START_TEST(headers) {
  mk_context ctx = {0};
  int accepted = 0, refused = 0;
  char *text = malloc(TEXT_BYTES);
  for (uint64_t round = 0; round < ROUNDS; round++) {
    mt_st_header h = {0};
    size_t length = mutate(round, SEEDS[round % 3], text);
    ck_assert_uint_lt(length, TEXT_BYTES);
    char *exact = malloc(length + 1); /* so that a read past the end is seen */
    memcpy(exact, text, length + 1);
    mk_status st = mt_st_header_parse(&ctx, "fuzz", exact, (int64_t)length, DATA_BYTES, &h);
    int64_t covered = 0;
    for (int64_t i = 0; st == MK_OK && i < h.count; i++) {
      int64_t bytes = h.tensors[i].count * (int64_t)mk_dtype_bytes(h.tensors[i].dtype);
      ck_assert_msg(bytes >= 0 && h.tensors[i].begin_bytes + bytes <= DATA_BYTES, "round %llu: %s",
                    (unsigned long long)round, text);
      covered += bytes;
    }
    ck_assert_msg(st != MK_OK || covered == DATA_BYTES, "round %llu: %s", (unsigned long long)round, text);
    accepted += st == MK_OK;
    refused += st != MK_OK;
    if (st == MK_OK) mt_st_header_fini(&ctx, &h);
    mk_error_clear(&ctx);
    free(exact);
    ck_assert_msg(ctx.heap_live == 0, "round %llu leaks", (unsigned long long)round);
  }
  free(text);
  /* both ways are taken, else the mutations are too weak or too strong to test anything */
  ck_assert_int_gt(accepted, ROUNDS / 1000);
  ck_assert_int_gt(refused, ROUNDS / 2);
}
END_TEST

/* Whole files: bytes of the length field and the header changed on disk, then every value read. */
START_TEST(files) {
  mk_context ctx = {0};
  test_folder folder = test_folder_make();
  char path[TEST_PATH_BYTES], image[TEXT_BYTES];
  test_path(&folder, "x", path);
  for (uint64_t round = 0; round < 500; round++) {
    uint64_t length = strlen(SEEDS[round % 3]);
    size_t total = 8 + length + DATA_BYTES;
    memset(image, 0x55, sizeof image);
    memcpy(image, &length, 8);
    memcpy(image + 8, SEEDS[round % 3], length);
    for (uint32_t e = 0; e < 1 + round % 3; e++)
      image[draw(round, e) % (8 + length)] ^= (char)(1 << draw(round, 9 + e) % 8);
    test_file_write(path, image, total - (round % 7 == 6 ? draw(round, 20) % total : 0));
    mt_st_reader *r = NULL;
    if (mt_st_reader_create(&ctx, path, &r) == MK_OK) {
      for (int64_t i = 0; i < mt_st_reader_count(r); i++) {
        char values[DATA_BYTES];
        const mt_st_tensor *t = mt_st_reader_at(r, i);
        test_must(&ctx, mt_st_reader_get(r, t, 0, t->count, t->dtype, values), "read");
        ck_assert_ptr_eq(mt_st_reader_find(r, t->name), t);
      }
      mt_st_reader_destroy(r);
    }
    mk_error_clear(&ctx);
    ck_assert_int_eq(ctx.heap_live, 0);
  }
  test_folder_remove(&folder);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("safetensors fuzz");
  TCase *tcase = test_case(suite, "damage", 250);
  tcase_add_test(tcase, headers);
  tcase_add_test(tcase, files);
  return test_main(suite);
}

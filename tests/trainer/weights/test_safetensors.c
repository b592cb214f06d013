/* Safetensors files: round trips, conversions, every refusal of a damaged header, atomic writing. */
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/support/check_main.h"
#include "tests/support/files.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/checkpoint/safetensors_header.h"
#include "trainer/checkpoint/safetensors_set.h"

static const float F32[6] = {0.0f, -1.5f, 3.25e-20f, 1e30f, -0.0f, 7.0f};
static const double F64[2] = {0.1, -1e300};
static const mk_bf16 BF16[3] = {0x3f80, 0xc049, 0x0001};
static const int32_t I32[4] = {-100, 0, 2147483647, -2147483647 - 1};
static const int64_t I64[1] = {1234567890123456789};
static const unsigned char U8[5] = {0, 1, 127, 128, 255};

static const mt_st_tensor SPECS[] = {
    {.name = "bytes", .dtype = MK_U8, .n_dims = 1, .dim = {5}},
    {.name = "a/\"quoted\" \xc3\xa9", .dtype = MK_F32, .n_dims = 2, .dim = {2, 3}},
    {.name = "empty", .dtype = MK_F32, .n_dims = 2, .dim = {0, 7}},
    {.name = "wide", .dtype = MK_F64, .n_dims = 1, .dim = {2}},
    {.name = "scalar", .dtype = MK_I64, .n_dims = 0},
    {.name = "half", .dtype = MK_BF16, .n_dims = 3, .dim = {1, 3, 1}},
    {.name = "ints", .dtype = MK_I32, .n_dims = 1, .dim = {4}},
};
static const void *const VALUES[] = {U8, F32, F32, F64, I64, BF16, I32};
enum { N_SPECS = sizeof SPECS / sizeof SPECS[0] };

/* A folder for the file at `path`, and its reader. */
typedef struct file_fixture {
  mk_context ctx;
  test_folder folder;
  char path[TEST_PATH_BYTES];
  mt_st_reader *r;
} file_fixture;

static file_fixture begin(void) {
  file_fixture f = {.folder = test_folder_make()};
  test_path(&f.folder, "x.safetensors", f.path);
  return f;
}

static void end(file_fixture *f) {
  mt_st_reader_destroy(f->r);
  test_folder_remove(&f->folder);
  ck_assert_int_eq(f->ctx.heap_live, 0);
}

static mk_status write_specs(mk_context *ctx, const char *path) {
  static const char *const metadata[] = {"format", "pt", "note", "two\nlines", NULL};
  mt_st_writer *w = NULL;
  mk_status st = mt_st_writer_create(ctx, path, SPECS, N_SPECS, metadata, &w);
  for (int i = N_SPECS - 1; i >= 0 && st == MK_OK; i--) { /* any order of tensors */
    int64_t count = 1;
    for (int d = 0; d < SPECS[i].n_dims; d++)
      count *= SPECS[i].dim[d];
    st = mt_st_writer_put(w, i, VALUES[i], count / 2); /* in pieces */
    const char *rest = (const char *)VALUES[i] + (size_t)(count / 2) * mk_dtype_bytes(SPECS[i].dtype);
    if (st == MK_OK) st = mt_st_writer_put(w, i, rest, count - count / 2);
  }
  if (st == MK_OK) st = mt_st_writer_commit(w);
  mt_st_writer_destroy(w);
  return st;
}

/* With the file of all SPECS in place. */
static file_fixture begin_written(void) {
  file_fixture f = begin();
  test_must(&f.ctx, write_specs(&f.ctx, f.path), "write");
  return f;
}

START_TEST(round_trip) {
  file_fixture f = begin_written();
  test_must(&f.ctx, mt_st_reader_create(&f.ctx, f.path, &f.r), "open");
  ck_assert_int_eq(mt_st_reader_count(f.r), N_SPECS);
  ck_assert_str_eq(mt_st_reader_metadata(f.r, "note"), "two\nlines");
  ck_assert_ptr_null(mt_st_reader_metadata(f.r, "absent"));
  ck_assert_ptr_null(mt_st_reader_find(f.r, "absent"));
  for (int i = 0; i < N_SPECS; i++) {
    const mt_st_tensor *t = mt_st_reader_find(f.r, SPECS[i].name);
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(t->dtype, SPECS[i].dtype);
    ck_assert_int_eq(t->n_dims, SPECS[i].n_dims);
    for (int d = 0; d < t->n_dims; d++)
      ck_assert_int_eq(t->dim[d], SPECS[i].dim[d]);
    char got[64];
    test_must(&f.ctx, mt_st_reader_get(f.r, t, 0, t->count, t->dtype, got), "get");
    ck_assert_msg(memcmp(got, VALUES[i], (size_t)t->count * mk_dtype_bytes(t->dtype)) == 0, "%s differs", t->name);
    /* every tensor is aligned to its element for readers that map the file */
    ck_assert_int_eq(t->begin_bytes % (int64_t)mk_dtype_bytes(t->dtype), 0);
  }
  end(&f);
}
END_TEST

START_TEST(conversions) {
  file_fixture f = begin_written();
  test_must(&f.ctx, mt_st_reader_create(&f.ctx, f.path, &f.r), "open");
  double wide[6];
  float narrow[6];
  int64_t whole[5];
  int32_t small[4];
  test_must(&f.ctx, mt_st_reader_get(f.r, mt_st_reader_find(f.r, "half"), 1, 2, MK_F64, wide), "bf16 as f64");
  ck_assert(wide[0] == -3.140625 && wide[1] == ldexp(1, -133));
  test_must(&f.ctx, mt_st_reader_get(f.r, mt_st_reader_find(f.r, "wide"), 0, 1, MK_F32, narrow), "f64 as f32");
  ck_assert(narrow[0] == 0.1f);
  test_must(&f.ctx, mt_st_reader_get(f.r, mt_st_reader_find(f.r, "bytes"), 0, 5, MK_I64, whole), "u8 as i64");
  ck_assert(whole[3] == 128 && whole[4] == 255);
  test_must(&f.ctx, mt_st_reader_get(f.r, mt_st_reader_find(f.r, "bytes"), 1, 4, MK_I32, small), "u8 as i32");
  ck_assert(small[0] == 1 && small[3] == 255);
  TEST_ERROR(&f.ctx, mt_st_reader_get(f.r, mt_st_reader_find(f.r, "scalar"), 0, 1, MK_I32, small), MK_ERR_FORMAT,
             f.path, "'scalar'", "element 0", "1234567890123456789");
  TEST_ERROR(&f.ctx, mt_st_reader_get(f.r, mt_st_reader_find(f.r, "ints"), 0, 1, MK_F32, narrow), MK_ERR_FORMAT,
             "'ints'");
  TEST_ERROR(&f.ctx, mt_st_reader_get(f.r, mt_st_reader_find(f.r, "ints"), 3, 2, MK_I32, small), MK_ERR_ARG, "3 + 2",
             "of 4");
  end(&f);
}
END_TEST

/* A tensor larger than the conversion buffer, read from the middle. */
START_TEST(large_conversion) {
  enum { N = 100003 };
  static mk_bf16 values[N];
  static float got[N];
  file_fixture f = begin();
  mt_st_writer *w = NULL;
  for (int i = 0; i < N; i++)
    values[i] = (mk_bf16)(i % 0x7f00);
  mt_st_tensor spec = {.name = "t", .dtype = MK_BF16, .n_dims = 1, .dim = {N}};
  test_must(&f.ctx, mt_st_writer_create(&f.ctx, f.path, &spec, 1, NULL, &w), "create");
  test_must(&f.ctx, mt_st_writer_put(w, 0, values, N), "put");
  test_must(&f.ctx, mt_st_writer_commit(w), "commit");
  mt_st_writer_destroy(w);
  test_must(&f.ctx, mt_st_reader_create(&f.ctx, f.path, &f.r), "open");
  test_must(&f.ctx, mt_st_reader_get(f.r, mt_st_reader_at(f.r, 0), 3, N - 3, MK_F32, got), "get");
  for (int i = 3; i < N; i++)
    ck_assert_msg(got[i - 3] == mk_bf16_to_f32(values[i]), "element %d", i);
  end(&f);
}
END_TEST

/* Headers over 16 bytes of data; each must be refused with these words. */
static const struct {
  const char *header, *word;
  mk_status status;
} REFUSED[] = {
    {"", "header: empty", MK_ERR_FORMAT},
    {"[1]", "header:1:1: a JSON object is expected", MK_ERR_FORMAT},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}}", "this is not JSON", MK_ERR_FORMAT},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}", "this is not JSON", MK_ERR_FORMAT},
    {"{\"a\":7}", "'a'", MK_ERR_FORMAT},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4]}}", "expected an object", MK_ERR_FORMAT},
    {"{\"a\":{\"dtype\":\"F16\",\"shape\":[8],\"data_offsets\":[0,16]}}", "F16", MK_ERR_UNSUPPORTED},
    {"{\"a\":{\"dtype\":\"Q7\",\"shape\":[4],\"data_offsets\":[0,16]}}", "'Q7'", MK_ERR_FORMAT},
    {"{\"a\":{\"dtype\":1,\"shape\":[4],\"data_offsets\":[0,16]}}", "dtype", MK_ERR_FORMAT},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":4,\"data_offsets\":[0,16]}}", "shape", MK_ERR_FORMAT},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-4],\"data_offsets\":[0,16]}}", "dim 0", MK_ERR_FORMAT},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2,2.5],\"data_offsets\":[0,16]}}", "dim 1", MK_ERR_FORMAT},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,4],\"data_offsets\":[0,16]}}", "more than 8", MK_ERR_FORMAT},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,16]}}", "2^63", MK_ERR_FORMAT},
    {"{\"a\":{\"dtype\":\"F64\",\"shape\":[4294967296,1073741824],\"data_offsets\":[0,16]}}", "16 bytes",
     MK_ERR_FORMAT},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,16]}}", "F32[3]", MK_ERR_FORMAT},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0]}}", "data_offsets", MK_ERR_FORMAT},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,0]}}", "16 to 0", MK_ERR_FORMAT},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[0,20]}}", "0 to 20", MK_ERR_FORMAT},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,1e300]}}", "whole", MK_ERR_FORMAT},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "cover 8", MK_ERR_FORMAT},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}", "starts at byte 8 where 0", MK_ERR_FORMAT},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}",
     "'b': starts at byte 8 where 12", MK_ERR_FORMAT},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}",
     "'a' stands twice", MK_ERR_FORMAT},
    {"{\"__metadata__\":{\"k\":1},\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", "'k'",
     MK_ERR_FORMAT},
    {"{\"__metadata__\":[]}", "__metadata__", MK_ERR_FORMAT},
};

START_TEST(refused_headers) {
  mk_context ctx = {0};
  mt_st_header h = {0};
  const char *text = REFUSED[_i].header;
  mk_status st = mt_st_header_parse(&ctx, "file.x", text, (int64_t)strlen(text), 16, &h);
  TEST_ERROR(&ctx, st, REFUSED[_i].status, "file.x", REFUSED[_i].word);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

START_TEST(refused_files) {
  file_fixture f = begin();
  TEST_ERROR(&f.ctx, mt_st_reader_create(&f.ctx, f.path, &f.r), MK_ERR_IO, f.path, "cannot open");
  TEST_ERROR(&f.ctx, mt_st_reader_create(&f.ctx, f.folder.path, &f.r), MK_ERR_IO, "not a regular file");
  test_file_write(f.path, "1234567", 7);
  TEST_ERROR(&f.ctx, mt_st_reader_create(&f.ctx, f.path, &f.r), MK_ERR_FORMAT, f.path, "7 bytes");
  test_file_write(f.path, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
  TEST_ERROR(&f.ctx, mt_st_reader_create(&f.ctx, f.path, &f.r), MK_ERR_FORMAT, "header length 18446744073709551615");
  test_file_write(f.path, "\x05\0\0\0\0\0\0\0{}\0{}", 13);
  TEST_ERROR(&f.ctx, mt_st_reader_create(&f.ctx, f.path, &f.r), MK_ERR_FORMAT, "zero byte");
  end(&f);
}
END_TEST

/* Cut anywhere, a file is refused: the ranges no longer cover it. */
START_TEST(cut_short) {
  file_fixture f = begin_written();
  char bytes[4096];
  FILE *file = fopen(f.path, "rb");
  size_t total = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  for (size_t keep = 0; keep < total; keep++) {
    test_file_write(f.path, bytes, keep);
    ck_assert_msg(mt_st_reader_create(&f.ctx, f.path, &f.r) == MK_ERR_FORMAT, "accepted %zu of %zu bytes", keep, total);
    mk_error_clear(&f.ctx);
  }
  bytes[total] = 'x';
  test_file_write(f.path, bytes, total + 1);
  TEST_ERROR(&f.ctx, mt_st_reader_create(&f.ctx, f.path, &f.r), MK_ERR_FORMAT, "cover");
  end(&f);
}
END_TEST

static bool exists(const char *path) {
  struct stat info;
  return stat(path, &info) == 0;
}

static int files_in(const test_folder *folder) {
  char command[TEST_PATH_BYTES];
  int count = -1;
  snprintf(command, sizeof command, "ls -A '%s' | wc -l", folder->path);
  FILE *pipe = popen(command, "r");
  ck_assert_int_eq(fscanf(pipe, "%d", &count), 1);
  pclose(pipe);
  return count;
}

/* No room: a clean error, the old file intact, nothing left behind. The limit on file size stands for a full disk. */
START_TEST(disk_full) {
  static float values[65536];
  file_fixture f = begin_written();
  mt_st_writer *w = NULL;
  signal(SIGXFSZ, SIG_IGN);
  struct rlimit limit = {.rlim_cur = 100000, .rlim_max = RLIM_INFINITY};
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  mt_st_tensor spec = {.name = "t", .dtype = MK_F32, .n_dims = 1, .dim = {65536}};
  test_must(&f.ctx, mt_st_writer_create(&f.ctx, f.path, &spec, 1, NULL, &w), "create");
  TEST_ERROR(&f.ctx, mt_st_writer_put(w, 0, values, 65536), MK_ERR_OUTPUT, f.path, "cannot write");
  TEST_ERROR(&f.ctx, mt_st_writer_commit(w), MK_ERR_ARG, "'t': 0 of 65536");
  mt_st_writer_destroy(w);
  ck_assert_int_eq(files_in(&f.folder), 1);
  test_must(&f.ctx, mt_st_reader_create(&f.ctx, f.path, &f.r), "old file");
  ck_assert_int_eq(mt_st_reader_count(f.r), N_SPECS);
  end(&f);
}
END_TEST

START_TEST(unfinished) {
  file_fixture f = begin();
  mt_st_writer *w = NULL;
  mt_st_tensor twice[2] = {{.name = "t", .dtype = MK_F32, .n_dims = 1, .dim = {4}},
                           {.name = "t", .dtype = MK_F32, .n_dims = 1, .dim = {4}}};
  TEST_ERROR(&f.ctx, mt_st_writer_create(&f.ctx, f.path, twice, 2, NULL, &w), MK_ERR_FORMAT, "'t' stands twice");
  test_must(&f.ctx, mt_st_writer_create(&f.ctx, f.path, twice, 1, NULL, &w), "create");
  test_must(&f.ctx, mt_st_writer_put(w, 0, F32, 3), "put");
  TEST_ERROR(&f.ctx, mt_st_writer_put(w, 0, F32, 2), MK_ERR_ARG, "2 elements more after 3 of 4");
  TEST_ERROR(&f.ctx, mt_st_writer_commit(w), MK_ERR_ARG, "3 of 4");
  ck_assert(!exists(f.path));
  mt_st_writer_destroy(w);
  ck_assert_int_eq(files_in(&f.folder), 0);
  TEST_ERROR(&f.ctx, write_specs(&f.ctx, "/nonexistent/folder/x"), MK_ERR_OUTPUT, "/nonexistent/folder/x",
             "cannot create");
  end(&f);
}
END_TEST

/* Every host allocation fails once: an error, no leak, nothing left in the folder. */
START_TEST(allocation_faults) {
  test_folder folder = test_folder_make();
  char path[TEST_PATH_BYTES];
  test_path(&folder, "x.safetensors", path);
  mk_status st = MK_ERR_MEMORY;
  int n = 1;
  for (; st != MK_OK; n++) {
    mk_context ctx = {.heap_fail_at = n};
    mt_st_set set = {0};
    st = write_specs(&ctx, path);
    if (st == MK_OK) st = mt_st_set_open(&ctx, path, &set);
    ck_assert_msg(st == MK_OK || st == MK_ERR_MEMORY, "allocation %d: %s", n, ctx.error.message);
    if (st == MK_OK) mt_st_set_fini(&set);
    ck_assert_msg(ctx.heap_live == 0, "allocation %d: %lld blocks left", n, ctx.heap_live);
    ck_assert_int_le(files_in(&folder), 1);
  }
  ck_assert_int_gt(n, 10);
  test_folder_remove(&folder);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("safetensors");
  TCase *tcase = test_case(suite, "files", 60);
  tcase_add_test(tcase, round_trip);
  tcase_add_test(tcase, conversions);
  tcase_add_test(tcase, large_conversion);
  tcase_add_loop_test(tcase, refused_headers, 0, (int)(sizeof REFUSED / sizeof REFUSED[0]));
  tcase_add_test(tcase, refused_files);
  tcase_add_test(tcase, cut_short);
  tcase_add_test(tcase, disk_full);
  tcase_add_test(tcase, unfinished);
  tcase_add_test(tcase, allocation_faults);
  return test_main(suite);
}

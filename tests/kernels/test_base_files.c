/* kernels/base on the disk: files, JSON in them, folders, SHA-256; pages, and what files say of memory. */
#include <cjson/cJSON.h>
#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/folder.h"
#include "kernels/base/hash.h"
#include "kernels/base/heap.h"
#include "kernels/base/json.h"
#include "kernels/base/pages.h"
#include "tests/support/check_main.h"
#include "tests/support/files.h"

START_TEST(only_regular_files_are_opened) {
  mk_context ctx = {0};
  test_folder f = test_folder_make();
  char path[TEST_PATH_BYTES];
  int fd = -1;
  int64_t bytes = -1;
  ck_assert_int_eq(mkfifo(test_path(&f, "pipe", path), 0600), 0);
  const char *const refused[][2] = {{path, "pipe: not a regular file"},
                                    {f.path, "not a regular file but a folder"},
                                    {"/dev/zero", "/dev/zero: not a regular file"},
                                    {"/nonexistent/x", "/nonexistent/x: cannot open: No such file"}};
  for (int i = 0; i < 4; i++) { /* a pipe without a writer would be waited for */
    TEST_ERROR(&ctx, mk_file_open(&ctx, "data_path", refused[i][0], &fd, &bytes), MK_ERR_IO, refused[i][1],
               "data_path: ");
    ck_assert(fd == -1 && bytes == -1);
  }
  test_folder_remove(&f);
}
END_TEST

START_TEST(pieces_of_a_file) {
  mk_context ctx = {0};
  test_folder f = test_folder_make();
  char path[TEST_PATH_BYTES], text[8] = "";
  int fd = -1;
  int64_t bytes = 0;
  test_file_write(test_path(&f, "ten", path), "0123456789", 10);
  test_must(&ctx, mk_file_open(&ctx, NULL, path, &fd, &bytes), "open");
  ck_assert_int_eq(bytes, 10);
  test_must(&ctx, mk_file_read_at(&ctx, path, fd, text, 3, 5), "in the middle");
  ck_assert_str_eq(text, "567");
  test_must(&ctx, mk_file_read_at(&ctx, path, fd, text, 0, 10), "nothing at the end");
  TEST_ERROR(&ctx, mk_file_read_at(&ctx, path, fd, text, 3, 8), MK_ERR_IO, "ten: file ended at byte 10");
  close(fd);
  test_folder_remove(&f);
}
END_TEST

START_TEST(json_objects) {
  static const struct {
    const char *text, *why;
  } refused[] = {{"", "x.json: empty; a JSON object is expected"},
                 {"[1]", "x.json:1:1: a JSON object is expected"},
                 {"{\"a\": 1,\n \"b\" 2}", "x.json:2:6: this is not JSON; the text is cut short or altered"},
                 {"{\"a\": [1, 2", "this is not JSON; the text is cut short or altered"},
                 {"{\"a\": 1} tail", "x.json:1:10: this is not JSON"},
                 {"{\"a\\u0000b\": 1}", "x.json:1:4: \\u0000 cannot stand in a text here"}};
  mk_context ctx = {0};
  test_folder f = test_folder_make();
  char path[TEST_PATH_BYTES];
  cJSON *root = NULL;
  test_path(&f, "x.json", path);
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    ck_assert_int_eq(mk_file_write(&ctx, path, refused[i].text, strlen(refused[i].text)), MK_OK);
    TEST_ERROR(&ctx, mk_json_read(&ctx, path, &root), MK_ERR_FORMAT, refused[i].why);
    ck_assert_ptr_null(root);
  }
  TEST_ERROR(&ctx, mk_json_parse(&ctx, MK_ERR_CONFIG, "x", "{}\0", 3, &root), MK_ERR_CONFIG, "x:1:3: a zero byte");
  const char *backslash = "{\"a\\\\u0000\": 1}\n"; /* an escaped backslash, then u0000 */
  ck_assert_int_eq(mk_json_parse(&ctx, MK_ERR_CONFIG, "x", backslash, strlen(backslash), &root), MK_OK);
  ck_assert_str_eq(root->child->string, "a\\u0000");
  cJSON_Delete(root);
  root = NULL;
  const char *line = "{\"a\": {\"b\": 1}}{\"next\""; /* of which 15 bytes are the line */
  ck_assert_int_eq(mk_json_parse_line(&ctx, MK_ERR_FORMAT, "x", 7, line, 15, &root), MK_OK);
  cJSON_Delete(root);
  root = NULL;
  TEST_ERROR(&ctx, mk_json_parse_line(&ctx, MK_ERR_FORMAT, "x", 7, line, 14, &root), MK_ERR_FORMAT, "x:7:15: ");
  line = "{\"a\": [{\"b\": 1, \"b\": 2}]}";
  TEST_ERROR(&ctx, mk_json_parse_line(&ctx, MK_ERR_FORMAT, "x", 7, line, strlen(line), &root), MK_ERR_FORMAT,
             "x:7: key 'b' stands twice");
  ck_assert_ptr_null(root);
  ck_assert_int_eq(ctx.heap_live, 0);
  test_folder_remove(&f);
}
END_TEST

START_TEST(names_in_a_folder) {
  static const char *const sorted[] = {"step-1", "step-10", "step-2"};
  mk_context ctx = {0};
  test_folder f = test_folder_make();
  char path[TEST_PATH_BYTES], moved[TEST_PATH_BYTES], **names = NULL;
  size_t count = 0;
  test_file_write(test_path(&f, "step-2", path), "", 0);
  test_file_write(test_path(&f, "step-10", path), "", 0);
  test_file_write(test_path(&f, "other", path), "", 0);
  test_path(&f, "moving", path);
  test_path(&f, "step-1", moved);
  test_must(&ctx, mk_folder_make(&ctx, path), "make");
  test_must(&ctx, mk_path_move(&ctx, path, moved), "move");
  test_must(&ctx, mk_folder_sync(&ctx, f.path), "sync");
  test_must(&ctx, mk_folder_names(&ctx, f.path, "step-", &names, &count), "names");
  ck_assert_uint_eq(count, 3);
  for (size_t i = 0; i < count; i++)
    ck_assert_str_eq(names[i], sorted[i]);
  mk_folder_names_free(&ctx, names, count);
  TEST_ERROR(&ctx, mk_folder_remove(&ctx, f.path), MK_ERR_OUTPUT, "step-1: cannot remove"); /* a folder inside */
  TEST_ERROR(&ctx, mk_path_move(&ctx, path, moved), MK_ERR_OUTPUT, "moving: cannot rename to", "step-1");
  test_must(&ctx, mk_folder_remove(&ctx, moved), "remove an empty one");
  test_must(&ctx, mk_folder_remove(&ctx, f.path), "remove one with files");
  test_must(&ctx, mk_folder_remove(&ctx, f.path), "remove none");
  TEST_ERROR(&ctx, mk_folder_names(&ctx, f.path, "", &names, &count), MK_ERR_IO, "cannot open the folder");
  TEST_ERROR(&ctx, mk_folder_make(&ctx, "/proc/self/x"), MK_ERR_OUTPUT, "/proc/self/x: cannot create folder");
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

/* FIPS 180-4 examples (csrc.nist.gov): the empty message, "abc", a million times "a". */
START_TEST(sha256_known_answers) {
  enum { MILLION = 1000000, PIECE = 7777 };
  static const char *const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  static const char *const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  static const char *const many = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
  mk_context ctx = {0};
  test_folder f = test_folder_make();
  char path[TEST_PATH_BYTES], sum[MK_HASH_BYTES], *text = NULL;
  mk_hash *hash = NULL;
  test_must(&ctx, mk_hash_bytes(&ctx, "", 0, sum), "empty");
  ck_assert_str_eq(sum, empty);
  test_file_write(test_path(&f, "abc", path), "abc", 3);
  test_must(&ctx, mk_hash_file(&ctx, path, sum), "file");
  ck_assert_str_eq(sum, abc);
  test_must(&ctx, mk_heap_alloc(&ctx, MILLION, &text), "text");
  memset(text, 'a', MILLION);
  test_must(&ctx, mk_hash_create(&ctx, &hash), "create");
  for (size_t at = 0; at < MILLION; at += PIECE)
    test_must(&ctx, mk_hash_add(hash, text + at, MILLION - at < PIECE ? MILLION - at : PIECE), "add");
  test_must(&ctx, mk_hash_end(hash, sum), "end");
  ck_assert_str_eq(sum, many);
  mk_hash_destroy(hash);
  mk_heap_free(&ctx, text);
  TEST_ERROR(&ctx, mk_hash_file(&ctx, f.path, sum), MK_ERR_IO, "not a regular file");
  ck_assert_int_eq(ctx.heap_live, 0);
  test_folder_remove(&f);
}
END_TEST

static void write_text(const char *path, const char *text) { test_file_write(path, text, strlen(text)); }

/* Pages that cannot be had are told, where a write would end the process: here those beyond the end of a file. */
START_TEST(pages_of_a_mapping) {
  test_folder f = test_folder_make();
  char path[TEST_PATH_BYTES];
  const size_t page = mk_pages_round(1);
  int fd = open(test_path(&f, "shared", path), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ck_assert(fd >= 0 && ftruncate(fd, (off_t)(2 * page)) == 0);
  char *base = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ck_assert(base != MAP_FAILED);
  base[page - 1] = 7;
  ck_assert(mk_pages_populate(base, 2 * page) && mk_pages_populate(base + 64, 2 * page - 64));
  ck_assert(mk_pages_populate(base, 0) && base[page - 1] == 7);
  enum { POPULATE_WRITE = 23 }; /* kernels before Linux 5.14 lack it: there the pages are touched, beyond the end too */
  if (madvise(base, page, POPULATE_WRITE) == 0) ck_assert(!mk_pages_populate(base, 4 * page));
  ck_assert_uint_eq(mk_pages_round(page + 1), 2 * page);
  munmap(base, 4 * page);
  close(fd);
  test_folder_remove(&f);
}
END_TEST

/* What a container can still take: its use counts files that were read, which the kernel drops before it ends a
 * process. */
START_TEST(memory_left_in_a_container) {
  test_folder f = test_folder_make();
  char machine[TEST_PATH_BYTES], limit[TEST_PATH_BYTES], used[TEST_PATH_BYTES], parts[TEST_PATH_BYTES];
  const mk_memory_files files = {test_path(&f, "meminfo", machine), test_path(&f, "memory.max", limit),
                                 test_path(&f, "memory.current", used), test_path(&f, "memory.stat", parts)};
  ck_assert(isinf(mk_memory_available(&files))); /* the kernel does not tell */
  write_text(machine, "MemTotal:       2000 kB\nMemAvailable:   1000 kB\n");
  ck_assert_double_eq(mk_memory_available(&files), 1024000);
  write_text(limit, "max\n");
  write_text(used, "900000\n");
  ck_assert_double_eq(mk_memory_available(&files), 1024000);
  write_text(limit, "1000000\n");
  ck_assert_double_eq(mk_memory_available(&files), 100000);
  write_text(parts, "anon 100000\nfile 800000\ninactive_file 500000\nactive_file 200000\nunevictable 7\n");
  ck_assert_double_eq(mk_memory_available(&files), 800000);
  write_text(used, "600000\n"); /* read a moment apart: no more than the limit */
  ck_assert_double_eq(mk_memory_available(&files), 1000000);
  test_folder_remove(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("base_files");
  TCase *tcase = test_case(suite, "base_files", 60);
  tcase_add_test(tcase, only_regular_files_are_opened);
  tcase_add_test(tcase, pieces_of_a_file);
  tcase_add_test(tcase, pages_of_a_mapping);
  tcase_add_test(tcase, memory_left_in_a_container);
  tcase_add_test(tcase, json_objects);
  tcase_add_test(tcase, names_in_a_folder);
  tcase_add_test(tcase, sha256_known_answers);
  return test_main(suite);
}

/* Files for tests: a fresh folder under $TMPDIR, removed at the end of the test program. */
#ifndef TESTS_SUPPORT_FILES_H
#define TESTS_SUPPORT_FILES_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/status.h"

enum { TEST_PATH_BYTES = 512 };

typedef struct test_folder {
  char path[TEST_PATH_BYTES - 64];
} test_folder;

static inline test_folder test_folder_make(void) {
  test_folder f;
  const char *base = getenv("TMPDIR");
  snprintf(f.path, sizeof f.path, "%.300s/moemark-test-XXXXXX", base != NULL ? base : "/tmp");
  ck_assert_msg(mkdtemp(f.path) != NULL, "cannot create %s", f.path);
  return f;
}

static inline void test_folder_remove(const test_folder *f) {
  char command[TEST_PATH_BYTES];
  snprintf(command, sizeof command, "rm -rf '%s'", f->path);
  ck_assert_int_eq(system(command), 0);
}

/* folder/name in a caller's buffer of TEST_PATH_BYTES. */
static inline const char *test_path(const test_folder *f, const char *name, char *path) {
  snprintf(path, TEST_PATH_BYTES, "%s/%.60s", f->path, name);
  return path;
}

static inline void test_file_write(const char *path, const void *data, size_t bytes) {
  FILE *file = fopen(path, "wb");
  ck_assert_msg(file != NULL, "cannot write %s", path);
  ck_assert_uint_eq(fwrite(data, 1, bytes, file), bytes);
  ck_assert_int_eq(fclose(file), 0);
}

/* The context's error has this status and its message holds every word of the NULL-terminated list; then forgets it. */
static inline void test_error_has(mk_context *ctx, mk_status got, mk_status want, const char *const *words) {
  ck_assert_msg(got == want, "status %s, expected %s: %s", mk_status_name(got), mk_status_name(want),
                ctx->error.message);
  for (int i = 0; words[i] != NULL; i++) {
    ck_assert_msg(strstr(ctx->error.message, words[i]) != NULL, "message '%s' lacks '%s'", ctx->error.message,
                  words[i]);
  }
  mk_error_clear(ctx);
}
#define TEST_ERROR(ctx, call, want, ...) test_error_has((ctx), (call), (want), (const char *const[]){__VA_ARGS__, NULL})

static inline void test_must(mk_context *ctx, mk_status got, const char *what) {
  ck_assert_msg(got == MK_OK, "%s: %s", what, ctx->error.message);
}

#endif

/* The data root is found from the program itself, so that a moved build tree or an installed copy keeps working; the
 * folder configured at build time is the last resort (a build folder outside the source tree). */
#include "suite/study/paths.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool exists(const char *path) {
  struct stat info;
  return stat(path, &info) == 0;
}

mk_status ms_path_join(mk_context *ctx, const char *folder, const char *name, char out[MS_PATH_BYTES]) {
  MK_CHECK(ctx, folder[0] != '\0', MK_ERR_CONFIG, "the folder of %.200s has an empty name", name); /* not "/name" */
  int length = snprintf(out, MS_PATH_BYTES, "%s/%s", folder, name);
  MK_CHECK(ctx, length >= 0 && length < MS_PATH_BYTES, MK_ERR_CONFIG, "the path %.200s/%.200s is too long", folder,
           name);
  return MK_OK;
}

void ms_path_folder(const char *path, char out[MS_PATH_BYTES]) {
  const char *slash = strrchr(path, '/');
  size_t length = slash == NULL ? 0 : (size_t)(slash - path);
  if (length >= MS_PATH_BYTES) length = MS_PATH_BYTES - 1;
  memcpy(out, path, length);
  out[length] = '\0';
  if (slash == NULL) strcpy(out, ".");
  if (slash == path) strcpy(out, "/");
}

static bool holds(const char *folder, const char *name) {
  char path[MS_PATH_BYTES];
  int length = snprintf(path, sizeof path, "%s/%s", folder, name);
  return length > 0 && length < (int)sizeof path && exists(path);
}

static bool is_data_root(const char *folder) { return holds(folder, "experiments") && holds(folder, "suite/models"); }

/* Folder of the running program; false when the system does not say. */
static bool program_folder(char out[MS_PATH_BYTES]) {
  char path[MS_PATH_BYTES];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return false;
  path[length] = '\0';
  ms_path_folder(path, out);
  return true;
}

/* The folder or one above it that is a source tree. */
static bool find_above(char folder[MS_PATH_BYTES]) {
  while (!is_data_root(folder)) {
    char *slash = strrchr(folder, '/');
    if (slash == NULL || slash == folder) return false;
    *slash = '\0';
  }
  return true;
}

static bool find_installed(const char *program, char out[MS_PATH_BYTES]) {
  int length = snprintf(out, MS_PATH_BYTES, "%s/../share/moemark", program);
  return length > 0 && length < MS_PATH_BYTES && is_data_root(out);
}

mk_status ms_path_data_root(mk_context *ctx, char out[MS_PATH_BYTES]) {
  char program[MS_PATH_BYTES] = "";
  if (program_folder(program)) {
    if (find_installed(program, out)) return MK_OK;
    strcpy(out, program);
    if (find_above(out)) return MK_OK;
  }
  snprintf(out, MS_PATH_BYTES, "%s", MOEMARK_SOURCE_DIR);
  MK_CHECK(ctx, is_data_root(out), MK_ERR_IO,
           "the data of moemark (experiments/, suite/models/) is neither above %s nor in %s/../share/moemark", program,
           program);
  return MK_OK;
}

mk_status ms_path_search(mk_context *ctx, const char *folder, const char *relative, ms_path_exists_fn *there,
                         char out[MS_PATH_BYTES]) {
  char root[MS_PATH_BYTES];
  bool found = false;
  if (relative[0] == '/') {
    int length = snprintf(out, MS_PATH_BYTES, "%s", relative);
    if (length < MS_PATH_BYTES) MK_TRY(ctx, there(ctx, out, &found));
    MK_CHECK(ctx, found, MK_ERR_IO, "%.500s: no such file", relative);
    return MK_OK;
  }
  if (folder != NULL) {
    MK_TRY(ctx, ms_path_join(ctx, folder, relative, out));
    MK_TRY(ctx, there(ctx, out, &found));
    if (found) return MK_OK;
  }
  MK_TRY(ctx, ms_path_data_root(ctx, root));
  MK_TRY(ctx, ms_path_join(ctx, root, relative, out));
  MK_TRY(ctx, there(ctx, out, &found));
  MK_CHECK(ctx, found, MK_ERR_IO, "%.300s: no such file%s%.200s, nor in %.300s", relative, folder != NULL ? " in " : "",
           folder != NULL ? folder : "", root);
  return MK_OK;
}

static mk_status name_exists(mk_context *ctx, const char *path, bool *out) {
  (void)ctx;
  *out = exists(path);
  return MK_OK;
}

mk_status ms_path_find(mk_context *ctx, const char *folder, const char *relative, char out[MS_PATH_BYTES]) {
  return ms_path_search(ctx, folder, relative, name_exists, out);
}

/* See folder.h. */
#include "kernels/base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/heap.h"

mk_status mk_folder_make(mk_context *ctx, const char *path) {
  char part[4096];
  MK_CHECK(ctx, strlen(path) < sizeof part && path[0] != '\0', MK_ERR_OUTPUT,
           "folder name '%.100s' is empty or too long", path);
  strcpy(part, path);
  for (char *slash = part + 1;; slash++) {
    if (*slash != '/' && *slash != '\0') continue;
    char keep = *slash;
    *slash = '\0';
    MK_CHECK(ctx, mkdir(part, 0755) == 0 || errno == EEXIST, MK_ERR_OUTPUT, "%s: cannot create folder: %s", part,
             strerror(errno));
    *slash = keep;
    if (keep == '\0') break;
  }
  struct stat info;
  MK_CHECK(ctx, stat(path, &info) == 0 && S_ISDIR(info.st_mode), MK_ERR_OUTPUT,
           "%s: exists and is not a folder; give another name or remove it", path);
  MK_CHECK(ctx, access(path, W_OK | X_OK) == 0, MK_ERR_OUTPUT, "%s: folder is not writable: %s", path, strerror(errno));
  return MK_OK;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool wanted(const char *name, const char *prefix) {
  return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strncmp(name, prefix, strlen(prefix)) == 0;
}

static mk_status read_names(mk_context *ctx, DIR *folder, const char *path, const char *prefix, char ***names,
                            size_t *count) {
  for (;;) {
    errno = 0;
    const struct dirent *entry = readdir(folder);
    MK_CHECK(ctx, entry != NULL || errno == 0, MK_ERR_IO, "%s: cannot read the folder: %s", path, strerror(errno));
    if (entry == NULL) return MK_OK;
    if (!wanted(entry->d_name, prefix)) continue;
    MK_TRY(ctx, mk_heap_resize(ctx, names, (*count + 1) * sizeof **names));
    MK_TRY(ctx, mk_heap_strdup(ctx, entry->d_name, &(*names)[*count]));
    *count += 1;
  }
}

mk_status mk_folder_names(mk_context *ctx, const char *path, const char *prefix, char ***names, size_t *count) {
  char **found = NULL;
  size_t n = 0;
  DIR *folder = opendir(path);
  MK_CHECK(ctx, folder != NULL, MK_ERR_IO, "%s: cannot open the folder: %s", path, strerror(errno));
  mk_status st = read_names(ctx, folder, path, prefix, &found, &n);
  closedir(folder);
  if (st != MK_OK) {
    mk_folder_names_free(ctx, found, n);
    return st;
  }
  if (n > 0) qsort(found, n, sizeof *found, by_name);
  *names = found;
  *count = n;
  return MK_OK;
}

void mk_folder_names_free(mk_context *ctx, char **names, size_t count) {
  for (size_t i = 0; i < count; i++)
    mk_heap_free(ctx, names[i]);
  mk_heap_free(ctx, names);
}

static mk_status remove_files(mk_context *ctx, const char *path, char **names, size_t count) {
  char file[4096];
  for (size_t i = 0; i < count; i++) {
    int length = snprintf(file, sizeof file, "%s/%s", path, names[i]);
    MK_CHECK(ctx, length < (int)sizeof file, MK_ERR_OUTPUT, "%s: the name of a file in it is too long", path);
    MK_CHECK(ctx, unlink(file) == 0, MK_ERR_OUTPUT, "%s: cannot remove: %s", file, strerror(errno));
  }
  return MK_OK;
}

mk_status mk_folder_remove(mk_context *ctx, const char *path) {
  char **names = NULL;
  size_t count = 0;
  if (access(path, F_OK) != 0 && errno == ENOENT) return MK_OK;
  MK_TRY(ctx, mk_folder_names(ctx, path, "", &names, &count));
  mk_status st = remove_files(ctx, path, names, count);
  mk_folder_names_free(ctx, names, count);
  MK_TRY(ctx, st);
  MK_CHECK(ctx, rmdir(path) == 0, MK_ERR_OUTPUT, "%s: cannot remove the folder: %s", path, strerror(errno));
  return MK_OK;
}

mk_status mk_path_move(mk_context *ctx, const char *from, const char *to) {
  MK_CHECK(ctx, rename(from, to) == 0, MK_ERR_OUTPUT, "%s: cannot rename to %s: %s", from, to, strerror(errno));
  return MK_OK;
}

mk_status mk_folder_sync(mk_context *ctx, const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  MK_CHECK(ctx, fd >= 0, MK_ERR_OUTPUT, "%s: cannot open the folder: %s", path, strerror(errno));
  int failed = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  MK_CHECK(ctx, failed == 0, MK_ERR_OUTPUT, "%s: cannot sync the folder: %s", path, strerror(failed));
  return MK_OK;
}

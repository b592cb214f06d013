/* See checkpoint_store.h. */
#include "trainer/checkpoint/checkpoint_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/folder.h"
#include "kernels/base/text.h"

#define PREFIX "step-"
#define TEMPORARY ".tmp-" /* also of what is on its way out */

void mt_checkpoint_path(const char *dir, int64_t step, char path[MT_CHECKPOINT_PATH_BYTES]) {
  snprintf(path, MT_CHECKPOINT_PATH_BYTES, "%.900s/" PREFIX "%09lld", dir, (long long)step);
}

void mt_checkpoint_temporary(const char *dir, int64_t step, char path[MT_CHECKPOINT_PATH_BYTES]) {
  snprintf(path, MT_CHECKPOINT_PATH_BYTES, "%.900s/" TEMPORARY PREFIX "%09lld", dir, (long long)step);
}

static void way_out(const char *dir, int64_t step, char path[MT_CHECKPOINT_PATH_BYTES]) {
  snprintf(path, MT_CHECKPOINT_PATH_BYTES, "%.900s/" TEMPORARY "old-%09lld", dir, (long long)step);
}

/* mt_checkpoint_path, mt_checkpoint_temporary or way_out. */
typedef void name_fn(const char *dir, int64_t step, char path[MT_CHECKPOINT_PATH_BYTES]);

/* Step of a name that `make` could have made, or -1. */
static int64_t step_in(const char *name, name_fn *make) {
  char made[MT_CHECKPOINT_PATH_BYTES];
  double step = -1;
  make(".", 0, made);
  size_t prefix = strlen(made) - strlen("./000000000");
  if (strncmp(made + strlen("./"), name, prefix) != 0) return -1;
  if (!mk_text_number(name + prefix, true, &step) || step < 0 || step > 1e15) return -1;
  make(".", (int64_t)step, made);
  return strcmp(made + strlen("./"), name) == 0 ? (int64_t)step : -1;
}

static bool is_leftover(const char *name) {
  return step_in(name, mt_checkpoint_temporary) >= 0 || step_in(name, way_out) >= 0;
}

/* A lock on the folder itself: nothing is left behind by a run that was killed. */
mk_status mt_checkpoint_lock(mk_context *ctx, const char *dir, int *fd) {
  int folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  MK_CHECK(ctx, folder >= 0, MK_ERR_OUTPUT, "%s: cannot open the folder: %s", dir, strerror(errno));
  if (flock(folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(folder);
    return MK_FAIL(ctx, MK_ERR_OUTPUT,
                   "%s: another run that is going on keeps its checkpoints there; wait for its end, or give another "
                   "folder",
                   dir);
  }
  *fd = folder;
  return MK_OK;
}

static mk_status check_folder(mk_context *ctx, const char *path) {
  struct stat info;
  MK_CHECK(ctx, lstat(path, &info) == 0 && S_ISDIR(info.st_mode), MK_ERR_OUTPUT,
           "%s: is not a folder and has the name that a checkpoint's folder takes; move it away", path);
  return MK_OK;
}

static mk_status remove_leftovers(mk_context *ctx, const char *dir) {
  char **names = NULL, path[MT_CHECKPOINT_PATH_BYTES];
  size_t count = 0;
  mk_status st = MK_OK;
  MK_TRY(ctx, mk_folder_names(ctx, dir, TEMPORARY, &names, &count));
  for (size_t i = 0; i < count && st == MK_OK; i++) {
    if (!is_leftover(names[i])) continue;
    snprintf(path, sizeof path, "%.900s/%.100s", dir, names[i]);
    st = check_folder(ctx, path);
    if (st == MK_OK) st = mk_folder_remove(ctx, path);
  }
  mk_folder_names_free(ctx, names, count);
  return st;
}

mk_status mt_checkpoint_tidy(mk_context *ctx, const char *dir) {
  char **names = NULL, path[MT_CHECKPOINT_PATH_BYTES];
  size_t count = 0;
  mk_status st = MK_OK;
  MK_TRY(ctx, mk_folder_names(ctx, dir, PREFIX, &names, &count));
  for (size_t i = 0; i < count && st == MK_OK; i++) {
    if (step_in(names[i], mt_checkpoint_path) < 0) continue;
    snprintf(path, sizeof path, "%.900s/%.100s", dir, names[i]);
    st = check_folder(ctx, path);
  }
  mk_folder_names_free(ctx, names, count);
  return st != MK_OK ? st : remove_leftovers(ctx, dir);
}

mk_status mt_checkpoint_begin(mk_context *ctx, const char *dir, int64_t step) {
  char path[MT_CHECKPOINT_PATH_BYTES];
  MK_TRY(ctx, mk_folder_make(ctx, dir));
  MK_TRY(ctx, remove_leftovers(ctx, dir));
  mt_checkpoint_temporary(dir, step, path);
  return mk_folder_make(ctx, path);
}

/* Out of the way first, in one rename, so that no checkpoint ever stands half removed under its name. */
static mk_status take_away(mk_context *ctx, const char *dir, int64_t step) {
  char path[MT_CHECKPOINT_PATH_BYTES], gone[MT_CHECKPOINT_PATH_BYTES];
  mt_checkpoint_path(dir, step, path);
  way_out(dir, step, gone);
  return access(path, F_OK) != 0 ? MK_OK : mk_path_move(ctx, path, gone);
}

mk_status mt_checkpoint_commit(mk_context *ctx, const char *dir, int64_t step) {
  char path[MT_CHECKPOINT_PATH_BYTES], temporary[MT_CHECKPOINT_PATH_BYTES];
  mt_checkpoint_path(dir, step, path);
  mt_checkpoint_temporary(dir, step, temporary);
  MK_TRY(ctx, mk_folder_sync(ctx, temporary));
  MK_TRY(ctx, take_away(ctx, dir, step));
  MK_TRY(ctx, mk_path_move(ctx, temporary, path));
  MK_TRY(ctx, mk_folder_sync(ctx, dir));
  return remove_leftovers(ctx, dir);
}

void mt_checkpoint_abandon(mk_context *ctx, const char *dir, int64_t step) {
  char path[MT_CHECKPOINT_PATH_BYTES];
  mk_context quiet = {.rank = ctx->rank}; /* an error of its own would be dropped, a frame of it would not */
  mt_checkpoint_temporary(dir, step, path);
  (void)mk_folder_remove(&quiet, path);
}

mk_status mt_checkpoint_prune(mk_context *ctx, const char *dir, int64_t step, int64_t keep) {
  int64_t last = step + 1;
  if (keep == 0) return MK_OK;
  for (int64_t kept = 0;; kept++) {
    MK_TRY(ctx, mt_checkpoint_newest(ctx, dir, last, &last));
    if (last < 0) break;
    if (kept >= keep) MK_TRY(ctx, take_away(ctx, dir, last));
  }
  return remove_leftovers(ctx, dir);
}

bool mt_checkpoint_is(const char *folder, const char *dir, int64_t step) {
  char path[MT_CHECKPOINT_PATH_BYTES];
  struct stat a, b;
  mt_checkpoint_path(dir, step, path);
  return stat(folder, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

mk_status mt_checkpoint_newest(mk_context *ctx, const char *dir, int64_t below, int64_t *step) {
  char **names = NULL;
  size_t count = 0;
  int64_t newest = -1;
  if (access(dir, F_OK) == 0) MK_TRY(ctx, mk_folder_names(ctx, dir, PREFIX, &names, &count));
  for (size_t i = 0; i < count; i++) {
    int64_t found = step_in(names[i], mt_checkpoint_path);
    if (found < below && found > newest) newest = found;
  }
  mk_folder_names_free(ctx, names, count);
  *step = newest;
  return MK_OK;
}

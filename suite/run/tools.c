/* Look-ups through the environment and /proc/self/exe. */
#include "suite/run/tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool runnable(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

mk_status ms_tool_trainer(mk_context *ctx, char out[MS_PATH_BYTES]) {
  const char *given = getenv("MOEMARK_TRAINER");
  if (given != NULL && given[0] != '\0') {
    MK_CHECK(ctx, strlen(given) < MS_PATH_BYTES && runnable(given), MK_ERR_UNSUPPORTED,
             "MOEMARK_TRAINER=%s is not a program that can be run", given);
    snprintf(out, MS_PATH_BYTES, "%s", given);
    return MK_OK;
  }
  char self[MS_PATH_BYTES], folder[MS_PATH_BYTES];
  ssize_t bytes = readlink("/proc/self/exe", self, sizeof self - 1);
  MK_CHECK(ctx, bytes > 0, MK_ERR_UNSUPPORTED, "/proc/self/exe cannot be read: set MOEMARK_TRAINER to moemark-trainer");
  self[bytes] = '\0';
  ms_path_folder(self, folder);
  MK_TRY(ctx, ms_path_join(ctx, folder, "moemark-trainer", out));
  MK_CHECK(ctx, runnable(out), MK_ERR_UNSUPPORTED,
           "moemark-trainer is not beside the program (%s): build it, or set MOEMARK_TRAINER to its path", out);
  return MK_OK;
}

bool ms_tool_find(const char *name, char out[MS_PATH_BYTES]) {
  const char *path = getenv("PATH");
  while (path != NULL && *path != '\0') {
    size_t bytes = strcspn(path, ":");
    int used = snprintf(out, MS_PATH_BYTES, "%.*s/%s", (int)bytes, path, name);
    if (bytes > 0 && used < MS_PATH_BYTES && runnable(out)) return true;
    path += bytes + (path[bytes] == ':');
  }
  return false;
}

mk_status ms_tool_mpirun(mk_context *ctx, char out[MS_PATH_BYTES]) {
  MK_CHECK(
      ctx, ms_tool_find("mpirun", out), MK_ERR_UNSUPPORTED,
      "mpirun is not on PATH, and launches with more than one rank need it: install the Debian package openmpi-bin");
  return MK_OK;
}

/* Exclusive creation everywhere: a clash is an error or another name, never an overwrite. */
#include "suite/run/folder.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/folder.h"
#include "kernels/base/heap.h"
#include "kernels/base/log.h"

static void utc_print(char *out, size_t bytes, const char *format) {
  time_t now = time(NULL);
  struct tm parts;
  gmtime_r(&now, &parts);
  strftime(out, bytes, format, &parts);
}

void ms_utc_now(char out[32]) { utc_print(out, 32, "%Y-%m-%dT%H:%M:%SZ"); }

/* The link is a convenience: where links cannot be made the run goes on without it. */
static void latest_point(mk_context *ctx, const char *parent, const char *id) {
  char link[MS_PATH_BYTES + 16], fresh[MS_PATH_BYTES + 128];
  snprintf(link, sizeof link, "%s/latest", parent);
  snprintf(fresh, sizeof fresh, "%s/.latest-%s", parent, id);
  if (symlink(id, fresh) == 0 && rename(fresh, link) == 0) return;
  mk_log(ctx, "warning: %s: cannot point it at this run: %s", link, strerror(errno));
  unlink(fresh);
}

mk_status ms_run_folder_make(mk_context *ctx, const char *out, const char *study, ms_run *run) {
  char parent[MS_PATH_BYTES], stamp[32];
  MK_TRY(ctx, ms_path_join(ctx, out, study, parent));
  MK_TRY(ctx, mk_folder_make(ctx, parent));
  for (int attempt = 0; attempt < 10; attempt++) {
    unsigned char id[3] = {0};
    MK_CHECK(ctx, getrandom(id, sizeof id, 0) == (ssize_t)sizeof id, MK_ERR_DEVICE, "getrandom: %s", strerror(errno));
    utc_print(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ");
    snprintf(run->id, sizeof run->id, "%s-%02x%02x%02x", stamp, id[0], id[1], id[2]);
    MK_TRY(ctx, ms_path_join(ctx, parent, run->id, run->folder));
    if (mkdir(run->folder, 0755) == 0) {
      latest_point(ctx, parent, run->id);
      return MK_OK;
    }
    MK_CHECK(ctx, errno == EEXIST, MK_ERR_OUTPUT, "%s: cannot create the run's folder: %s", run->folder,
             strerror(errno));
  }
  return MK_FAIL(ctx, MK_ERR_OUTPUT, "%s: ten run folders with new names exist already", parent);
}

void ms_case_folder(const char *case_name, int number, char *out, size_t bytes) {
  size_t used = 0;
  bool faithful = true;
  for (const char *p = case_name; *p != '\0' && used + 1 < bytes && used < 200; p++) {
    if (*p == '%') continue;
    bool plain = isalnum((unsigned char)*p) || strchr("._=-", *p) != NULL;
    faithful = faithful && (plain || *p == ' ');
    out[used++] = *p == ' ' ? ',' : (plain ? *p : '_');
  }
  out[used] = '\0';
  if (!faithful || used == 200) snprintf(out + used, bytes - used, "-%d", number);
  if (used == 0) snprintf(out, bytes, "case");
  if (out[0] == '.') out[0] = '_';
}

mk_status ms_launch_folder_make(mk_context *ctx, const ms_run *run, ms_launch *launch) {
  char slug[256], path[MS_PATH_BYTES];
  ms_case_folder(run->plan->cases[launch->case_index].name, launch->case_index + 1, slug, sizeof slug);
  MK_TRY(ctx, ms_path_join(ctx, run->folder, slug, path));
  MK_TRY(ctx, mk_folder_make(ctx, path));
  snprintf(launch->folder, sizeof launch->folder, "%s/launch-%d", slug, launch->number);
  MK_TRY(ctx, ms_path_join(ctx, run->folder, launch->folder, path));
  MK_CHECK(ctx, mkdir(path, 0755) == 0, MK_ERR_OUTPUT, "%s: cannot create the launch's folder: %s", path,
           strerror(errno));
  return MK_OK;
}

mk_status ms_text_write(mk_context *ctx, const char *folder, const char *name, const char *text) {
  char path[MS_PATH_BYTES];
  MK_TRY(ctx, ms_path_join(ctx, folder, name, path));
  return mk_file_write(ctx, path, text, strlen(text));
}

static void line_copy(const char *line, char *out, size_t bytes) {
  while (*line == ' ' || *line == '\t')
    line++;
  snprintf(out, bytes, "%.*s", (int)strcspn(line, "\n"), line);
}

/* Our own programs' first message, which says more than what mpirun adds to it. */
static const char *own_error(const char *text) {
  for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
    line += *line == '\n';
    size_t length = strcspn(line, "\n");
    const char *mark = strstr(line, ": error: ");
    if (strncmp(line, "moemark", 7) == 0 && mark != NULL && mark < line + length) return line;
    if (line[length] == '\0') break;
    line += length;
  }
  return NULL;
}

/* mpirun frames what it has to say in lines of dashes; in the first frame it says why, over several lines. */
static bool framed(const char *text, char *out, size_t bytes) {
  size_t used = 0;
  const char *p = text + strspn(text, "\n");
  if (strspn(p, "-") < 20) return false;
  p += strspn(p, "-\n");
  for (; *p != '\0' && strncmp(p, "\n-----", 6) != 0 && used + 1 < bytes; p++) {
    bool blank = *p == ' ' || *p == '\n' || *p == '\t';
    if (!blank) out[used++] = *p;
    if (blank && used > 0 && out[used - 1] != ' ') out[used++] = ' ';
  }
  out[used] = '\0';
  return used > 0;
}

void ms_log_hint(mk_context *ctx, const char *folder, const char *name, char *out, size_t bytes) {
  char path[MS_PATH_BYTES];
  char *text = NULL, *last = NULL;
  size_t size = 0;
  out[0] = '\0';
  if (ms_path_join(ctx, folder, name, path) != MK_OK || mk_file_read(ctx, path, &text, &size) != MK_OK) {
    mk_error_clear(ctx);
    return;
  }
  const char *found = own_error(text);
  if (found == NULL && framed(text, out, bytes)) {
    mk_heap_free(ctx, text);
    return;
  }
  if (found == NULL) found = strcasestr(text, "error");
  while (found != NULL && found > text && found[-1] != '\n')
    found--;
  for (char *line = text, *end; found == NULL && *line != '\0'; line = end) {
    size_t length = strcspn(line, "\n");
    if (strspn(line, " \t-*=") < length) last = line;
    end = line + length + (line[length] == '\n');
  }
  if (found == NULL) found = last;
  if (found != NULL) line_copy(found, out, bytes);
  mk_heap_free(ctx, text);
}

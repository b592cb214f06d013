/* One pass over /proc gives (pid, parent); descendants are marked until nothing changes. A few hundred processes: well
 * under a millisecond each pass. Sessions and process groups do not matter: Open MPI puts each rank into a group of its
 * own (orte/mca/odls/default). */
#include "suite/run/process_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/heap.h"

typedef struct entry {
  pid_t pid, parent;
  bool below, alive;
} entry;

/* /proc/<pid>/stat: "pid (name) state ppid ..."; the name may hold blanks and parentheses. */
static bool entry_read(const char *pid, entry *out) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
  FILE *file = fopen(path, "re");
  if (file == NULL) return false; /* gone meanwhile */
  size_t bytes = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[bytes] = '\0';
  const char *close = strrchr(text, ')');
  char state = 0;
  int parent = 0;
  if (close == NULL || sscanf(close + 1, " %c %d", &state, &parent) != 2) return false;
  *out = (entry){.pid = (pid_t)atoi(pid), .parent = (pid_t)parent, .alive = state != 'Z' && state != 'X'};
  return true;
}

static mk_status entries_read(mk_context *ctx, entry **out, int *count) {
  mk_status st = MK_OK;
  entry *list = NULL;
  int n = 0;
  DIR *folder = opendir("/proc");
  MK_CHECK(ctx, folder != NULL, MK_ERR_DEVICE, "/proc: cannot open: %s", strerror(errno));
  for (struct dirent *item; (item = readdir(folder)) != NULL;) {
    entry one;
    if (!isdigit((unsigned char)item->d_name[0]) || !entry_read(item->d_name, &one)) continue;
    if (n % 256 == 0) MK_TRY_GOTO(ctx, mk_heap_resize(ctx, &list, (size_t)(n + 256) * sizeof *list), out);
    list[n++] = one;
  }
  *out = list;
  *count = n;
  list = NULL;
out:
  mk_heap_free(ctx, list);
  closedir(folder);
  return st;
}

static bool is_below(const entry *list, int count, pid_t pid) {
  for (int i = 0; i < count; i++) {
    if (list[i].pid == pid) return list[i].below;
  }
  return false;
}

static void descendants_mark(entry *list, int count) {
  pid_t self = getpid();
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < count; i++) {
      if (list[i].below || (list[i].parent != self && !is_below(list, count, list[i].parent))) continue;
      list[i].below = changed = true;
    }
  }
}

mk_status ms_tree_signal(mk_context *ctx, int signal, int *count) {
  entry *list = NULL;
  int n = 0, found = 0;
  MK_TRY(ctx, entries_read(ctx, &list, &n));
  descendants_mark(list, n);
  for (int i = 0; i < n; i++) {
    if (!list[i].below || !list[i].alive) continue;
    found += 1;
    if (signal != 0) kill(list[i].pid, signal);
  }
  mk_heap_free(ctx, list);
  *count = found;
  return MK_OK;
}

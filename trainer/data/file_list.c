/* See file_list.h. Patterns are those of glob(3); in the C locale its order is that of bytes. */
#include "trainer/data/file_list.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/heap.h"

enum { ITEM_BYTES = 1024 };

typedef struct list {
  mk_context *ctx;
  char **path;
  size_t count;
} list;

static mk_status add(list *l, const char *path) {
  MK_TRY(l->ctx, mk_heap_resize(l->ctx, &l->path, (l->count + 1) * sizeof *l->path));
  MK_TRY(l->ctx, mk_heap_strdup(l->ctx, path, &l->path[l->count]));
  l->count += 1;
  return MK_OK;
}

static mk_status add_matches(list *l, const char *pattern) {
  glob_t found = {0};
  mk_status st = MK_OK;
  int code = glob(pattern, 0, NULL, &found);
  MK_CHECK_GOTO(l->ctx, code == 0, MK_ERR_IO, out, "data_path: %s: %s", pattern,
                code == GLOB_NOMATCH ? "no file matches" : "cannot read the folder");
  for (size_t i = 0; i < found.gl_pathc; i++)
    MK_TRY_GOTO(l->ctx, add(l, found.gl_pathv[i]), out);
out:
  globfree(&found);
  return st;
}

static mk_status add_item(list *l, const char *item) {
  bool pattern = strpbrk(item, "*?[") != NULL && access(item, F_OK) != 0;
  MK_CHECK(l->ctx, item[0] != '\0', MK_ERR_CONFIG, "data_path: a name in the list is empty");
  return pattern ? add_matches(l, item) : add(l, item);
}

mk_status mt_file_list_make(mk_context *ctx, const char *text, char ***paths, size_t *count) {
  list l = {.ctx = ctx};
  mk_status st = MK_OK;
  for (const char *at = text; st == MK_OK;) {
    char item[ITEM_BYTES];
    size_t length = strcspn(at, ",");
    snprintf(item, sizeof item, "%.*s", (int)length, at);
    st = add_item(&l, item);
    if (at[length] == '\0') break;
    at += length + 1;
  }
  if (st != MK_OK) {
    mt_file_list_free(ctx, l.path, l.count);
    return st;
  }
  *paths = l.path;
  *count = l.count;
  return MK_OK;
}

void mt_file_list_free(mk_context *ctx, char **paths, size_t count) {
  for (size_t i = 0; i < count; i++)
    mk_heap_free(ctx, paths[i]);
  mk_heap_free(ctx, paths);
}

/* See json.h. */
#include "kernels/base/json.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"

/* Fails with the line and column, from 1, of the byte at `at`; `text` begins at line `line` of what it is from. */
static mk_status fail_at(mk_context *ctx, mk_status code, const char *where, int64_t line, const char *text,
                         const char *at, const char *what) {
  int column = 1;
  for (; text < at; text++) {
    column = *text == '\n' ? 1 : column + 1;
    line += *text == '\n';
  }
  return MK_FAIL(ctx, code, "%s:%lld:%d: %s", where, (long long)line, column, what);
}

/* The first \u0000 whose backslash is not itself escaped, or NULL. */
static const char *escaped_nul(const char *text) {
  for (const char *at = text; (at = strstr(at, "\\u0000")) != NULL; at++) {
    const char *first = at;
    while (first > text && first[-1] == '\\')
      first--;
    if ((at - first) % 2 == 0) return at;
  }
  return NULL;
}

static mk_status parse(mk_context *ctx, mk_status code, const char *where, int64_t line, const char *text, size_t bytes,
                       struct cJSON **out) {
  const char *end = text, *nul = escaped_nul(text);
  MK_CHECK(ctx, bytes > 0, code, "%s: empty; a JSON object is expected", where);
  if (strlen(text) != bytes) {
    return fail_at(ctx, code, where, line, text, text + strlen(text), "a zero byte is not JSON");
  }
  if (nul != NULL) return fail_at(ctx, code, where, line, text, nul, "\\u0000 cannot stand in a text here");
  cJSON *root = cJSON_ParseWithLengthOpts(text, bytes + 1, &end, true);
  if (cJSON_IsObject(root)) {
    *out = root;
    return MK_OK;
  }
  bool whole = root != NULL;
  cJSON_Delete(root);
  return fail_at(ctx, code, where, line, text, whole ? text : end,
                 whole ? "a JSON object is expected" : "this is not JSON; the text is cut short or altered");
}

mk_status mk_json_parse(mk_context *ctx, mk_status code, const char *where, const char *text, size_t bytes,
                        struct cJSON **out) {
  return parse(ctx, code, where, 1, text, bytes, out);
}

/* Quadratic in the keys of one object. */
mk_status mk_json_check_keys(mk_context *ctx, mk_status code, const char *where, const struct cJSON *object) {
  for (const cJSON *item = object->child; item != NULL; item = item->next) {
    bool named = item->string != NULL; /* else an item of a list */
    MK_CHECK(ctx, !named || cJSON_GetObjectItemCaseSensitive(object, item->string) == item, code,
             "%s: key '%.60s' stands twice; leave one", where, item->string);
    MK_TRY(ctx, mk_json_check_keys(ctx, code, where, item));
  }
  return MK_OK;
}

mk_status mk_json_parse_line(mk_context *ctx, mk_status code, const char *where, int64_t line, const char *text,
                             size_t bytes, struct cJSON **out) {
  mk_status st = MK_OK;
  char *copy = NULL, place[512];
  cJSON *root = NULL;
  MK_TRY_GOTO(ctx, mk_heap_alloc(ctx, bytes + 1, &copy), out);
  memcpy(copy, text, bytes);
  MK_TRY_GOTO(ctx, parse(ctx, code, where, line, copy, bytes, &root), out);
  snprintf(place, sizeof place, "%.480s:%lld", where, (long long)line);
  MK_TRY_GOTO(ctx, mk_json_check_keys(ctx, code, place, root), out);
  *out = root;
  root = NULL;
out:
  cJSON_Delete(root);
  mk_heap_free(ctx, copy);
  return st;
}

mk_status mk_json_read(mk_context *ctx, const char *path, struct cJSON **out) {
  char *text = NULL;
  size_t bytes = 0;
  MK_TRY(ctx, mk_file_read(ctx, path, &text, &bytes));
  mk_status st = mk_json_parse(ctx, MK_ERR_FORMAT, path, text, bytes, out);
  mk_heap_free(ctx, text);
  return st;
}

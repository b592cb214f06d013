/* Writer: the header is known before the first value (names and shapes are), so values go straight to their place.
 * The file becomes visible under its name only complete and synced. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/folder.h"
#include "kernels/base/heap.h"
#include "trainer/checkpoint/safetensors_header.h"

enum { ALIGN_BYTES = 8 };

struct mt_st_writer {
  mk_context *ctx;
  char *path, *temporary;
  int fd;
  int64_t data_begin;
  int64_t count;
  mt_st_tensor *tensors; /* names: in `names` */
  char **names;
  int64_t *written; /* elements */
};

static mk_status write_at(mt_st_writer *w, const void *data, int64_t bytes, int64_t offset) {
  const char *from = data;
  while (bytes > 0) {
    ssize_t put = pwrite(w->fd, from, (size_t)bytes, (off_t)offset);
    if (put < 0 && errno == EINTR) continue;
    MK_CHECK(w->ctx, put > 0, MK_ERR_OUTPUT, "%s: cannot write byte %lld: %s", w->path, (long long)offset,
             strerror(errno));
    from += put;
    bytes -= put;
    offset += put;
  }
  return MK_OK;
}

static mk_status copy_tensors(mt_st_writer *w, const mt_st_tensor *tensors, int64_t count) {
  mk_context *ctx = w->ctx;
  MK_TRY(ctx, mk_heap_array(ctx, (size_t)count, sizeof w->tensors[0], &w->tensors));
  MK_TRY(ctx, mk_heap_array(ctx, (size_t)count, sizeof w->names[0], &w->names));
  MK_TRY(ctx, mk_heap_array(ctx, (size_t)count, sizeof w->written[0], &w->written));
  w->count = count;
  for (int64_t i = 0; i < count; i++) {
    w->tensors[i] = tensors[i];
    MK_CHECK(ctx, mt_st_dtype_name(tensors[i].dtype) != NULL, MK_ERR_ARG, "%s: tensor '%s' has no dtype", w->path,
             tensors[i].name);
    MK_TRY(ctx, mk_heap_strdup(ctx, tensors[i].name, &w->names[i]));
    w->tensors[i].name = w->names[i];
    w->tensors[i].count = 1;
    for (int d = 0; d < tensors[i].n_dims; d++)
      w->tensors[i].count *= tensors[i].dim[d];
  }
  return MK_OK;
}

/* Ranges by falling element size: each start is then a multiple of its element size, as readers that map need. */
static int64_t place_tensors(mt_st_writer *w) {
  int64_t next = 0;
  for (int64_t size = 8; size >= 1; size /= 2) {
    for (int64_t i = 0; i < w->count; i++) {
      if ((int64_t)mk_dtype_bytes(w->tensors[i].dtype) != size) continue;
      w->tensors[i].begin_bytes = next;
      next += w->tensors[i].count * size;
    }
  }
  return next;
}

static bool add_tensor(cJSON *root, const mt_st_tensor *t) {
  cJSON *item = cJSON_AddObjectToObject(root, t->name);
  if (item == NULL || cJSON_AddStringToObject(item, "dtype", mt_st_dtype_name(t->dtype)) == NULL) return false;
  cJSON *shape = cJSON_AddArrayToObject(item, "shape");
  cJSON *range = cJSON_AddArrayToObject(item, "data_offsets");
  bool ok = shape != NULL && range != NULL;
  for (int d = 0; d < t->n_dims && ok; d++)
    ok = cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)t->dim[d]));
  int64_t end = t->begin_bytes + t->count * (int64_t)mk_dtype_bytes(t->dtype);
  ok = ok && cJSON_AddItemToArray(range, cJSON_CreateNumber((double)t->begin_bytes));
  return ok && cJSON_AddItemToArray(range, cJSON_CreateNumber((double)end));
}

static bool add_metadata(cJSON *root, const char *const *metadata) {
  if (metadata == NULL) return true;
  cJSON *item = cJSON_AddObjectToObject(root, "__metadata__");
  bool ok = item != NULL;
  for (int i = 0; ok && metadata[i] != NULL; i += 2) {
    ok = cJSON_AddStringToObject(item, metadata[i], metadata[i + 1]) != NULL;
  }
  return ok;
}

/* The header text, padded with spaces so that the data starts at a multiple of ALIGN_BYTES; freed with mk_heap_free. */
static mk_status make_header(mt_st_writer *w, const char *const *metadata, char **out, int64_t *bytes) {
  mk_context *ctx = w->ctx;
  mk_status st = MK_OK;
  char *text = NULL;
  cJSON *root = cJSON_CreateObject();
  bool ok = root != NULL && add_metadata(root, metadata);
  for (int64_t i = 0; i < w->count && ok; i++)
    ok = add_tensor(root, &w->tensors[i]);
  if (ok) text = cJSON_PrintUnformatted(root);
  MK_CHECK_GOTO(ctx, text != NULL, MK_ERR_MEMORY, out, "%s: out of host memory for the header", w->path);
  int64_t length = (int64_t)strlen(text);
  *bytes = (length + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
  MK_TRY_GOTO(ctx, mk_heap_printf(ctx, out, "%-*s", (int)*bytes, text), out);
out:
  cJSON_free(text);
  cJSON_Delete(root);
  return st;
}

static mk_status start_file(mt_st_writer *w, const char *const *metadata, int64_t data_bytes) {
  mk_context *ctx = w->ctx;
  mk_status st = MK_OK;
  char *header = NULL;
  mt_st_header check = {0};
  int64_t bytes = 0;
  MK_TRY_GOTO(ctx, make_header(w, metadata, &header, &bytes), out);
  /* the reader's own rules, so that a file that cannot be read (a name twice, a shape too large) is never started */
  MK_TRY_GOTO(ctx, mt_st_header_parse(ctx, w->path, header, bytes, data_bytes, &check), out);
  MK_TRY_GOTO(ctx, mk_heap_printf(ctx, &w->temporary, "%s.tmp%ld", w->path, (long)getpid()), out);
  w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  MK_CHECK_GOTO(ctx, w->fd >= 0, MK_ERR_OUTPUT, out, "%s: cannot create: %s", w->path, strerror(errno));
  uint64_t length = (uint64_t)bytes;
  w->data_begin = (int64_t)sizeof length + bytes;
  MK_TRY_GOTO(ctx, write_at(w, &length, sizeof length, 0), out);
  MK_TRY_GOTO(ctx, write_at(w, header, bytes, sizeof length), out);
out:
  mt_st_header_fini(ctx, &check);
  mk_heap_free(ctx, header);
  return st;
}

mk_status mt_st_writer_create(mk_context *ctx, const char *path, const mt_st_tensor *tensors, int64_t count,
                              const char *const *metadata, mt_st_writer **out) {
  mk_status st = MK_OK;
  mt_st_writer *w = NULL;
  MK_TRY_GOTO(ctx, mk_heap_alloc(ctx, sizeof *w, &w), out);
  w->ctx = ctx;
  w->fd = -1;
  MK_TRY_GOTO(ctx, mk_heap_strdup(ctx, path, &w->path), out);
  MK_TRY_GOTO(ctx, copy_tensors(w, tensors, count), out);
  MK_TRY_GOTO(ctx, start_file(w, metadata, place_tensors(w)), out);
  *out = w;
  w = NULL;
out:
  mt_st_writer_destroy(w);
  return st;
}

mk_status mt_st_writer_put(mt_st_writer *w, int64_t index, const void *values, int64_t count) {
  MK_CHECK(w->ctx, index >= 0 && index < w->count, MK_ERR_ARG, "%s: tensor index %lld of %lld", w->path,
           (long long)index, (long long)w->count);
  mt_st_tensor *t = &w->tensors[index];
  MK_CHECK(w->ctx, count >= 0 && count <= t->count - w->written[index], MK_ERR_ARG,
           "%s: tensor '%s': %lld elements more after %lld of %lld", w->path, t->name, (long long)count,
           (long long)w->written[index], (long long)t->count);
  int64_t size = (int64_t)mk_dtype_bytes(t->dtype);
  MK_TRY(w->ctx, write_at(w, values, count * size, w->data_begin + t->begin_bytes + w->written[index] * size));
  w->written[index] += count;
  return MK_OK;
}

/* A rename survives a power cut only once its folder is synced. */
static mk_status sync_folder(mt_st_writer *w) {
  mk_context *ctx = w->ctx;
  char *copy = NULL;
  MK_TRY(ctx, mk_heap_strdup(ctx, w->path, &copy));
  mk_status st = mk_folder_sync(ctx, dirname(copy));
  mk_heap_free(ctx, copy);
  return st;
}

mk_status mt_st_writer_commit(mt_st_writer *w) {
  for (int64_t i = 0; i < w->count; i++) {
    MK_CHECK(w->ctx, w->written[i] == w->tensors[i].count, MK_ERR_ARG, "%s: tensor '%s': %lld of %lld elements written",
             w->path, w->tensors[i].name, (long long)w->written[i], (long long)w->tensors[i].count);
  }
  MK_CHECK(w->ctx, fsync(w->fd) == 0, MK_ERR_OUTPUT, "%s: cannot sync: %s", w->path, strerror(errno));
  int fd = w->fd;
  w->fd = -1;
  bool moved = close(fd) == 0 && rename(w->temporary, w->path) == 0;
  if (!moved) {
    mk_status st =
        MK_FAIL(w->ctx, MK_ERR_OUTPUT, "%s: cannot close or rename into place: %s", w->path, strerror(errno));
    unlink(w->temporary);
    return st;
  }
  return sync_folder(w);
}

void mt_st_writer_destroy(mt_st_writer *w) {
  if (w == NULL) return;
  if (w->fd >= 0) {
    close(w->fd);
    unlink(w->temporary);
  }
  for (int64_t i = 0; i < w->count; i++)
    mk_heap_free(w->ctx, w->names[i]);
  mk_heap_free(w->ctx, w->names);
  mk_heap_free(w->ctx, w->tensors);
  mk_heap_free(w->ctx, w->written);
  mk_heap_free(w->ctx, w->temporary);
  mk_heap_free(w->ctx, w->path);
  mk_heap_free(w->ctx, w);
}

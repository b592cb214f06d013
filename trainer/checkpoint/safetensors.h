/* Safetensors files: 8 bytes of header length, a JSON header with dtype, shape and byte range of every tensor, then the
 * values, little-endian and without gaps (format: https://github.com/huggingface/safetensors, README, "Format").
 * Dtypes F32, F64, BF16, I32, I64, U8; others are refused by name. Errors name file, tensor and value. */
#ifndef TRAINER_CHECKPOINT_SAFETENSORS_H
#define TRAINER_CHECKPOINT_SAFETENSORS_H

#include "kernels/base/dtype.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MT_ST_MAX_DIMS = 8 };

typedef struct mt_st_tensor {
  const char *name; /* borrowed: from the reader, or the caller's for a writer */
  mk_dtype dtype;
  int n_dims; /* 0 = a single value */
  int64_t dim[MT_ST_MAX_DIMS];
  int64_t count;       /* elements; a writer computes it */
  int64_t begin_bytes; /* first byte, counted from the end of the header; a writer computes it */
} mt_st_tensor;

typedef struct mt_st_reader mt_st_reader;
typedef struct mt_st_writer mt_st_writer;

/* Opens a file and checks the whole header: length, JSON, dtypes, shapes, byte counts, that the ranges cover the data
 * without gap or overlap, and that names are unique. No value is read. MK_ERR_IO, MK_ERR_FORMAT, or MK_ERR_UNSUPPORTED
 * for a dtype that is legal but not read here. */
mk_status mt_st_reader_create(mk_context *ctx, const char *path, mt_st_reader **out);
void mt_st_reader_destroy(mt_st_reader *reader);

const char *mt_st_reader_path(const mt_st_reader *reader);
int64_t mt_st_reader_count(const mt_st_reader *reader);
const mt_st_tensor *mt_st_reader_at(const mt_st_reader *reader, int64_t index);      /* in name order */
const mt_st_tensor *mt_st_reader_find(const mt_st_reader *reader, const char *name); /* NULL: absent */
const char *mt_st_reader_metadata(const mt_st_reader *reader, const char *key);      /* NULL: absent */

/* Elements [first, first + count) as dtype `as` into `out` (caller's, count elements). Floating tensors are read as F32
 * or F64 (rounded to nearest), integer ones as I32 or I64 (a value that does not fit is an error); any as itself. */
mk_status mt_st_reader_get(const mt_st_reader *reader, const mt_st_tensor *tensor, int64_t first, int64_t count,
                           mk_dtype as, void *out);

/* Starts a file under a temporary name beside `path`. `metadata`: key, value, key, value, ..., NULL; or NULL. Values
 * are laid out by falling element size, so that every tensor is aligned; the data starts at a multiple of 8. */
mk_status mt_st_writer_create(mk_context *ctx, const char *path, const mt_st_tensor *tensors, int64_t count,
                              const char *const *metadata, mt_st_writer **out);

/* Appends `count` elements of the tensor's dtype to tensor `index` (of the array given at create). */
mk_status mt_st_writer_put(mt_st_writer *writer, int64_t index, const void *values, int64_t count);

/* Checks that every tensor is complete, syncs and renames into place. Before that `path` is untouched. */
mk_status mt_st_writer_commit(mt_st_writer *writer);

/* Removes the temporary file where commit did not succeed. */
void mt_st_writer_destroy(mt_st_writer *writer);

/* Writes "[8,64,32]" into text; returns text. */
const char *mt_st_shape_text(int n_dims, const int64_t *dim, char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif

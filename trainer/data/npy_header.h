/* The header of NumPy's own file format: 6 bytes of magic, version, length, then a Python dictionary as text with
 * descr, fortran_order and shape (numpy/numpy:numpy/lib/format.py, "Format Version 1.0" to "3.0"). */
#ifndef TRAINER_DATA_NPY_HEADER_H
#define TRAINER_DATA_NPY_HEADER_H

#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MT_NPY_HEAD_BYTES = 4096 }; /* of the file's begin that are looked at; a one-dimensional header has 128 */

typedef struct mt_npy_header {
  int width; /* bytes of an unsigned integer */
  int64_t begin_bytes, count;
} mt_npy_header;

/* True where the bytes begin with the magic. */
bool mt_npy_header_is(const char *head, int64_t bytes);

/* MK_ERR_FORMAT names the path and what is not one dimension of little-endian unsigned integers. */
mk_status mt_npy_header_parse(mk_context *ctx, const char *path, const char *head, int64_t bytes, mt_npy_header *out);

#ifdef __cplusplus
}
#endif

#endif

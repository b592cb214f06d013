/* The JSON header of a safetensors file, parsed and checked; shared by the reader and the fuzz test. */
#ifndef TRAINER_CHECKPOINT_SAFETENSORS_HEADER_H
#define TRAINER_CHECKPOINT_SAFETENSORS_HEADER_H

#include "trainer/checkpoint/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cJSON;

typedef struct mt_st_header {
  struct cJSON *root;    /* owns the names */
  mt_st_tensor *tensors; /* sorted by name */
  int64_t count;
} mt_st_header;

/* `text`: the header, NUL-terminated beyond `bytes`. `data_bytes`: what follows it in the file. On failure `out` is
 * untouched and nothing is kept. */
mk_status mt_st_header_parse(mk_context *ctx, const char *path, const char *text, int64_t bytes, int64_t data_bytes,
                             mt_st_header *out);
void mt_st_header_fini(mk_context *ctx, mt_st_header *header);

/* "F32" and so on; NULL for a dtype without a name in the format. */
const char *mt_st_dtype_name(mk_dtype dtype);

#ifdef __cplusplus
}
#endif

#endif

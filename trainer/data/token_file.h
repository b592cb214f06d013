/* A file of tokens: unsigned integers of 1, 2, 4 or 8 bytes, little-endian, after a header or none.
 *
 *   bytes  every byte is a token
 *   bin    llm.c: 256 int32 (magic, version, count), then the tokens; magic 20240520 version 1: u16, magic 20240801
 *          version 7: u32 (karpathy/llm.c:dev/data/data_common.py)
 *   npy    OLMo: no header at all, in spite of the name (Olmo-core 3.0.0 olmo_core/data/numpy_dataset.py); or NumPy's
 *          own format with its header (numpy/numpy:numpy/lib/format.py), one dimension, unsigned
 * Width of a file without header: data_dtype, by default the smallest that holds vocab - 1, as there. */
#ifndef TRAINER_DATA_TOKEN_FILE_H
#define TRAINER_DATA_TOKEN_FILE_H

#include "trainer/launch/config.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mt_token_format { MT_TOKENS_BYTES, MT_TOKENS_BIN, MT_TOKENS_NPY } mt_token_format;

typedef struct mt_token_file {
  char *path;
  int fd;
  int width;           /* bytes of a token */
  int64_t begin_bytes; /* offset of the first token */
  int64_t tokens;
} mt_token_file;

/* Opens a file and checks header and size. MK_ERR_IO, MK_ERR_FORMAT with path and cause. */
mk_status mt_token_file_open(mk_context *ctx, const mt_config *cfg, mt_token_format format, const char *path,
                             mt_token_file *out);
void mt_token_file_close(mk_context *ctx, mt_token_file *file);

/* Tokens [first, first + count). raw: scratch of count * width bytes. A token of `vocab` or more is MK_ERR_FORMAT with
 * file, offset and value. */
mk_status mt_token_file_read(mk_context *ctx, const mt_token_file *file, int64_t first, int64_t count, int64_t vocab,
                             unsigned char *raw, int32_t *out);

#ifdef __cplusplus
}
#endif

#endif

/* What a source of tokens provides; data.c adds ranks, steps and checks. */
#ifndef TRAINER_DATA_SOURCE_H
#define TRAINER_DATA_SOURCE_H

#include "trainer/data/data.h"
#include "trainer/data/token_file.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mt_source mt_source;

enum { MT_WINDOWS_ENDLESS = -1 };

/* Base of every source (first member). */
struct mt_source {
  /* Tokens [seq_len] and labels [seq_len] of training window `window`, or of held-out window `window`. */
  mk_status (*window)(mt_source *source, int64_t window, bool held_out, int32_t *tokens, int32_t *labels);
  /* Adds the content that windows come from (mt_data_fingerprint). */
  mk_status (*fingerprint)(mt_source *source, mk_hash *hash);
  void (*destroy)(mt_source *source);
  mk_context *ctx;
  int64_t seq_len, vocab;
  int64_t train_windows; /* training windows 0 .. train_windows - 1; MT_WINDOWS_ENDLESS where all are legal */
  bool shift_inside;
};

mk_status mt_source_random_create(mk_context *ctx, const mt_config *cfg, mt_source **out);
mk_status mt_source_tokens_create(mk_context *ctx, const mt_config *cfg, mt_token_format format, mt_source **out);
mk_status mt_source_tensors_create(mk_context *ctx, const mt_config *cfg, mt_source **out);

/* Fills the common fields. */
void mt_source_init(mt_source *source, mk_context *ctx, const mt_config *cfg);

/* Adds size, first and last MiB of a file to the fingerprint; messages name the configuration key unless it is NULL. */
mk_status mt_source_hash_file(mk_context *ctx, mk_hash *hash, const char *key, const char *path);

/* Tokens that a window reads: seq_len, or one more when every label counts. */
int64_t mt_source_reads(const mt_source *source);

/* Labels from a window's tokens by the rule of data.h; `next` is the token after the window (unused with shift_inside).
 */
void mt_source_label(const mt_source *source, const int32_t *tokens, int32_t next, int32_t *labels);

#ifdef __cplusplus
}
#endif

#endif

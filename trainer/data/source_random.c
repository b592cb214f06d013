/* Random tokens: word k mod 4 of counter block k / 4, scaled to the vocabulary by a multiplication (the bias is at most
 * vocab / 2^32). Training and evaluation are two streams of one seed. */
#include "kernels/base/heap.h"
#include "kernels/base/rng.h"
#include "trainer/data/source.h"

enum { STREAM_TRAIN = 0, STREAM_EVAL = 1 };

typedef struct random_source {
  mt_source base;
  uint64_t seed;
} random_source;

static int32_t draw(const random_source *s, uint32_t stream, int64_t index) {
  mk_rng_block block = mk_rng_draw(s->seed, MK_RNG_TOKENS, stream, (uint64_t)index / 4);
  return (int32_t)(((uint64_t)block.word[index % 4] * (uint64_t)s->base.vocab) >> 32);
}

static mk_status window(mt_source *source, int64_t index, bool held_out, int32_t *tokens, int32_t *labels) {
  const random_source *s = (const random_source *)source;
  uint32_t stream = held_out ? STREAM_EVAL : STREAM_TRAIN;
  int64_t first = index * source->seq_len;
  for (int64_t i = 0; i < source->seq_len; i++)
    tokens[i] = draw(s, stream, first + i);
  mt_source_label(source, tokens, draw(s, stream, first + source->seq_len), labels);
  return MK_OK;
}

/* Nothing beyond kind, seed and vocabulary, which are keys. */
static mk_status fingerprint(mt_source *source, mk_hash *hash) {
  (void)source, (void)hash;
  return MK_OK;
}

static void destroy(mt_source *source) { mk_heap_free(source->ctx, source); }

mk_status mt_source_random_create(mk_context *ctx, const mt_config *cfg, mt_source **out) {
  random_source *s = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *s, &s));
  s->base = (mt_source){.window = window, .fingerprint = fingerprint, .destroy = destroy};
  mt_source_init(&s->base, ctx, cfg);
  s->seed = (uint64_t)cfg->seed;
  *out = &s->base;
  return MK_OK;
}

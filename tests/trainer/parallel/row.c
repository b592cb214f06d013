/* See row.h. */
#include "tests/trainer/parallel/row.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/trainer/support/tiny.h"
#include "trainer/parallel/pp_layout.h"

static mt_config base_config(int ranks) {
  mt_config c = tiny_config();
  c.ranks = ranks;
  c.lr = 1e-3;
  c.bucket_mib = 0.02; /* several buckets */
  c.comm_timeout_s = 60;
  return c;
}

/* Sets every `key=value` of the row's text. */
static mk_status apply(mk_context *ctx, row *r) {
  char text[ROW_TEXT_BYTES], *rest = NULL;
  memcpy(text, r->text, sizeof text);
  for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
    char *value = strchr(word, '=');
    MK_CHECK(ctx, value != NULL, MK_ERR_CONFIG, "'%s' is not key=value", word);
    *value++ = '\0';
    if (strcmp(word, "routing") == 0 && strcmp(value, "replay") == 0) {
      r->replay = true;
    } else if (strcmp(word, "microbatches") == 0) {
      r->microbatches = atoll(value);
    } else {
      MK_TRY(ctx, mt_config_set(ctx, &r->cfg, word, value));
    }
  }
  return MK_OK;
}

mk_status row_parse(mk_context *ctx, const char *text, int ranks, row *out) {
  row r = {.cfg = base_config(ranks)};
  MK_CHECK(ctx, strlen(text) < sizeof r.text, MK_ERR_CONFIG, "a row of more than %zu bytes", sizeof r.text - 1);
  memcpy(r.text, text, strlen(text) + 1);
  MK_TRY(ctx, apply(ctx, &r));
  if (r.cfg.precision == MT_MXFP8) { /* blocks of 32 */
    r.cfg.d_model = 64, r.cfg.head_dim = 16, r.cfg.dense_hidden = 64, r.cfg.expert_hidden = 32;
    r.cfg.shared_hidden = 32, r.cfg.seq_len = 16, r.cfg.rank_tokens = 64;
  }
  if (ranks % r.cfg.pp == 0) { /* the others are refused; stages are of unequal length */
    mt_pp_shape shape = mt_pp_shape_of(&r.cfg);
    r.cfg.layers = shape.ranks * shape.chunks + 1;
  }
  if (r.cfg.layers < 3) r.cfg.layers = 3;
  r.cfg.global_tokens = 2 * r.cfg.rank_tokens * ranks;
  if (r.microbatches > 0) r.cfg.global_tokens = r.cfg.rank_tokens * (ranks / r.cfg.pp) * r.microbatches;
  MK_TRY(ctx, apply(ctx, &r)); /* what the row says itself stands */
  *out = r;
  return MK_OK;
}

mt_config row_one_rank(const row *r) {
  mt_config one = r->cfg, base = base_config(1);
  one.ranks = 1, one.ep = 1, one.pp = 1, one.pp_schedule = MT_PP_1F1B, one.pp_chunks = 0, one.shard = MT_SHARD_NONE;
  one.grad_reduce = base.grad_reduce, one.recompute = MT_RECOMPUTE_NONE;
  /* deepep_v2 rounds elsewhere, which Adam's first steps amplify: on one rank, in FP32, it is held against weights at
   * the source, on more ranks against itself on one */
  bool own_rounding = one.ep_transport == MT_EP_DEEPEP_V2 && (r->cfg.ranks > 1 || one.precision != MT_FP32);
  if (!own_rounding) one.ep_transport = base.ep_transport;
  memcpy(one.device, base.device, sizeof one.device);
  one.guard = false;
  return one;
}

mt_config row_plain(const row *r) {
  mt_config plain = r->cfg, base = base_config(1);
  memcpy(plain.device, base.device, sizeof plain.device);
  plain.guard = false;
  plain.recompute = MT_RECOMPUTE_NONE;
  if (plain.ep_transport == MT_EP_ROWWISE) plain.ep_transport = MT_EP_BLOCK;
  return plain;
}

void row_key(const mt_config *cfg, char *text, size_t bytes) {
  size_t count = 0, used = 0;
  const mt_key *keys = mt_config_keys(&count);
  for (size_t i = 0; i < count; i++) {
    char value[MT_TEXT_BYTES];
    mt_config_get(cfg, &keys[i], value, sizeof value);
    used += (size_t)snprintf(text + used, bytes - used, "%s ", value);
    if (used >= bytes) {
      fprintf(stderr, "row_key: the configuration is longer than %zu bytes\n", bytes);
      exit(2);
    }
  }
}

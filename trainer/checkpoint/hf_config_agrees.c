/* See hf_config.h: a model folder against the model of a run, before its weights are taken. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "trainer/checkpoint/hf_config.h"

/* What a model computes beside the shapes of its tensors. How it is trained (losses, initial values) may differ. */
static const char *const KEYS[] = {"top_k",    "heads",  "kv_heads",  "norm_eps",     "rope_theta",
                                   "clip_qkv", "gating", "norm_topk", "weight_scale", "embed_scale"};

static mk_status compare(mk_context *ctx, const char *path, const mt_config *there, const mt_config *here) {
  for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++) {
    const mt_key *key = mt_config_key_find(KEYS[i]);
    char theirs[MT_TEXT_BYTES], ours[MT_TEXT_BYTES];
    mt_config_get(there, key, theirs, sizeof theirs);
    mt_config_get(here, key, ours, sizeof ours);
    MK_CHECK(ctx, strcmp(theirs, ours) == 0, MK_ERR_MISMATCH,
             "%s: the model there has %s %.60s, this run %.60s; set %s=%.60s, or take the weights file by its name",
             path, key->name, theirs, ours, key->name, theirs);
  }
  return MK_OK;
}

mk_status mt_hf_config_agrees(mk_context *ctx, const char *folder, const mt_config *cfg) {
  char path[2 * MT_TEXT_BYTES];
  mt_config there = *cfg;
  snprintf(path, sizeof path, "%s/config.json", folder);
  if (access(path, F_OK) != 0) return MK_OK; /* a file, or a folder without one */
  MK_TRY(ctx, mt_hf_config_read(ctx, path, &there));
  return compare(ctx, path, &there, cfg);
}

/* Defaults, parsing and printing of keys. Combination checks are in config_check.c, run.json in config_json.c. */
#include "trainer/launch/config.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/text.h"

mt_config mt_config_default(void) {
  return (mt_config){
      .model = "custom",
      .layers = 2,
      .d_model = 64,
      .heads = 4,
      .kv_heads = 2,
      .head_dim = 16,
      .experts = 8,
      .top_k = 2,
      .expert_hidden = 64,
      .vocab = 256,
      .norm = MT_NORM_PRE,
      .norm_eps = 1e-6,
      .embed_scale = 1,
      .qk_norm = MK_QK_NORM_HEAD,
      .rope_theta = 500000,
      .gating = MK_GATING_SOFTMAX,
      .norm_topk = true,
      .lb_def = MK_LB_OLMO,
      .lb_weight = 0.01,
      .router_z_weight = 1e-4,
      .init_std = 0.02,
      .ranks = 1,
      .ep = 1,
      .pp = 1,
      .pp_schedule = MT_PP_1F1B,
      .shard = MT_SHARD_NONE,
      .bucket_mib = 250,
      .fsdp_prefetch = 1,
      .fsdp_prefetch_backward = -1,
      .seq_len = 64,
      .rank_tokens = 256,
      .global_tokens = 256,
      .precision = MT_FP32,
      .mxfp8_attention = true,
      .mxfp8_mlp = true,
      .mxfp8_ep = true,
      .routing = MK_ROUTING_LEARNED,
      .seed = 1234,
      .steps = 10,
      .lr = 3e-4,
      .lr_min_ratio = 0.1,
      .schedule = MK_LR_CONSTANT,
      .beta1 = 0.9,
      .beta2 = 0.95,
      .eps = 1e-8,
      .weight_decay = 0.1,
      .decay = MT_DECAY_NO_EMBEDDING,
      .clip = 1.0,
      .skip_sigma = 12,
      .data = MT_DATA_RANDOM,
      .holdout = 0,
      .label_shift_inside = true,
      .checkpoint_keep = 2,
      .resume = "none",
      .device = "cpu",
      .comm_timeout_s = 120,
  };
}

const mt_key *mt_config_key_find(const char *name) {
  size_t count = 0;
  const mt_key *keys = mt_config_keys(&count);
  for (size_t i = 0; i < count; i++) {
    if (strcmp(keys[i].name, name) == 0) return &keys[i];
  }
  return NULL;
}

const char *mt_config_key_nearest(const char *name) {
  size_t count = 0;
  const mt_key *keys = mt_config_keys(&count);
  size_t best = 0;
  int best_distance = mk_text_distance(name, keys[0].name);
  for (size_t i = 1; i < count; i++) {
    int distance = mk_text_distance(name, keys[i].name);
    if (distance < best_distance) {
      best = i;
      best_distance = distance;
    }
  }
  return keys[best].name;
}

static mk_status set_number(mk_context *ctx, mt_config *cfg, const mt_key *key, const char *text) {
  double value = 0;
  bool whole = key->type == MT_KEY_INT;
  bool special = key->words != NULL && strcmp(text, key->words[0]) == 0;
  if (special) {
    value = key->special_value;
  } else {
    MK_CHECK(ctx, mk_text_number(text, whole, &value), MK_ERR_CONFIG, "%s: '%s' is not a %s number%s%s", key->name,
             text, whole ? "whole" : "decimal", key->words != NULL ? " or the word " : "",
             key->words != NULL ? key->words[0] : "");
    MK_CHECK(ctx, value >= key->min && value <= key->max, MK_ERR_CONFIG,
             "%s: %s is out of range, allowed %.15g to %.15g", key->name, text, key->min, key->max);
  }
  char *field = (char *)cfg + key->offset;
  if (whole) {
    int64_t integer = (int64_t)value;
    memcpy(field, &integer, sizeof integer);
  } else {
    memcpy(field, &value, sizeof value);
  }
  return MK_OK;
}

static mk_status set_enum(mk_context *ctx, mt_config *cfg, const mt_key *key, const char *text) {
  char legal[256] = "";
  size_t used = 0;
  for (int i = 0; key->words[i] != NULL; i++) {
    if (strcmp(text, key->words[i]) == 0) {
      memcpy((char *)cfg + key->offset, &i, sizeof i); /* enums are int-sized */
      return MK_OK;
    }
    used += (size_t)snprintf(legal + used, sizeof legal - used, "%s%s", i == 0 ? "" : ", ", key->words[i]);
  }
  return MK_FAIL(ctx, MK_ERR_CONFIG, "%s: '%s' is not one of: %s", key->name, text, legal);
}

static mk_status set_bool(mk_context *ctx, mt_config *cfg, const mt_key *key, const char *text) {
  bool yes = strcmp(text, "true") == 0;
  MK_CHECK(ctx, yes || strcmp(text, "false") == 0, MK_ERR_CONFIG, "%s: '%s' is not true or false", key->name, text);
  memcpy((char *)cfg + key->offset, &yes, sizeof yes);
  return MK_OK;
}

static size_t text_bytes(const mt_key *key) {
  return key->offset == offsetof(mt_config, device) ? sizeof((mt_config *)0)->device : MT_TEXT_BYTES;
}

static mk_status set_text(mk_context *ctx, mt_config *cfg, const mt_key *key, const char *text) {
  MK_CHECK(ctx, strlen(text) < text_bytes(key), MK_ERR_CONFIG, "%s: text is longer than %zu bytes", key->name,
           text_bytes(key) - 1);
  strcpy((char *)cfg + key->offset, text);
  return MK_OK;
}

mk_status mt_config_set(mk_context *ctx, mt_config *cfg, const char *name, const char *text) {
  const mt_key *key = mt_config_key_find(name);
  MK_CHECK(ctx, key != NULL, MK_ERR_CONFIG, "unknown key '%s'; the nearest is '%s'", name, mt_config_key_nearest(name));
  switch (key->type) {
    case MT_KEY_INT:
    case MT_KEY_FLOAT:
      return set_number(ctx, cfg, key, text);
    case MT_KEY_BOOL:
      return set_bool(ctx, cfg, key, text);
    case MT_KEY_ENUM:
      MK_TRY(ctx, set_enum(ctx, cfg, key, text));
      return key->offset == offsetof(mt_config, preset) ? mt_config_expand(ctx, cfg) : MK_OK;
    default:
      return set_text(ctx, cfg, key, text);
  }
}

void mt_config_get(const mt_config *cfg, const mt_key *key, char *text, size_t bytes) {
  const char *field = (const char *)cfg + key->offset;
  int64_t integer = 0;
  double number = 0;
  int word = 0;
  bool yes = false;
  switch (key->type) {
    case MT_KEY_INT:
      memcpy(&integer, field, sizeof integer);
      snprintf(text, bytes, "%lld", (long long)integer);
      break;
    case MT_KEY_FLOAT:
      memcpy(&number, field, sizeof number);
      snprintf(text, bytes, "%.17g", number);
      break;
    case MT_KEY_BOOL:
      memcpy(&yes, field, sizeof yes);
      snprintf(text, bytes, "%s", yes ? "true" : "false");
      break;
    case MT_KEY_ENUM:
      memcpy(&word, field, sizeof word);
      snprintf(text, bytes, "%s", key->words[word]);
      break;
    default:
      snprintf(text, bytes, "%s", field);
      break;
  }
}

int64_t mt_config_ep(const mt_config *cfg) { return cfg->ep == 0 ? cfg->ranks / cfg->pp : cfg->ep; }

int64_t mt_config_dp(const mt_config *cfg) { return cfg->ranks / cfg->pp; }

int64_t mt_config_prefetch_backward(const mt_config *cfg) {
  return cfg->fsdp_prefetch_backward < 0 ? cfg->fsdp_prefetch : cfg->fsdp_prefetch_backward;
}

int64_t mt_config_microbatches(const mt_config *cfg) {
  return cfg->global_tokens / (cfg->rank_tokens * mt_config_dp(cfg));
}

int64_t mt_config_moe_layers(const mt_config *cfg) { return cfg->layers - cfg->dense_layers; }

const char *mt_config_kind(const mt_config *cfg) {
  if (strcmp(cfg->device, "sim") == 0) return "simulated";
  return cfg->precision == MT_MXFP8 && strcmp(cfg->device, "cuda") != 0 ? "emulated" : "measured";
}

/* Typed reads of config.json keys, and the table that a model family fills. JSON null counts as absent. */
#ifndef TRAINER_CHECKPOINT_HF_CONFIG_KEYS_H
#define TRAINER_CHECKPOINT_HF_CONFIG_KEYS_H

#include "trainer/launch/config.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cJSON;

typedef struct mt_hf_source {
  mk_context *ctx;
  const char *path;
  const struct cJSON *root;
} mt_hf_source;

const struct cJSON *mt_hf_item(const mt_hf_source *src, const char *key);    /* NULL: absent or null */
mk_status mt_hf_int(const mt_hf_source *src, const char *key, int64_t *out); /* required, at least 1 */
mk_status mt_hf_int_or(const mt_hf_source *src, const char *key, int64_t otherwise, int64_t *out);
mk_status mt_hf_number_or(const mt_hf_source *src, const char *key, double otherwise, double *out);
mk_status mt_hf_bool_or(const mt_hf_source *src, const char *key, bool otherwise, bool *out);
mk_status mt_hf_refuse_true(const mt_hf_source *src, const char *key);

/* A family: its defaults, and what only it has. */
typedef struct mt_hf_model {
  const char *type, *architecture;
  double norm_eps, aux_coef; /* where config.json leaves them out */
  mk_status (*parse)(const mt_hf_source *src, mt_config *cfg);
  bool (*add)(struct cJSON *root, const mt_config *cfg); /* false: out of memory */
} mt_hf_model;

extern const mt_hf_model mt_hf_olmoe, mt_hf_qwen3_moe;

#ifdef __cplusplus
}
#endif

#endif

/* config.json of Hugging Face models, to and from mt_config. Models: OLMoE (model_type olmoe) and Qwen3-MoE
 * (qwen3_moe). Meanings and defaults are those of transformers 5.23.0 (models/{olmoe,qwen3_moe}/configuration_*.py). */
#ifndef TRAINER_CHECKPOINT_HF_CONFIG_H
#define TRAINER_CHECKPOINT_HF_CONFIG_H

#include "trainer/launch/config.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cJSON;

/* Sets the model keys of *cfg (and only those) from a config.json. A model option that the trainer does not have
 * (attention bias, tied embeddings, RoPE scaling, sliding window, dense layers that do not lead ...) is
 * MK_ERR_UNSUPPORTED naming file, key and value. */
mk_status mt_hf_config_read(mk_context *ctx, const char *path, mt_config *cfg);

/* The same from a parsed object; `path` is for messages. */
mk_status mt_hf_config_parse(mk_context *ctx, const char *path, const struct cJSON *root, mt_config *cfg);

/* Does the config.json in `folder`, where there is one, describe the function that `cfg` computes? Keys that no
 * tensor's shape shows (norm_topk, rope_theta, ...) must be equal; MK_ERR_MISMATCH names the first that is not. */
mk_status mt_hf_config_agrees(mk_context *ctx, const char *folder, const mt_config *cfg);

/* Writes a config.json with which transformers loads the exported weights. Only for models whose
 * mt_weights_layout_for is hf. */
mk_status mt_hf_config_write(mk_context *ctx, const char *path, const mt_config *cfg);

#ifdef __cplusplus
}
#endif

#endif

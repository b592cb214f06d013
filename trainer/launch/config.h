/* Everything that decides what a run computes, as one flat struct and one table of keys.
 *
 * The same keys stand in model files, in the `set:` of a study, in a run's resolved config (run.json) and behind
 * `--set key=value`. mt_config_default() fills defaults; mt_config_set() parses, checks type and range;
 * mt_config_check() checks what only several keys together can break. */
#ifndef TRAINER_LAUNCH_CONFIG_H
#define TRAINER_LAUNCH_CONFIG_H

#include "kernels/ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MT_TEXT_BYTES = 512 };

typedef enum mt_norm_placement { MT_NORM_REORDERED, MT_NORM_PERI, MT_NORM_PRE, MT_NORM_HYBRID } mt_norm_placement;
typedef enum mt_preset { MT_PRESET_NONE, MT_PRESET_OLMO_V1 } mt_preset;
typedef enum mt_weight_scale { MT_WEIGHT_SCALE_ONE, MT_WEIGHT_SCALE_K } mt_weight_scale;
typedef enum mt_lb_granularity { MT_LB_BATCH, MT_LB_INSTANCE } mt_lb_granularity;
typedef enum mt_capacity_scope { MT_CAPACITY_RANK, MT_CAPACITY_EXPERT } mt_capacity_scope;
typedef enum mt_shard { MT_SHARD_NONE, MT_SHARD_DDP, MT_SHARD_DIST_OPT, MT_SHARD_FSDP } mt_shard;
typedef enum mt_grad_reduce { MT_GRAD_ALL_REDUCE, MT_GRAD_REDUCE_SCATTER } mt_grad_reduce;
typedef enum mt_fsdp_reshard { MT_RESHARD_AFTER_FORWARD, MT_KEEP_TO_BACKWARD, MT_KEEP_TO_FORWARD } mt_fsdp_reshard;
typedef enum mt_fsdp_reduce { MT_FSDP_REDUCE_EACH, MT_FSDP_REDUCE_LAST } mt_fsdp_reduce;
typedef enum mt_ep_transport { MT_EP_BLOCK, MT_EP_ROWWISE, MT_EP_DEEPEP_V2 } mt_ep_transport;
typedef enum mt_precision { MT_FP32, MT_BF16, MT_MXFP8, MT_FP64 } mt_precision;
typedef enum mt_recompute { MT_RECOMPUTE_NONE, MT_RECOMPUTE_SELECTIVE, MT_RECOMPUTE_FULL } mt_recompute;
typedef enum mt_recompute_rule { MT_RULE_TORCHTITAN, MT_RULE_OLMO } mt_recompute_rule;
typedef enum mt_decay { MT_DECAY_ALL, MT_DECAY_NO_EMBEDDING, MT_DECAY_NO_NORM } mt_decay;
typedef enum mt_pp_schedule { MT_PP_GPIPE, MT_PP_1F1B, MT_PP_INTERLEAVED, MT_PP_V } mt_pp_schedule;
typedef enum mt_data_kind { MT_DATA_RANDOM, MT_DATA_BYTES, MT_DATA_TENSORS, MT_DATA_BIN, MT_DATA_NPY } mt_data_kind;
typedef enum mt_data_dtype { MT_DTYPE_AUTO, MT_DTYPE_U8, MT_DTYPE_U16, MT_DTYPE_U32, MT_DTYPE_U64 } mt_data_dtype;

typedef struct mt_config {
  mt_preset preset; /* stands first: setting it sets the keys of the stack, later settings stand */
  /* model (suite/models/<model>.yaml sets all of these) */
  char model[MT_TEXT_BYTES];
  int64_t layers, dense_layers; /* dense_layers: leading layers without routed experts */
  int64_t d_model, heads, kv_heads, head_dim;
  int64_t dense_hidden; /* F of a dense layer */
  int64_t experts, top_k, expert_hidden;
  int64_t shared_hidden; /* F of the shared expert; 0 = none */
  int64_t vocab;
  mt_norm_placement norm;
  double norm_eps;
  bool embed_norm;
  double embed_scale; /* 0 = sqrt(d_model) */
  mk_qk_norm qk_norm;
  double clip_qkv;
  double rope_theta;
  mk_gating gating;
  bool norm_topk;               /* weights divided by their sum over K */
  mt_weight_scale weight_scale; /* then times 1 or K */
  mk_lb_def lb_def;
  mt_lb_granularity lb_granularity;
  double lb_weight, router_z_weight, z_weight;
  double capacity_factor;           /* rows per destination rank: ceil(factor*T*K); 0 = dropless. Bounds nothing with ep
                                       1 or block, which drop nothing: a model file serves every layout */
  mt_capacity_scope capacity_scope; /* a rank's experts share them, or each of its L experts has ceil(factor*T*K/L) */
  double init_std;
  bool init_bf16; /* initial values rounded to BF16, as Olmo-core draws them */

  /* run */
  int64_t ranks, ep, pp; /* ep 0 = world */
  mt_pp_schedule pp_schedule;
  int64_t pp_chunks; /* stages of a pipeline rank; 0 = chosen by pp_schedule */
  mt_shard shard;
  mt_grad_reduce grad_reduce;
  double bucket_mib;
  int64_t fsdp_shard_ranks; /* ranks that share one copy; 0 = all */
  mt_fsdp_reshard fsdp_reshard;
  int64_t fsdp_prefetch, fsdp_prefetch_backward; /* units gathered ahead of use; backward -1 = as forward */
  mt_fsdp_reduce fsdp_reduce;
  mt_ep_transport ep_transport;
  bool host_counts; /* without EP, refused elsewhere: the host reads the rows of each expert before it goes on */
  int64_t seq_len;
  int64_t rank_tokens;   /* tokens of one microbatch of one rank; a multiple of seq_len */
  int64_t global_tokens; /* tokens of one step over all ranks */
  mt_precision precision;
  bool mxfp8_attention, mxfp8_mlp, mxfp8_ep; /* parts under precision mxfp8 */
  mk_mxfp8_rule mxfp8_scale;
  mk_kernel kernel;
  mk_routing routing;
  mt_recompute recompute;
  mt_recompute_rule recompute_rule; /* selective: what is kept (model/recompute.h) */
  int64_t seed;
  int64_t warmup_steps, steps; /* measured steps follow the warm-up */
  int64_t head_chunk;          /* tokens per chunk of LM head and loss; 0 = chosen */

  /* optimizer */
  double lr, lr_min_ratio;
  mk_lr_schedule schedule;
  int64_t lr_warmup_steps;
  int64_t schedule_steps; /* where the schedule ends; 0 = warmup_steps + steps */
  double beta1, beta2, eps, weight_decay;
  mt_decay decay;
  double clip; /* 0 = none */
  bool skip_step;
  double skip_sigma;

  /* data, weights, evaluation */
  mt_data_kind data;
  char data_path[MT_TEXT_BYTES]; /* files or patterns, separated by commas */
  mt_data_dtype data_dtype;      /* of npy files without a header */
  double holdout;                /* last fraction of the data, kept for evaluation */
  bool label_shift_inside; /* labels are next tokens inside the window, last one ignored (Olmo-core); else every label
                              counts */
  int64_t eval_every, eval_tokens; /* 0 = never */
  char weights_in[MT_TEXT_BYTES], weights_out[MT_TEXT_BYTES];
  char checkpoint_dir[MT_TEXT_BYTES]; /* empty = no checkpoints */
  int64_t checkpoint_every;           /* steps; 0 = only at the end and when stopped */
  int64_t checkpoint_keep;            /* newest ones that stay; 0 = all */
  char resume[MT_TEXT_BYTES];         /* none, auto, or a checkpoint's folder */

  /* machine */
  char device[64];
  int64_t threads;          /* OpenMP threads of a rank; 0 = cores / ranks */
  double memory_budget_mib; /* per rank; 0 = none */
  bool guard;
  bool profile;
  double time_limit_s; /* stop after the step that passes it; 0 = none; the schedule then follows time */
  double comm_timeout_s;
  char trace[MT_TEXT_BYTES]; /* comm trace file; empty = none */
  char fault[MT_TEXT_BYTES]; /* fault injection (fault.h); empty = none */
} mt_config;

typedef enum mt_key_type { MT_KEY_INT, MT_KEY_FLOAT, MT_KEY_BOOL, MT_KEY_ENUM, MT_KEY_TEXT } mt_key_type;

typedef enum mt_key_group { MT_KEYS_MODEL, MT_KEYS_RUN, MT_KEYS_OPTIM, MT_KEYS_DATA, MT_KEYS_MACHINE } mt_key_group;

typedef struct mt_key {
  const char *name;
  mt_key_type type;
  mt_key_group group;
  size_t offset;
  double min, max;          /* numbers: inclusive range */
  const char *const *words; /* enum: NULL-terminated; number: one special word at [0] standing for special_value */
  double special_value;
  const char *help; /* one line, with the unit */
} mt_key;

/* The table; *count entries. */
const mt_key *mt_config_keys(size_t *count);

/* Entry of a key, or NULL. */
const mt_key *mt_config_key_find(const char *name);

/* Known key with the smallest edit distance to `name`, for messages. Never NULL. */
const char *mt_config_key_nearest(const char *name);

mt_config mt_config_default(void);

/* Parses `text` into the key. MK_ERR_CONFIG says key, value, type, range or words. cfg is unchanged on failure. */
mk_status mt_config_set(mk_context *ctx, mt_config *cfg, const char *key, const char *text);

/* Value of a key as text (round trip through mt_config_set). */
void mt_config_get(const mt_config *cfg, const mt_key *key, char *text, size_t bytes);

/* Sets the keys of cfg->preset. */
mk_status mt_config_expand(mk_context *ctx, mt_config *cfg);

/* True when setting `preset` to this word sets the key. */
bool mt_preset_sets(const char *preset, const char *key);

/* Norms before a branch (peri, pre), and after one (all but pre). */
static inline bool mt_norm_before(const mt_config *cfg) {
  return cfg->norm == MT_NORM_PERI || cfg->norm == MT_NORM_PRE;
}
static inline bool mt_norm_after(const mt_config *cfg) { return cfg->norm != MT_NORM_PRE; }

/* Checks combinations (divisibility, top_k <= experts, refused layouts ...). First problem as MK_ERR_CONFIG. */
mk_status mt_config_check(mk_context *ctx, const mt_config *cfg);

/* Reads and writes run.json: one flat JSON object of keys (cJSON). Unknown and repeated keys are errors,
 * the former with the nearest key; what is no JSON is MK_ERR_CONFIG with line and column. */
mk_status mt_config_read(mk_context *ctx, const char *path, mt_config *cfg);
mk_status mt_config_write(mk_context *ctx, const char *path, const mt_config *cfg);

/* The same from and to text in memory; `where` names it in messages, *text is freed with mk_heap_free. */
mk_status mt_config_parse(mk_context *ctx, const char *where, const char *text, size_t bytes, mt_config *cfg);
mk_status mt_config_print(mk_context *ctx, const mt_config *cfg, char **text);

/* EP size with 0 resolved, and derived counts. */
int64_t mt_config_ep(const mt_config *cfg);
int64_t mt_config_dp(const mt_config *cfg); /* data-parallel ranks of one stage: ranks / pp */
int64_t mt_config_prefetch_backward(const mt_config *cfg);
int64_t mt_config_microbatches(const mt_config *cfg); /* per rank and step */
int64_t mt_config_moe_layers(const mt_config *cfg);

/* How the numbers of a run come about: "measured", "simulated" (device sim), or "emulated": MXFP8 on a device that has
 * no such arithmetic, with its bits but not its speed. */
const char *mt_config_kind(const mt_config *cfg);

/* Whether attention projections, experts (routed, shared and dense MLP), and exchanged rows are MXFP8. */
static inline bool mt_mxfp8_attention(const mt_config *c) { return c->precision == MT_MXFP8 && c->mxfp8_attention; }
static inline bool mt_mxfp8_mlp(const mt_config *c) { return c->precision == MT_MXFP8 && c->mxfp8_mlp; }
static inline bool mt_mxfp8_ep(const mt_config *c) { return c->precision == MT_MXFP8 && c->mxfp8_ep; }

#ifdef __cplusplus
}
#endif

#endif

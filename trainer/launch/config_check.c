/* Combinations of keys: what only several keys together can break, each refusal with its reason. */
#include <math.h>
#include <string.h>

#include "trainer/launch/fault.h"
#include "trainer/parallel/ep.h"
#include "trainer/parallel/pp_schedule.h"

static mk_status check_model(mk_context *ctx, const mt_config *c) {
  MK_CHECK(ctx, c->dense_layers <= c->layers, MK_ERR_CONFIG, "dense_layers: %lld is more than layers %lld",
           (long long)c->dense_layers, (long long)c->layers);
  MK_CHECK(ctx, c->dense_layers == 0 || c->dense_hidden > 0, MK_ERR_CONFIG,
           "dense_hidden: must be set where dense_layers is %lld", (long long)c->dense_layers);
  MK_CHECK(ctx, c->heads % c->kv_heads == 0, MK_ERR_CONFIG, "kv_heads: %lld does not divide heads %lld",
           (long long)c->kv_heads, (long long)c->heads);
  MK_CHECK(ctx, c->head_dim % 2 == 0, MK_ERR_CONFIG, "head_dim: %lld is odd; RoPE turns pairs", (long long)c->head_dim);
  MK_CHECK(ctx, c->top_k <= c->experts, MK_ERR_CONFIG, "top_k: %lld is more than experts %lld", (long long)c->top_k,
           (long long)c->experts);
  MK_CHECK(ctx, c->lb_def != MK_LB_HF || c->lb_granularity == MT_LB_BATCH, MK_ERR_CONFIG,
           "lb_granularity: the hf definition pools the batch; instance is an olmo option");
  return MK_OK;
}

static mk_status check_layout(mk_context *ctx, const mt_config *c) {
  MK_CHECK(ctx, c->ranks % c->pp == 0, MK_ERR_CONFIG, "pp: %lld does not divide ranks %lld", (long long)c->pp,
           (long long)c->ranks);
  int64_t dp = mt_config_dp(c);
  int64_t ep = mt_config_ep(c);
  MK_CHECK(ctx, dp % ep == 0, MK_ERR_CONFIG, "ep: %lld does not divide the %lld data-parallel ranks (ranks / pp)",
           (long long)ep, (long long)dp);
  MK_CHECK(ctx, ep <= c->experts, MK_ERR_CONFIG, "ep: %lld ranks but only %lld experts; each rank owns at least one",
           (long long)ep, (long long)c->experts);
  MK_CHECK(ctx, c->experts % ep == 0, MK_ERR_CONFIG, "ep: %lld does not divide experts %lld", (long long)ep,
           (long long)c->experts);
  int64_t shared = c->shard != MT_SHARD_FSDP || c->fsdp_shard_ranks == 0 ? dp : c->fsdp_shard_ranks;
  MK_CHECK(ctx, dp % shared == 0, MK_ERR_CONFIG,
           "fsdp_shard_ranks: %lld does not divide the %lld data-parallel ranks (ranks / pp)", (long long)shared,
           (long long)dp);
  MK_CHECK(ctx, shared % ep == 0, MK_ERR_CONFIG,
           "fsdp_shard_ranks: %lld is not a multiple of ep %lld; a copy of the parameters would lack experts",
           (long long)shared, (long long)ep);
  MK_CHECK(ctx, c->shard != MT_SHARD_NONE || dp == 1, MK_ERR_CONFIG,
           "shard: none reduces no gradient, but the layout has %lld data-parallel ranks; use ddp, dist_opt or fsdp",
           (long long)dp);
  return MK_OK;
}

static mk_status check_batch(mk_context *ctx, const mt_config *c) {
  int64_t dp = mt_config_dp(c);
  MK_CHECK(ctx, c->rank_tokens % c->seq_len == 0, MK_ERR_CONFIG, "rank_tokens: %lld is not a multiple of seq_len %lld",
           (long long)c->rank_tokens, (long long)c->seq_len);
  MK_CHECK(ctx, c->rank_tokens <= INT32_MAX / c->top_k, MK_ERR_CONFIG,
           "rank_tokens: %lld x top_k %lld exceeds 2^31 routes of a microbatch", (long long)c->rank_tokens,
           (long long)c->top_k);
  int64_t rows = mt_ep_rows_max(c, mt_config_ep(c));
  MK_CHECK(
      ctx, rows <= INT32_MAX, MK_ERR_CONFIG,
      "rank_tokens: %lld x top_k %lld from each of ep %lld ranks are %lld rows that may meet at the experts of one "
      "rank, which exceeds 2^31; use a smaller rank_tokens or ep, or a capacity_factor with ep_transport rowwise "
      "or deepep_v2 and no evaluation",
      (long long)c->rank_tokens, (long long)c->top_k, (long long)mt_config_ep(c), (long long)rows);
  MK_CHECK(ctx, c->global_tokens % (c->rank_tokens * dp) == 0, MK_ERR_CONFIG,
           "global_tokens: %lld is not a multiple of rank_tokens %lld x %lld data-parallel ranks = %lld",
           (long long)c->global_tokens, (long long)c->rank_tokens, (long long)dp, (long long)(c->rank_tokens * dp));
  MK_CHECK(ctx, c->eval_tokens % c->seq_len == 0, MK_ERR_CONFIG, "eval_tokens: %lld is not a multiple of seq_len %lld",
           (long long)c->eval_tokens, (long long)c->seq_len);
  /* random routes are drawn by a token's 32-bit number in its step or evaluation, made of whole microbatches */
  const int64_t most = INT64_C(1) << 32, block = c->rank_tokens * dp;
  MK_CHECK(ctx, c->global_tokens <= most, MK_ERR_CONFIG,
           "global_tokens: %lld is more than the 2^32 tokens that a step can number", (long long)c->global_tokens);
  MK_CHECK(ctx, (c->eval_tokens + block - 1) / block <= most / block, MK_ERR_CONFIG,
           "eval_tokens: %lld in microbatches of %lld is more than the 2^32 tokens that an evaluation can number",
           (long long)c->eval_tokens, (long long)block);
  MK_CHECK(ctx, !c->label_shift_inside || c->seq_len >= 2, MK_ERR_CONFIG,
           "seq_len: 1 leaves no label where the last position is ignored");
  return MK_OK;
}

/* A pipeline: what its schedule takes, and what its stages cannot know of one another. */
static mk_status check_pipeline(mk_context *ctx, const mt_config *c) {
  const int64_t most = 1 << 20; /* passes of a step in all stages: lists of them are kept */
  mt_pp_shape shape = mt_pp_shape_of(c);
  int64_t stages = c->pp * shape.chunks;
  MK_CHECK(ctx, stages <= c->layers, MK_ERR_CONFIG,
           "pp: %lld ranks with %d stages each, but the model has %lld layers; every stage needs one", (long long)c->pp,
           shape.chunks, (long long)c->layers);
  MK_CHECK(ctx, shape.microbatches <= most / stages, MK_ERR_CONFIG,
           "global_tokens: %lld microbatches in %lld pipeline stages; at most %lld in all, take a larger rank_tokens",
           (long long)shape.microbatches, (long long)stages, (long long)most);
  MK_TRY(ctx, mt_pp_check(ctx, &shape));
  MK_CHECK(
      ctx, stages == 1 || c->lb_def != MK_LB_HF, MK_ERR_CONFIG,
      "lb_def: hf pools the counts of all layers, which the %lld stages of a pipeline do not see; use olmo or pp 1",
      (long long)stages);
  return MK_OK;
}

/* Each key is within its range, but their products must also stay within 64 bits: counts of values, in floating point
 * so that the check itself cannot overflow. The bound leaves a factor of 2^11 for bytes and copies. */
static mk_status check_size(mk_context *ctx, const mt_config *c) {
  const double most = 0x1p52;
  double d = (double)c->d_model, heads = (double)(c->heads + c->kv_heads) * (double)c->head_dim;
  double experts = (double)c->experts, hidden = (double)c->expert_hidden;
  double plain = (double)c->dense_hidden + (double)c->shared_hidden;
  double weights =
      (double)c->layers * d * (4 + 2 * heads + experts + 3 * experts * hidden + 3 * plain) + 2 * (double)c->vocab * d;
  /* block transport reserves rows for tokens x top_k of every expert-parallel rank */
  double rows = (double)c->rank_tokens * (double)c->top_k * (double)mt_config_ep(c);
  double layer = (double)c->rank_tokens * (8 * d + 4 * heads + 4 * plain + 4 * experts) + rows * (4 * d + 4 * hidden);
  mt_pp_shape shape = mt_pp_shape_of(c);
  double live = (double)mt_pp_most_live(&shape, 0) / (double)(shape.ranks * shape.chunks); /* of the model's layers */
  double values = fmax(live, 1) * (double)c->layers * layer + (double)c->rank_tokens * (double)c->vocab;
  MK_CHECK(ctx, weights <= most, MK_ERR_CONFIG,
           "layers, d_model, experts, expert_hidden, vocab: %.2g weights cannot be addressed (2^52 at most)", weights);
  MK_CHECK(ctx, values <= most, MK_ERR_CONFIG,
           "rank_tokens: %lld tokens of this model, in the %lld passes that pp_schedule keeps at once, make %.2g "
           "activations, which cannot be addressed (2^52 at most)",
           (long long)c->rank_tokens, (long long)mt_pp_most_live(&shape, 0), values);
  return MK_OK;
}

/* Keys of the token exchange that would change nothing. A capacity_factor is not among them: it belongs to the model,
 * whose exchange is dropless where a layout or transport needs no bound. */
static mk_status check_exchange(mk_context *ctx, const mt_config *c) {
  int64_t ep = mt_config_ep(c);
  MK_CHECK(ctx, !c->host_counts || mt_ep_may_wait(c, ep), MK_ERR_CONFIG,
           "host_counts: true makes the host wait only where no rank sends rows to another: set ep=1 (it is %lld) and "
           "ep_transport to block or rowwise, or host_counts=false",
           (long long)ep);
  MK_CHECK(ctx, c->capacity_scope == MT_CAPACITY_RANK || c->capacity_factor == 0 || mt_ep_drops(c, ep), MK_ERR_CONFIG,
           "capacity_scope: expert bounds nothing where the exchange is dropless, on one expert-parallel rank and with "
           "ep_transport block; use ep > 1 (it is %lld) with rowwise or deepep_v2, or capacity_scope=rank",
           (long long)ep);
  return MK_OK;
}

static mk_status check_data(mk_context *ctx, const mt_config *c) {
  MK_CHECK(ctx, c->data == MT_DATA_RANDOM || c->data_path[0] != '\0', MK_ERR_CONFIG,
           "data_path: must name a file where data is not random");
  MK_CHECK(ctx, c->data != MT_DATA_BYTES || c->vocab >= 256, MK_ERR_CONFIG,
           "vocab: %lld is too small for byte tokens, which need 256", (long long)c->vocab);
  MK_CHECK(ctx, c->data_dtype == MT_DTYPE_AUTO || c->data == MT_DATA_NPY, MK_ERR_CONFIG,
           "data_dtype: is for npy files; bytes are u8 and the header of bin files says what they hold");
  bool files = c->data == MT_DATA_BYTES || c->data == MT_DATA_BIN || c->data == MT_DATA_NPY;
  MK_CHECK(ctx, c->eval_tokens == 0 || !files || c->holdout > 0, MK_ERR_CONFIG,
           "holdout: must be above 0 where eval_tokens is set, so that evaluation sees text that training does not");
  return MK_OK;
}

static mk_status check_blocks(mk_context *ctx, const char *part, const char *what, int64_t value) {
  MK_CHECK(
      ctx, value % MK_MXFP8_BLOCK == 0, MK_ERR_CONFIG,
      "%s: MXFP8 has one scale for 32 values along the sum, but %s is %lld, no multiple of 32; change it or set %s "
      "to false",
      part, what, (long long)value, part);
  return MK_OK;
}

/* The format's dimensions (Olmo-core 3.0.0 olmo_core/kernels/mxfp8_linear.py, scaled_grouped_mm.py). */
static mk_status check_mxfp8(mk_context *ctx, const mt_config *c) {
  if (c->precision != MT_MXFP8) return MK_OK;
  const char *attention = "mxfp8_attention", *mlp = "mxfp8_mlp";
  MK_CHECK(ctx, c->mxfp8_attention || c->mxfp8_mlp, MK_ERR_CONFIG,
           "precision: mxfp8 without mxfp8_attention and mxfp8_mlp multiplies nothing in MXFP8; use bf16");
  MK_CHECK(ctx, c->mxfp8_mlp || !c->mxfp8_ep, MK_ERR_CONFIG,
           "mxfp8_ep: rows travel as MXFP8 because the experts multiply them so; set mxfp8_mlp, or mxfp8_ep to false");
  if (c->mxfp8_attention) {
    MK_TRY(ctx, check_blocks(ctx, attention, "d_model", c->d_model));
    MK_TRY(ctx, check_blocks(ctx, attention, "heads x head_dim", c->heads * c->head_dim));
    MK_TRY(ctx, check_blocks(ctx, attention, "2 x kv_heads x head_dim", 2 * c->kv_heads * c->head_dim));
    MK_TRY(ctx, check_blocks(ctx, attention, "rank_tokens", c->rank_tokens));
  }
  if (!c->mxfp8_mlp) return MK_OK;
  MK_TRY(ctx, check_blocks(ctx, mlp, "d_model", c->d_model));
  if (mt_config_moe_layers(c) > 0) MK_TRY(ctx, check_blocks(ctx, mlp, "expert_hidden", c->expert_hidden));
  if (mt_config_moe_layers(c) > 0) MK_TRY(ctx, check_blocks(ctx, mlp, "shared_hidden", c->shared_hidden));
  return c->dense_layers > 0 ? check_blocks(ctx, mlp, "dense_hidden", c->dense_hidden) : MK_OK;
}

static mk_status check_checkpoints(mk_context *ctx, const mt_config *c) {
  bool automatic = strcmp(c->resume, "auto") == 0;
  MK_CHECK(ctx, c->checkpoint_every == 0 || c->checkpoint_dir[0] != '\0', MK_ERR_CONFIG,
           "checkpoint_dir: must name a folder where checkpoint_every is %lld", (long long)c->checkpoint_every);
  MK_CHECK(ctx, strcmp(c->device, "sim") != 0 || (c->checkpoint_dir[0] == '\0' && strcmp(c->resume, "none") == 0),
           MK_ERR_UNSUPPORTED,
           "checkpoint_dir: in simulated time there are no values to keep; leave checkpoint_dir and resume");
  MK_CHECK(ctx, c->resume[0] != '\0', MK_ERR_CONFIG, "resume: is empty; none, auto, or the folder of a checkpoint");
  MK_CHECK(ctx, !automatic || c->checkpoint_dir[0] != '\0', MK_ERR_CONFIG,
           "checkpoint_dir: must name the folder that resume auto looks in");
  return MK_OK;
}

static mk_status check_fault(mk_context *ctx, const mt_config *c) {
  mt_fault fault;
  MK_TRY(ctx, mt_fault_parse(ctx, c->fault, &fault));
  MK_CHECK(ctx, fault.rank < c->ranks, MK_ERR_CONFIG, "fault: rank %lld of '%s' is not one of %lld ranks",
           (long long)fault.rank, c->fault, (long long)c->ranks);
  return MK_OK;
}

/* Options that the key table knows but this version cannot run; the words stay so that messages can name them. */
static mk_status check_built(mk_context *ctx, const mt_config *c) {
  MK_CHECK(ctx, c->norm != MT_NORM_HYBRID || (c->weights_in[0] == '\0' && c->weights_out[0] == '\0'),
           MK_ERR_UNSUPPORTED,
           "norm: hybrid is a block of Olmo-core's older stack, whose weight names are not built; leave weights_in and "
           "weights_out empty");
  MK_CHECK(ctx, c->ranks == 1 || strcmp(c->device, "cuda") != 0, MK_ERR_UNSUPPORTED,
           "device: cuda runs one rank only; ranks is %lld (NCCL is built, the trainer does not use it yet)",
           (long long)c->ranks);
  MK_CHECK(ctx, c->routing != MK_ROUTING_REPLAY, MK_ERR_UNSUPPORTED,
           "routing: replay is a test mode of the trainer library; use learned, random or uniform");
  MK_CHECK(ctx, c->precision != MT_FP64 || strcmp(c->device, "ref") == 0, MK_ERR_UNSUPPORTED,
           "precision: fp64 runs on the reference device only (device: ref), not on %s", c->device);
  return MK_OK;
}

mk_status mt_config_check(mk_context *ctx, const mt_config *cfg) {
  MK_TRY(ctx, check_model(ctx, cfg));
  MK_TRY(ctx, check_layout(ctx, cfg));
  MK_TRY(ctx, check_batch(ctx, cfg));
  MK_TRY(ctx, check_exchange(ctx, cfg));
  MK_TRY(ctx, check_data(ctx, cfg));
  MK_TRY(ctx, check_mxfp8(ctx, cfg));
  MK_TRY(ctx, check_checkpoints(ctx, cfg));
  MK_TRY(ctx, check_fault(ctx, cfg));
  MK_TRY(ctx, check_pipeline(ctx, cfg));
  MK_TRY(ctx, check_size(ctx, cfg));
  return check_built(ctx, cfg);
}

/* The table of keys: name, type, group, range, words, help. Ranges are those that the code can honour. */
#include <float.h>

#include "trainer/comm/comm.h"
#include "trainer/launch/config.h"

#define INT(g, field, lo, hi, help) \
  { #field, MT_KEY_INT, MT_KEYS_##g, offsetof(mt_config, field), lo, hi, NULL, 0, help }
#define INTW(g, field, lo, hi, word, value, help) \
  { #field, MT_KEY_INT, MT_KEYS_##g, offsetof(mt_config, field), lo, hi, word, value, help }
#define NUM(g, field, lo, hi, help) \
  { #field, MT_KEY_FLOAT, MT_KEYS_##g, offsetof(mt_config, field), lo, hi, NULL, 0, help }
#define NUMW(g, field, lo, hi, word, value, help) \
  { #field, MT_KEY_FLOAT, MT_KEYS_##g, offsetof(mt_config, field), lo, hi, word, value, help }
#define BOOL(g, field, help) \
  { #field, MT_KEY_BOOL, MT_KEYS_##g, offsetof(mt_config, field), 0, 1, NULL, 0, help }
#define ENUM(g, field, words, help) \
  { #field, MT_KEY_ENUM, MT_KEYS_##g, offsetof(mt_config, field), 0, 0, words, 0, help }
#define TEXT(g, field, help) \
  { #field, MT_KEY_TEXT, MT_KEYS_##g, offsetof(mt_config, field), 0, 0, NULL, 0, help }

static const char *const NORM[] = {"reordered", "peri", "pre", "hybrid", NULL};
static const char *const PRESET[] = {"none", "olmo_v1", NULL};
static const char *const QK_NORM[] = {"none", "head", "full", NULL};
static const char *const GATING[] = {"softmax", "sigmoid", NULL};
static const char *const WEIGHT_SCALE[] = {"one", "k", NULL};
static const char *const LB_DEF[] = {"olmo", "hf", NULL};
static const char *const LB_GRANULARITY[] = {"batch", "instance", NULL};
static const char *const CAPACITY_SCOPE[] = {"rank", "expert", NULL};
static const char *const SHARD[] = {"none", "ddp", "dist_opt", "fsdp", NULL};
static const char *const GRAD_REDUCE[] = {"all_reduce", "reduce_scatter", NULL};
static const char *const RESHARD[] = {"after_forward", "keep_to_backward", "keep_to_forward", NULL};
static const char *const FSDP_REDUCE[] = {"each", "last", NULL};
static const char *const ALL[] = {"all", NULL};
static const char *const EP_TRANSPORT[] = {"block", "rowwise", "deepep_v2", NULL};
static const char *const PRECISION[] = {"fp32", "bf16", "mxfp8", "fp64", NULL};
static const char *const MXFP8_SCALE[] = {"rceil", "floor", NULL};
static const char *const KERNEL[] = {"auto", "native", "widened", NULL};
static const char *const ROUTING[] = {"learned", "random", "uniform", "replay", NULL};
static const char *const RECOMPUTE[] = {"none", "selective", "full", NULL};
static const char *const RECOMPUTE_RULE[] = {"torchtitan", "olmo", NULL};
static const char *const SCHEDULE[] = {"constant", "cosine", "linear", NULL};
static const char *const PP_SCHEDULE[] = {"gpipe", "1f1b", "interleaved", "v", NULL};
static const char *const DECAY[] = {"all", "no_embedding", "no_norm", NULL};
static const char *const DATA[] = {"random", "bytes", "tensors", "bin", "npy", NULL};
static const char *const DATA_DTYPE[] = {"auto", "u8", "u16", "u32", "u64", NULL};
static const char *const WORLD[] = {"world", NULL};
static const char *const SQRT_D[] = {"sqrt_d", NULL};

#define BIG 9.0e15 /* below 2^53, so that the double range check is exact */

static const mt_key KEYS[] = {
    ENUM(RUN, preset, PRESET, "a stack of settings by name; settings that follow it stand"),

    TEXT(MODEL, model, "name of the model"),
    INT(MODEL, layers, 1, 10000, "decoder layers"),
    INT(MODEL, dense_layers, 0, 10000, "leading layers without routed experts"),
    INT(MODEL, d_model, 1, 1 << 20, "model width"),
    INT(MODEL, heads, 1, 65536, "query heads"),
    INT(MODEL, kv_heads, 1, 65536, "key/value heads; divides heads"),
    INT(MODEL, head_dim, 2, 1024, "width of a head; even"),
    INT(MODEL, dense_hidden, 0, 1 << 24, "hidden width of a dense layer's SwiGLU"),
    INT(MODEL, experts, 1, MK_MAX_EXPERTS, "routed experts of a layer"),
    INT(MODEL, top_k, 1, MK_MAX_TOP_K, "experts of a token"),
    INT(MODEL, expert_hidden, 1, 1 << 24, "hidden width of a routed expert"),
    INT(MODEL, shared_hidden, 0, 1 << 24, "hidden width of the shared expert; 0 = none"),
    INT(MODEL, vocab, 2, 1 << 24, "vocabulary"),
    ENUM(MODEL, norm, NORM, "placement of RMSNorm: reordered (after the branch), peri (both), pre, hybrid"),
    NUM(MODEL, norm_eps, 0, 1, "epsilon of RMSNorm"),
    BOOL(MODEL, embed_norm, "RMSNorm after the embedding"),
    NUMW(MODEL, embed_scale, 0, 1e6, SQRT_D, 0, "factor on the embedding, or sqrt_d"),
    ENUM(MODEL, qk_norm, QK_NORM, "RMSNorm of queries and keys: none, per head, full projected width"),
    NUM(MODEL, clip_qkv, 0, 1e9, "clamp of q, k, v; 0 = none"),
    NUM(MODEL, rope_theta, 1, 1e12, "RoPE base"),
    ENUM(MODEL, gating, GATING, "router scores over all experts"),
    BOOL(MODEL, norm_topk, "divide the chosen weights by their sum"),
    ENUM(MODEL, weight_scale, WEIGHT_SCALE, "then multiply by one or by k"),
    ENUM(MODEL, lb_def, LB_DEF, "definition of the load-balancing loss"),
    ENUM(MODEL, lb_granularity, LB_GRANULARITY, "olmo definition: per microbatch or per sequence"),
    NUM(MODEL, lb_weight, 0, 1e6, "weight of the load-balancing loss"),
    NUM(MODEL, router_z_weight, 0, 1e6, "weight of the router z-loss"),
    NUM(MODEL, z_weight, 0, 1e6, "weight of the LM-head z-loss"),
    NUM(MODEL, capacity_factor, 0, 1e6,
        "rows a destination rank accepts / (tokens x top_k); 0 = dropless, as ep 1 and ep_transport block always are"),
    ENUM(MODEL, capacity_scope, CAPACITY_SCOPE,
         "what a capacity bounds: the rows of a rank's experts together, or of each expert"),
    NUM(MODEL, init_std, 0, 100, "standard deviation of initial weights"),
    BOOL(MODEL, init_bf16, "initial weights rounded to BF16"),

    INT(RUN, ranks, 1, MT_MAX_RANKS, "processes"),
    INTW(RUN, ep, 0, MT_MAX_RANKS, WORLD, 0, "expert-parallel ranks, or world"),
    INT(RUN, pp, 1, MT_MAX_RANKS, "pipeline ranks"),
    ENUM(RUN, pp_schedule, PP_SCHEDULE, "order of the microbatches in a pipeline"),
    INT(RUN, pp_chunks, 0, 1024, "stages of a pipeline rank; 0 = 1 for gpipe and 1f1b, 2 for interleaved and v"),
    ENUM(RUN, shard, SHARD, "sharding strategy"),
    ENUM(RUN, grad_reduce, GRAD_REDUCE, "dist_opt: how gradients are reduced"),
    NUM(RUN, bucket_mib, 0.001, 65536, "soft cap of a gradient bucket, MiB"),
    INTW(RUN, fsdp_shard_ranks, 0, MT_MAX_RANKS, ALL, 0,
         "fsdp: neighbouring ranks that share one copy of the parameters, or all"),
    ENUM(RUN, fsdp_reshard, RESHARD, "fsdp: until when gathered weights stay"),
    INT(RUN, fsdp_prefetch, 0, 1000, "fsdp: units gathered ahead of their use"),
    INT(RUN, fsdp_prefetch_backward, -1, 1000, "fsdp: the same in the backward pass; -1 = as in the forward pass"),
    ENUM(RUN, fsdp_reduce, FSDP_REDUCE, "fsdp: gradients are reduced after each microbatch or after the last"),
    ENUM(RUN, ep_transport, EP_TRANSPORT, "how rows reach their experts"),
    BOOL(RUN, host_counts, "without EP: the host waits for the rows of each expert in every MoE layer"),
    INT(RUN, seq_len, 1, 1 << 24, "tokens of a sequence"),
    INT(RUN, rank_tokens, 1, BIG, "tokens of a microbatch on one rank; a multiple of seq_len"),
    INT(RUN, global_tokens, 1, BIG, "tokens of a step over all ranks"),
    ENUM(RUN, precision, PRECISION, "compute precision"),
    BOOL(RUN, mxfp8_attention, "precision mxfp8: the attention projections"),
    BOOL(RUN, mxfp8_mlp, "precision mxfp8: routed experts, shared expert, dense MLP"),
    BOOL(RUN, mxfp8_ep, "precision mxfp8: the rows that travel to experts and back"),
    ENUM(RUN, mxfp8_scale, MXFP8_SCALE, "scale of an MXFP8 block: rceil never saturates, floor is the OCP rule"),
    ENUM(RUN, kernel, KERNEL, "BF16 GEMM: auto (by CPU feature), native, widened to FP32"),
    ENUM(RUN, routing, ROUTING, "learned, random draws, uniform round robin; replay is for tests"),
    ENUM(RUN, recompute, RECOMPUTE, "activation recompute"),
    ENUM(RUN, recompute_rule, RECOMPUTE_RULE, "selective recompute: whose rule says what is kept"),
    INT(RUN, seed, 0, BIG, "seed of every random draw"),
    INT(RUN, warmup_steps, 0, BIG, "steps before measuring starts"),
    INT(RUN, steps, 1, BIG, "measured steps"),
    INT(RUN, head_chunk, 0, 1 << 30, "tokens of an LM-head chunk; 0 = chosen"),

    NUM(OPTIM, lr, 0, 1e6, "peak learning rate"),
    NUM(OPTIM, lr_min_ratio, 0, 1, "final learning rate / peak"),
    ENUM(OPTIM, schedule, SCHEDULE, "learning-rate schedule after the warm-up"),
    INT(OPTIM, lr_warmup_steps, 0, BIG, "steps of linear learning-rate warm-up"),
    INT(OPTIM, schedule_steps, 0, BIG, "step at which the schedule ends; 0 = last step"),
    NUM(OPTIM, beta1, 0, 0.9999999, "Adam beta 1"),
    NUM(OPTIM, beta2, 0, 0.9999999, "Adam beta 2"),
    NUM(OPTIM, eps, 0, 1, "Adam epsilon"),
    NUM(OPTIM, weight_decay, 0, 100, "decoupled weight decay"),
    ENUM(OPTIM, decay, DECAY, "parameters that decay"),
    NUM(OPTIM, clip, 0, 1e9, "largest gradient norm; 0 = no clipping"),
    BOOL(OPTIM, skip_step, "skip steps whose cross-entropy or norm is an outlier, or loss or norm not finite"),
    NUM(OPTIM, skip_sigma, 0, 1e6, "outlier threshold in standard deviations"),

    ENUM(DATA, data, DATA,
         "random tokens, bytes of files, tokens of a safetensors file, llm.c bin files, OLMo or numpy npy files"),
    TEXT(DATA, data_path, "files of the data: names or patterns, separated by commas"),
    ENUM(DATA, data_dtype, DATA_DTYPE, "tokens of npy files without a header; auto = smallest that holds vocab - 1"),
    NUM(DATA, holdout, 0, 0.9, "last fraction of the data, kept for evaluation"),
    BOOL(DATA, label_shift_inside, "labels are next tokens inside the window, the last is ignored"),
    INT(DATA, eval_every, 0, BIG, "steps between evaluations; 0 = only at the end when eval_tokens > 0"),
    INT(DATA, eval_tokens, 0, BIG, "held-out tokens of an evaluation; 0 = none"),
    TEXT(DATA, weights_in, "safetensors file with initial weights, Hugging Face names"),
    TEXT(DATA, weights_out, "folder for the final weights, Hugging Face names"),
    TEXT(DATA, checkpoint_dir, "folder for checkpoints; empty = none"),
    INT(DATA, checkpoint_every, 0, BIG, "steps between checkpoints; 0 = only at the end and when told to stop"),
    INT(DATA, checkpoint_keep, 0, 1e6, "newest checkpoints that stay; 0 = all"),
    TEXT(DATA, resume, "none, auto (newest usable one of checkpoint_dir), or the folder of one checkpoint"),

    TEXT(MACHINE, device, "cpu, cpu_async, ref, cuda or sim"),
    INT(MACHINE, threads, 0, 4096, "OpenMP threads of a rank; 0 = cores / ranks"),
    NUM(MACHINE, memory_budget_mib, 0, 1e12, "memory of a rank, MiB; 0 = no limit"),
    BOOL(MACHINE, guard, "device memory unreadable outside ops (test mode)"),
    BOOL(MACHINE, profile, "time every op"),
    NUM(MACHINE, time_limit_s, 0, 1e9, "stop after the step that passes this time, s; 0 = none"),
    NUM(MACHINE, comm_timeout_s, 0, 1e9, "communication without progress is an error after this time, s; 0 = never"),
    TEXT(MACHINE, trace, "file for the list of rank 0's communication calls"),
    TEXT(MACHINE, fault,
         "make the run fail: heap:N or comm:N = its N-th host allocation or communication call, @R = on rank R"),
};

const mt_key *mt_config_keys(size_t *count) {
  *count = sizeof KEYS / sizeof KEYS[0];
  return KEYS;
}

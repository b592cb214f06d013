/* The decoder: blocks with hand-written forward and backward, one file a part.
 *
 * A microbatch of T tokens goes through embedding, layers, head and loss; the backward pass follows in reverse. A
 * pipeline rank holds chunks of consecutive layers; embedding and head belong to the first and the last chunk of all.
 * What a microbatch keeps from its forward to its backward pass of a chunk lies in a set; there are as many sets as the
 * schedule has chunks live at once. All tensors below are placed once, before the first step (mt_model_place); c =
 * compute dtype (bf16 or f32).
 * Norm placements (cfg.norm):
 *   pre        x_mid = x + attn(N(x));            x_out = x_mid + mlp(N(x_mid))
 *   reordered  x_mid = x + N(attn(x));            x_out = x_mid + N(mlp(x_mid))
 *   hybrid     x_mid = x + N(attn(x));            u = x_mid + N(shared(x_mid));  x_out = u + N(routed(x))
 *   peri       x_mid = x + Nout(attn(Nin(x)));    x_out = x_mid + Nout(mlp(Nin(x_mid)))
 * In `pre` the additions are fused into the next norm: a layer hands on (stream, branch) and the next norm adds them.
 */
#ifndef TRAINER_MODEL_MODEL_H
#define TRAINER_MODEL_MODEL_H

#include "trainer/model/params.h"
#include "trainer/parallel/ep.h"
#include "trainer/parallel/pp_layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Saved for the backward pass of one layer's attention branch. Q = (H+2G)*hd. */
typedef struct mt_attention {
  mk_tensor in;       /* c [T,D]   N(x); absent when reordered (the branch reads the stream) */
  mk_tensor in_rstd;  /* f32 [T] */
  mk_tensor qkv;      /* c [T,Q]   projection, before norm and RoPE */
  mk_tensor qkr;      /* c [T,Q]   after them */
  mk_tensor qk_rstd;  /* f32 [T,H+G] */
  mk_tensor o;        /* c [T,H*hd] */
  mk_tensor lse;      /* f32 [H,T] */
  mk_tensor out;      /* c [T,D]   attn_o projection: the branch (pre) or what Nout normalises */
  mk_tensor out_rstd; /* f32 [T] */
} mt_attention;

/* Saved for one layer's MLP branch: router, routed experts, shared expert (or the dense MLP). */
typedef struct mt_mlp {
  mk_tensor in;             /* c [T,D]   N(x_mid); absent when reordered */
  mk_tensor in_rstd;        /* f32 [T] */
  mk_tensor logits;         /* f32 [T,E] */
  mk_tensor scores;         /* f32 [T,E] */
  mk_tensor lse;            /* f32 [T] */
  mt_ep_layer ep;           /* routing, dispatched rows, returned rows */
  mk_tensor up_gate;        /* c [N,2F]  rows of the local experts */
  mk_tensor act;            /* c [N,F] */
  mk_tensor down;           /* c [N,D]   mxfp8 with weights inside the experts: before the weights; else absent */
  mk_mxfp8 act_q;           /* mxfp8: the same along F, in place of act */
  mk_tensor shared_up_gate; /* c [T,2Fs] */
  mk_tensor shared_act;     /* c [T,Fs] */
  mk_tensor out;            /* c [T,D]   routed + shared: the branch (pre) or what Nout normalises */
  mk_tensor out_rstd;       /* f32 [T] */
  mk_tensor ff_out;         /* c [T,D]   hybrid: the shared expert's output, before its norm */
  mk_tensor ff_rstd;        /* f32 [T] */
} mt_mlp;

typedef struct mt_layer {
  int unit;         /* place in the parameter list */
  int moe;          /* index among the model's MoE layers, or -1 for a dense layer */
  int moe_in_chunk; /* the same among those of its chunk */
  mk_tensor x;      /* c [T,D] stream at the layer's start */
  mk_tensor x_mid;  /* c [T,D] stream between the branches */
  mt_attention attn;
  mt_mlp mlp;
} mt_layer;

/* Scratch shared by all layers; dead between layers except dx. Its buffers of one shape may change places. */
typedef struct mt_scratch {
  mk_tensor dx;        /* c [T,D] gradient of the stream, carried from layer to layer */
  mk_tensor d_branch;  /* c [T,D] */
  mk_tensor d_in;      /* c [T,D] gradient of a branch's input */
  mk_tensor d_moe;     /* c [T,D] hybrid: gradient of the block's input through the experts */
  mk_tensor dqkv;      /* c [T,Q] */
  mk_tensor d_o;       /* c [T,H*hd] */
  mk_tensor attn_work; /* u8 */
  mk_tensor d_act;     /* c [N,F] */
  mk_tensor d_up_gate; /* c [N,2F] */
  mk_tensor d_shared_act, d_shared_up_gate, shared_out; /* c [T,Fs] [T,2Fs] [T,D] */
  mk_tensor dlogits;                                    /* f32 [T,E] */
  mk_tensor dweights;                                   /* f32 [T,K] */
  mk_tensor expert_out;   /* c [N,D] output (forward) or input gradient (backward) of the local experts */
  mk_tensor expert_d_out; /* c [N,D] gradient of the local experts' output */
  mk_tensor mx[2];        /* u8, mxfp8: the quantised operands of one GEMM */
  mk_tensor mx_values;    /* c, mxfp8: a saved operand of the shared expert, read back */
} mt_scratch;

typedef struct mt_head {
  mk_tensor stream;   /* c [T,D] input of the final norm; dead after the forward pass */
  mk_tensor normed;   /* c [T,D] */
  mk_tensor rstd;     /* f32 [T] */
  mk_tensor d_normed; /* c [T,D] */
  mk_tensor logits;   /* c [chunk,V] */
  mk_tensor losses;   /* f32 [2,chunk] */
  int64_t chunk;
} mt_head;

typedef struct mt_embedding {
  mk_tensor raw; /* c [T,D] scaled rows, before embed.norm; absent without it */
  mk_tensor rstd;
} mt_embedding;

/* What one microbatch in flight keeps of one chunk. The chunks of a rank take turns in a set: they share its memory. */
typedef struct mt_set {
  mt_layer *layer;        /* [n_layers] of all chunks of the rank */
  mk_tensor ids, labels;  /* i32 [T]; on ranks with the embedding, with the head */
  mt_embedding embedding; /* likewise */
  mk_tensor counts;       /* i32 [moe,groups,E], moe = most MoE layers of a chunk */
  mk_tensor score_sum;    /* f32 [moe,groups,E] */
} mt_set;

typedef struct mt_chunk {
  mt_pp_stage stage;
  int first;      /* its first layer in mt_set.layer */
  int moe_layers; /* of the chunk */
} mt_chunk;

typedef struct mt_model {
  mk_context *ctx;
  mk_device *dev;
  const mt_config *cfg;
  mt_params params;
  mt_ep *ep;
  int64_t tokens;   /* T */
  mt_chunk *chunk;  /* [chunks] */
  mt_set *set;      /* [sets] */
  mt_layer *layers; /* [sets * n_layers], memory of mt_set.layer */
  int chunks, sets;
  int n_layers;   /* of this rank */
  int moe_layers; /* of the whole model */
  int moe_chunk;  /* most MoE layers of a chunk of this rank */
  bool embeds, predicts;
  mt_head head;
  mt_scratch scratch;
  mk_tensor rope;        /* f32 [S,hd] */
  mk_tensor state;       /* u8 mk_step_state */
  mk_tensor sums;        /* f64 [MK_SUM_COUNT] of the step; a view that the optimizer part places */
  mk_tensor eval_sums;   /* f64 [MK_SUM_COUNT]: evaluation never touches the step's */
  mk_tensor lb_coef;     /* f32 [moe,groups,E] of the chunk in its backward pass */
  mk_tensor step_counts; /* i64 [moe,E] of the step, all MoE layers of the model */
} mt_model;

/* One microbatch on its way through one chunk. */
typedef struct mt_pass {
  mk_stream *stream;
  int chunk;
  mt_set *set;
  mk_tensor x_in, x_out; /* c [T,D] stream into and out of the chunk; absent where it embeds, where it predicts */
  mk_tensor d_head;      /* c [T,D] where it predicts: place of the gradient of the head's input; absent = scratch.dx */
  bool train;            /* false: evaluation; no gradients, no trace in the step's sums */
  bool replay;           /* forward again for the backward pass (recompute.h): nothing is counted twice */
  unsigned parts;        /* replay: the parts of a layer that are made again */
  bool fresh[2];         /* dense, expert: GEMM weight gradients are overwritten, not added to (mt_store_fresh) */
  int64_t first_token;   /* global index of token 0 inside the step (keys random routing) */
  int64_t microbatches;  /* of all ranks in the step: the hf balance loss is their mean */
  void *logits_out;      /* host [T,V] in the compute dtype, or NULL: tests read logits */
  int32_t *routes;       /* host [MoE layers of the model,T,K], or NULL: tests read the chosen experts or, with routing
                            replay, give them; valid until the stream has passed */
  /* Hooks, NULL for none: before a unit's weights are read (in the backward pass its gradients written), after its
   * forward, and after its gradients are complete for this microbatch: in the backward pass, of the head in the forward
   * pass. Between needed and the next of the two others the unit is in use; nothing else reads its weights. */
  mk_status (*unit_needed)(void *user, int unit, mt_use use);
  mk_status (*unit_released)(void *user, int unit);
  mk_status (*unit_done)(void *user, int unit);
  void *user;
} mt_pass;

/* Builds the layers of this rank's place over `cfg` (borrowed), with room for `sets` chunks in flight; no device memory
 * yet. */
mk_status mt_model_create(mk_context *ctx, mk_device *dev, const mt_config *cfg, const mt_mesh_plan *plan, mt_ep *ep,
                          int sets, mt_model **out);
void mt_model_destroy(mt_model *model);

/* Tokens of one chunk of LM head and loss: head_chunk, or as many as keep the logits in the outer caches. */
int64_t mt_head_chunk(const mt_config *cfg);

/* Places every tensor in the arenas [MK_MEM_COUNT]; two-pass, see arena.h. */
void mt_model_place(mt_model *model, mk_arena *arenas);

/* Fills constants (RoPE table) and initial weights from cfg.seed; needs placed memory. */
mk_status mt_model_init(mt_model *model, mk_stream *stream);

/* Makes the packed GEMM copies from the compute copies; once after every change of the weights. */
mk_status mt_model_pack(mt_model *model, mk_stream *stream);

/* Forward of a chunk: from pass->x_in, or set->ids, to pass->x_out, or the loss of set->labels, whose gradient by the
 * head's input is taken on the way (when pass->train). pass->x_in must stay until the backward pass is over. */
mk_status mt_model_forward(mt_model *model, const mt_pass *pass);

/* Backward of a chunk. In: scratch.dx = gradient of x_out, or of the head's input. Out: scratch.dx = gradient of x_in
 * (except where it embeds); gradients of parameters are accumulated. Backward passes of a chunk run in the order of
 * microbatches. */
mk_status mt_model_backward(mt_model *model, const mt_pass *pass);

/* Where a forward pass adds its sums: the step's, or, in evaluation and recompute, sums that nobody reads as the
 * step's. */
static inline mk_tensor mt_pass_sums(const mt_model *m, const mt_pass *p) {
  return p->train && !p->replay ? m->sums : m->eval_sums;
}

/* Parts, one file each; shapes in the files. */
mk_status mt_embedding_forward(mt_model *m, const mt_pass *p, mk_tensor *y);
mk_status mt_embedding_backward(mt_model *m, const mt_pass *p, const mk_tensor *dx);
mk_status mt_attention_forward(mt_model *m, const mt_pass *p, mt_layer *l, const mk_tensor *x,
                               const mk_tensor *pending);
mk_status mt_attention_backward(mt_model *m, const mt_pass *p, mt_layer *l);
mk_status mt_mlp_forward(mt_model *m, const mt_pass *p, mt_layer *l, mk_tensor *x_out, mk_tensor *pending);
mk_status mt_mlp_backward(mt_model *m, const mt_pass *p, mt_layer *l);
/* After the attention's backward pass: adds to scratch.dx what the experts read of the block's input (hybrid). */
mk_status mt_mlp_backward_join(mt_model *m, const mt_pass *p, mt_layer *l);
mk_status mt_router_forward(mt_model *m, const mt_pass *p, mt_layer *l, const mk_tensor *x);
mk_status mt_router_backward(mt_model *m, const mt_pass *p, mt_layer *l, const mk_tensor *x, mk_tensor *dx, bool add);
mk_status mt_experts_forward(mt_model *m, const mt_pass *p, mt_layer *l);
mk_status mt_experts_backward(mt_model *m, const mt_pass *p, mt_layer *l);
/* i32 [1]: how many rows the local experts have; where they write. */
mk_tensor mt_experts_rows(const mt_mlp *a);
const mk_tensor *mt_experts_output(const mt_model *m, const mt_mlp *a);
mk_status mt_head_forward_backward(mt_model *m, const mt_pass *p, const mk_tensor *x, const mk_tensor *pending);

/* Linear layers of a unit by role: y = x W^T; dx (+ add), and dW = or += by pass->fresh[0]. */
mk_status mt_linear_forward(mt_model *m, const mt_pass *p, int unit, mt_param_role role, const mk_tensor *x,
                            const mk_tensor *y);
mk_status mt_linear_backward(mt_model *m, const mt_pass *p, int unit, mt_param_role role, const mk_tensor *x,
                             const mk_tensor *dy, const mk_tensor *add, const mk_tensor *dx);

#ifdef __cplusplus
}
#endif

#endif

/* A trainer: one rank's model, memory, strategy and step. The step loop (loop.h) drives it; tests and moemark-golden
 * call its parts. All calls are collective over the world communicator. */
#ifndef TRAINER_STEP_TRAINER_H
#define TRAINER_STEP_TRAINER_H

#include "trainer/step/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MT_LOG_SLOTS = 4 };

/* Host side of a step's log; complete once the event of the slot has passed. */
typedef struct mt_log_slot {
  mk_event *start, *end; /* recorded at the step's begin and end */
  mk_step_log log;
  double comm_s; /* time of this step that the compute stream spent in communication; 0 where unknown */
  double *times; /* [2 * ranks + 1] time and compute time of every rank, of the step two before; ranks that had been
                    told to stop when the step began */
} mt_log_slot;

typedef struct mt_trainer {
  mk_context *ctx;
  mt_config cfg;
  mk_device *dev;
  mk_stream *compute, *comm;
  mt_mesh *mesh;
  mt_ep *ep;
  mt_pp *pp;
  mt_model *model;
  mt_sharding *sharding;
  mt_optim optim;
  mt_memory_plan memory;
  int64_t microbatches;  /* of this rank and step */
  int64_t step;          /* steps begun */
  int64_t resumed;       /* steps that were done before this process began */
  int64_t next;          /* action of the step's list that comes next */
  int64_t given;         /* microbatches handed over in this step */
  int64_t running;       /* microbatch of the running pass */
  double call_s;         /* the device's time in communication when the step began */
  int checkpoint_lock;   /* of rank 0: open as long as checkpoint_dir is this run's; 0 = none */
  int32_t *ids, *labels; /* host ring, 2 * microbatches * T: valid until the stream has passed */
  /* tests: host [microbatches, MoE layers of the model, T, K] of the running step, or NULL; chosen experts are put here
   * or, where cfg.routing was set to replay, taken from here */
  int32_t *routes;
  mt_log_slot slot[MT_LOG_SLOTS];
} mt_trainer;

/* Device, mesh, memory plan, streams and initial weights. MK_ERR_MEMORY before anything large is allocated when the
 * plan exceeds the budget. `world` is borrowed; cfg is copied. */
mk_status mt_trainer_create(mk_context *ctx, const mt_config *cfg, mt_comm *world, mt_trainer **out);
void mt_trainer_destroy(mt_trainer *t);

/* One optimizer step in parts: begin, then each microbatch in order (tokens and labels [T], host, copied), then finish:
 * reduce, clip, update, gather, log. A microbatch lets the rank's list of actions go on up to the first that needs the
 * next one; on every pipeline rank, whether it reads tokens or not. */
mk_status mt_trainer_begin(mt_trainer *t);
mk_status mt_trainer_microbatch(mt_trainer *t, const int32_t *tokens, const int32_t *labels);
mk_status mt_trainer_finish(mt_trainer *t);

/* Sets the hooks of a pass, and what they and the weight gradients need to know of the running microbatch. */
void mt_trainer_hook(mt_trainer *t, mt_pass *pass);

/* Only the first half of finish: gradients become complete sums (every strategy), nothing is updated. */
mk_status mt_trainer_reduce(mt_trainer *t);
/* For gradients that were put in from outside in place of a backward pass (tests): adds their norms. */
mk_status mt_trainer_gradients_given(mt_trainer *t);

/* Only the second half. */
mk_status mt_trainer_update(mt_trainer *t);

/* Waits for a step's end (one of the last MT_LOG_SLOTS) and gives this rank's time and compute time, in seconds. */
mk_status mt_trainer_time_read(mt_trainer *t, int64_t step, double own[2]);

/* Waits for the last finished step and copies its log (tests). */
mk_status mt_trainer_log_read(mt_trainer *t, mk_step_log *out);

/* Forward pass without gradients on tokens and labels [T] (host); leaves no trace in the training state. microbatch:
 * which one of the evaluation they are, as in mt_data_eval_batch; it keys random routes. Gives the sum of cross-entropy
 * and the number of labels of this rank (0 where it has no head). logits: host [T,V] in the compute dtype, or NULL.
 * Collective over the pipeline. */
mk_status mt_trainer_evaluate(mt_trainer *t, int64_t microbatch, const int32_t *tokens, const int32_t *labels,
                              double *ce_sum, double *label_count, void *logits);

/* Values of a local parameter by canonical name, in FP64 on the host; collective over the ranks that hold parts of it.
 * Compute copy and gradient have param->count values in local order; main, m, v the own shard's. write: only
 * MT_VALUE_WEIGHT, sets compute copy and main. */
typedef enum mt_value { MT_VALUE_WEIGHT, MT_VALUE_GRADIENT, MT_VALUE_MAIN, MT_VALUE_M, MT_VALUE_V } mt_value;
mk_status mt_trainer_read(mt_trainer *t, const char *name, mt_value which, double *out);
mk_status mt_trainer_write(mt_trainer *t, const char *name, const double *values);
/* Elements [first, first + count) of the global parameter, all of them owned here: compute copy and main. */
mk_status mt_trainer_write_range(mt_trainer *t, const mt_param *p, int64_t first, int64_t count, const float *values);
/* Optimizer state as raw values of the master dtype, by range of the global parameter: MAIN, M or V. Reading: a range
 * of the own shard. Writing: any range of the local parameter, of which the own shard is taken; MAIN also sets the
 * compute copy. */
mk_status mt_trainer_state_read(mt_trainer *t, const mt_param *p, mt_value which, int64_t first, int64_t count,
                                void *out);
mk_status mt_trainer_state_write(mt_trainer *t, const mt_param *p, mt_value which, int64_t first, int64_t count,
                                 const void *values);
/* After writes: remakes the packed GEMM copies. */
mk_status mt_trainer_weights_changed(mt_trainer *t);

/* Any device tensor to the host as FP64 (tests): count values of f32, bf16, f64, i32 or i64. Waits for the device. */
mk_status mt_trainer_tensor_read(mt_trainer *t, const mk_tensor *tensor, double *out);

/* Bytes of the communicators' payload so far, over all purposes. */
int64_t mt_trainer_wire_bytes(const mt_trainer *t);

#ifdef __cplusplus
}
#endif

#endif

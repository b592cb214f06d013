/* What a run of three steps came to, on one rank: routes, sums, gradients, parameters, and what it cost. */
#ifndef TESTS_TRAINER_PARALLEL_OUTCOME_H
#define TESTS_TRAINER_PARALLEL_OUTCOME_H

#include "trainer/step/trainer.h"

enum { OUTCOME_STEPS = 3 };

/* One parameter of this rank; values in FP64. */
typedef struct outcome_param {
  char name[MT_PARAM_NAME_BYTES];
  int64_t first, count;         /* elements of the global parameter that live here */
  int64_t own_first, own_count; /* of these, the ones whose gradient is complete here */
  int64_t shard_first, shard_count;
  double *initial;  /* [count] compute copy before step 1 */
  double *gradient; /* [count] after the reduction of step 1 */
  double *weight;   /* [count] compute copy after three steps */
  double *main;     /* [shard_count] main parameter after three steps */
} outcome_param;

typedef struct outcome {
  mt_config cfg;
  mt_mesh_plan plan;
  outcome_param *param;
  int n_params;
  int64_t moe_layers, microbatches, layer_routes; /* layer_routes = T * K */
  int32_t *routes; /* [steps, microbatches, moe_layers, T * K] chosen experts; -1 where this rank has no such layer */
  double sums[MK_SUM_COUNT]; /* of step 1 */
  double *counts;            /* [moe_layers, E] routes of step 1, all ranks */
  double grad_norm;          /* of step 1 */
  int64_t host_waits;        /* of step 1 */
  int64_t read_bytes;        /* sent to read values here, in all steps: cut parameters are gathered for it */
  int64_t window_bytes;      /* through windows, in all steps */
} outcome;

typedef void (*outcome_fn)(void *user, mt_trainer *t, const outcome *own);

/* Trains three steps of cfg on `world` (collective). chosen: the outcome of one rank whose routes are replayed, or
 * NULL: experts are chosen by the router. at_end, unless NULL, is called with `user` before the trainer is taken down.
 * Ends the process when the trainer fails; `name` is the row's. */
outcome *outcome_run(mk_context *ctx, const mt_config *cfg, mt_comm *world, const outcome *chosen, const char *name,
                     outcome_fn at_end, void *user);
void outcome_free(outcome *o);

const outcome_param *outcome_param_find(const outcome *o, const char *name);

/* Routes of one MoE layer [T * K] in a microbatch of a step. */
int32_t *outcome_routes(const outcome *o, int step, int64_t microbatch, int64_t moe_layer);

/* Which microbatch of the one-rank twin has the tokens of this rank's microbatch. */
int64_t outcome_block(const outcome *o, int64_t microbatch);

#endif

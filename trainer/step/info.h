/* Facts about a run for its records: the machine, the plan, the end, and the profile by op. */
#ifndef TRAINER_STEP_INFO_H
#define TRAINER_STEP_INFO_H

#include "trainer/step/record.h"
#include "trainer/step/trainer.h"

/* Fills the start record but for the memory of the ranks; texts point into info and t. */
void mt_run_info_fill(mt_trainer *t, mt_run_info *info);

/* Puts this rank's memory as it is now into its place of `memory`, which has one for each rank of the run. */
void mt_run_memory_fill(mt_trainer *t, mt_job_memory *memory);

/* The same, and what the other ranks put into theirs. Collective over all ranks, outside steps; waits for the
 * device. */
mk_status mt_run_memory_exchange(mt_trainer *t, mt_job_memory *memory);

/* Collective. Largest minus smallest loss of the last step over the ranks: 0 where they agree. */
mk_status mt_run_rank_spread(mt_trainer *t, double *out);

/* One op record each, and end->bound_s: the roofline of one step. Errors are kept in the context. */
void mt_run_profile_write(mt_trainer *t, mt_recorder *rec, mt_run_end *end);

/* Parameters over all ranks, those that one token uses (top_k of the routed experts), and training FLOP per token by
 * Olmo-core 3's convention (causal attention, (S+1)/2; router counted; norms, embedding and recompute not). */
int64_t mt_params_total(const mt_config *cfg);
int64_t mt_params_active(const mt_config *cfg);
double mt_flop_token(const mt_config *cfg);

#endif

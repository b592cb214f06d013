/* A tiny model for tests of the trainer: every kind of layer, sizes that divide little, seconds on one core. */
#ifndef TESTS_TRAINER_SUPPORT_TINY_H
#define TESTS_TRAINER_SUPPORT_TINY_H

#include "trainer/data/data.h"
#include "trainer/step/trainer.h"

/* One dense and two MoE layers with a shared expert, d 24, 8 experts, top-2, GQA 4/2, vocab 61, sequences of 12. */
mt_config tiny_config(void);

/* Sets each key=value of `pairs`, which one of the characters of `between` separates. Ends the process with status 1
 * where one is no pair or no setting. */
void tiny_set(mk_context *ctx, mt_config *c, const char *pairs, const char *between);

/* Ends the process with status 1 and the context's message unless st is MK_OK. */
void tiny_ok(mk_context *ctx, mk_status st, const char *what);

/* Runs `steps` optimizer steps on the config's data; stops before the update of the last one when only_reduce. */
void tiny_train(mk_context *ctx, mt_trainer *t, int64_t steps, bool only_reduce);

/* A trainer of one rank by itself. */
typedef struct tiny_rank {
  mk_context ctx;
  mt_comm *world;
  mt_trainer *t;
} tiny_rank;
void tiny_open(tiny_rank *r, const mt_config *c);
/* Ends the process with status 1 where a block of our heap is left. */
void tiny_close(tiny_rank *r);

/* Compute copies (or gradients) of all local parameters, one after the other; the caller frees them. */
double *tiny_values(mk_context *ctx, mt_trainer *t, mt_value which, int64_t *count);

/* ||a - b|| / ||b||; 0 when both are zero. */
double tiny_norm_error(const double *a, const double *b, int64_t count);

/* The same for a parameter that `got` holds a part of and `want` all of, or the same part. */
double tiny_param_error(mt_trainer *got, mt_trainer *want, const mt_param *p, mt_value which);

/* The step's state as it stands on the device. */
mk_step_state tiny_state(mt_trainer *t);

#endif

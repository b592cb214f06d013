/* moemark-golden: what another system computed (data/, format in make/README.md), computed again by the trainer.
 * Tolerances are those of make/README.md, which an independent FP32 program was seen to meet. */
#ifndef TESTS_GOLDEN_GOLDEN_H
#define TESTS_GOLDEN_GOLDEN_H

#include "trainer/checkpoint/safetensors.h"
#include "trainer/checkpoint/weights.h"
#include "trainer/step/trainer.h"

struct cJSON;

/* One folder, opened. */
typedef struct golden_folder {
  mk_context *ctx;
  const char *path;
  struct cJSON *json; /* golden.json */
  mt_st_reader *f32;  /* golden.safetensors */
  mt_st_reader *f64;  /* golden_f64.safetensors; NULL for a curve */
  mt_config cfg;      /* one rank; clip 0 */
  mt_weights_layout layout;
  bool hf;             /* transformers' definitions of the losses and names of the router tensors */
  int64_t tokens_step; /* batch * seq */
  int64_t steps;
  int32_t *tokens, *labels; /* [steps, batch * seq] */
} golden_folder;

/* Opens and checks a folder; device and precision go into cfg. Every failure is one message. */
mk_status golden_open(mk_context *ctx, const char *path, const char *device, const char *precision, golden_folder *out);
void golden_close(golden_folder *g);

/* Number at a path of keys, e.g. golden_number(g, &x, "adamw", "lr", NULL). MK_ERR_FORMAT where there is none. */
mk_status golden_number(const golden_folder *g, double *out, ...) __attribute__((sentinel));

/* Losses as the folder's system defines them. */
typedef struct golden_losses {
  double total, ce, lb, lb_unscaled, z_unscaled;
} golden_losses;

golden_losses golden_losses_of(const golden_folder *g, const double sum[MK_SUM_COUNT]);

/* One line a check, and what the exit code depends on. */
typedef struct golden_report {
  const char *folder;
  int checks, failures;
} golden_report;

/* Prints "<folder> <what> <where> error <e> limit <l> ok|FAIL"; NaN fails. */
void golden_check(golden_report *r, const char *what, const char *where, double error, double limit);

/* A part of one tensor under its library name, with our values of it. */
typedef struct golden_part {
  const mt_weights_part *part;
  const double *ours; /* [part->count] */
} golden_part;

/* Reads `which` of every parameter and hands it on in parts, parts of one tensor in a row. */
mk_status golden_walk(const golden_folder *g, mt_trainer *t, mt_value which,
                      mk_status (*visit)(void *user, const golden_part *part), void *user);

/* Elements of the tensor "<prefix><name>" that a part covers. */
mk_status golden_part_read(const golden_folder *g, const mt_st_reader *file, const char *prefix,
                           const mt_weights_part *part, double *out);

/* A trainer with the folder's start weights and this clip; destroy with golden_trainer_close. */
typedef struct golden_trainer {
  mt_comm *world;
  mt_trainer *t;
} golden_trainer;

mk_status golden_trainer_open(const golden_folder *g, double clip, golden_trainer *out);
void golden_trainer_close(golden_trainer *gt);

/* The checks, one file each. A status other than MK_OK: could not be run at all. */
mk_status golden_check_pass(const golden_folder *g, golden_report *r);  /* logits, router, losses, gradients */
mk_status golden_check_adamw(const golden_folder *g, golden_report *r); /* one step from the stored gradients */
mk_status golden_check_steps(const golden_folder *g, golden_report *r); /* five free steps, without and with clipping */
mk_status golden_check_curve(const golden_folder *g, golden_report *r); /* many steps against a stored curve */

#endif

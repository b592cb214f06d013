/* What a person sees while a run goes on: one updated line on a terminal, plain lines now and then elsewhere. */
#ifndef TRAINER_STEP_PROGRESS_H
#define TRAINER_STEP_PROGRESS_H

#include "trainer/launch/config.h"

typedef struct mt_progress {
  const mk_context *ctx;
  const mt_config *cfg;
  bool on, terminal;
  int64_t steps;    /* of this process: a resumed run has done others before */
  double trained_s; /* in these steps */
  double told_s;    /* trained_s at the last plain line */
} mt_progress;

mt_progress mt_progress_begin(const mk_context *ctx, const mt_config *cfg, bool on);
void mt_progress_step(mt_progress *p, const mk_step_log *log, double step_s, int64_t last_step);
void mt_progress_eval(mt_progress *p, int64_t step, double loss);
void mt_progress_end(mt_progress *p);

#endif

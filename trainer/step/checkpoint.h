/* Checkpoints of a trainer (trainer/checkpoint/): everything that a run needs to go on as if it had not stopped.
 *
 * What is kept: main parameters, both moments, counters and statistics of the step, position in the data, training
 * time. All else follows: compute and packed copies from the main parameters, random draws from (seed, step, index),
 * the learning rate from the step. Each rank writes what it owns, what several ranks hold alike is divided among them,
 * in pieces of 4 MiB; so no rank ever holds more of the model than it trains. Collective; files must be seen by all
 * ranks. */
#ifndef TRAINER_STEP_CHECKPOINT_H
#define TRAINER_STEP_CHECKPOINT_H

#include "trainer/data/data.h"
#include "trainer/step/trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a run stands beside the state of its trainer. */
typedef struct mt_run_position {
  double trained_s;  /* training time so far */
  int64_t evaluated; /* last step whose held-out loss is known; 0 = none */
  int64_t end;       /* step after which the run ends, as far as is known: a time limit moves it */
  int64_t saved;     /* this run's newest checkpoint in checkpoint_dir; 0 = none. Not kept in files */
} mt_run_position;

/* True after step n of a run that ends with step `last`. */
bool mt_checkpoint_due(const mt_config *cfg, int64_t n, int64_t last);

/* Saves the state after `step` under cfg.checkpoint_dir, then removes what is beyond checkpoint_keep. On failure (disk
 * full, MK_ERR_OUTPUT) older checkpoints are as before and nothing half written is left. The streams may be busy; a
 * step that has begun and not finished is not a part of it. `path` gets its name. */
mk_status mt_checkpoint_save(mt_trainer *t, const mt_data *data, int64_t step, const mt_run_position *at,
                             char path[MK_MESSAGE_BYTES]);

/* Before the first step, as cfg.resume says: loads a checkpoint, whatever layout wrote it, and sets t->step, the data's
 * position and *at; or leaves all as it is (none; auto where there is none, which is said). at->end becomes the step of
 * the checkpoint where time_limit_s is used up, or has ended the run that wrote it, and else is not touched.
 *
 * auto takes the newest that is whole; one that is not is named on stderr with file and reason, and the one before it
 * is tried; where none is whole it fails with MK_ERR_FORMAT. MK_ERR_CONFIG where model, seed, data or optimizer differ,
 * MK_ERR_OUTPUT where checkpoint_dir holds later steps of another run, or a name that a checkpoint would take. */
mk_status mt_checkpoint_resume(mt_trainer *t, mt_data *data, mt_run_position *at);

#ifdef __cplusplus
}
#endif

#endif

/* Which keys a resumed run may have otherwise than the run that wrote the checkpoint: one table, with reasons. */
#ifndef TRAINER_CHECKPOINT_CHECKPOINT_SAME_H
#define TRAINER_CHECKPOINT_CHECKPOINT_SAME_H

#include "trainer/checkpoint/checkpoint_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

/* MK_ERR_CONFIG names the first key that differs and may not (model, seed, optimizer, data: the resumed run would be
 * neither the old one nor a new one), with both values. `name`: the checkpoint, for the message. `total_steps`: where
 * the schedule of `now` ends. */
mk_status mt_checkpoint_same(mk_context *ctx, const char *name, const mt_checkpoint_meta *meta, const mt_config *now,
                             int64_t total_steps);

#ifdef __cplusplus
}
#endif

#endif

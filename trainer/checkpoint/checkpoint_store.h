/* The folder of checkpoints: <dir>/step-<nine digits or more>/. One process (rank 0) makes and removes what is in it.
 *
 * A checkpoint is written into <dir>/.tmp-step-N, synced, and renamed; so a folder step-N is complete, unless the disk
 * or somebody else damaged it. What a killed run left (.tmp-step-N, and .tmp-old-N on its way out) is removed by the
 * next one; all other names are somebody else's and are not touched. */
#ifndef TRAINER_CHECKPOINT_CHECKPOINT_STORE_H
#define TRAINER_CHECKPOINT_CHECKPOINT_STORE_H

#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MT_CHECKPOINT_PATH_BYTES = 1024 };

/* Path of the checkpoint of a step, and of the folder it is written in before it has its name. */
void mt_checkpoint_path(const char *dir, int64_t step, char path[MT_CHECKPOINT_PATH_BYTES]);
void mt_checkpoint_temporary(const char *dir, int64_t step, char path[MT_CHECKPOINT_PATH_BYTES]);

/* Takes the folder for this process until *fd is closed: two runs that write there would remove each other's files.
 * MK_ERR_OUTPUT where another one has it. File systems without locks let all in. */
mk_status mt_checkpoint_lock(mk_context *ctx, const char *dir, int *fd);

/* Before a run, for the folder that it has locked: removes what killed runs left. MK_ERR_OUTPUT where a name of ours is
 * taken by something else than a folder, which a checkpoint could not replace. A link counts as such, because what it
 * leads to would be removed. */
mk_status mt_checkpoint_tidy(mk_context *ctx, const char *dir);

/* Makes the temporary folder, empty; removes what killed runs left. MK_ERR_OUTPUT. */
mk_status mt_checkpoint_begin(mk_context *ctx, const char *dir, int64_t step);

/* The temporary folder, whose files are written and synced, gets its name for good. One of the same step, which this
 * run has done anew, is replaced. MK_ERR_OUTPUT. */
mk_status mt_checkpoint_commit(mk_context *ctx, const char *dir, int64_t step);

/* Removes the temporary folder after a failure; errors stay silent, so that the first is told. */
void mt_checkpoint_abandon(mk_context *ctx, const char *dir, int64_t step);

/* Leaves `keep` checkpoints up to `step`, the newest of them; those of later steps are not touched. keep 0: all. */
mk_status mt_checkpoint_prune(mk_context *ctx, const char *dir, int64_t step, int64_t keep);

/* Is `folder`, by whatever path, the checkpoint of `step` in dir? */
bool mt_checkpoint_is(const char *folder, const char *dir, int64_t step);

/* Newest checkpoint of a step below `below` (its step, or -1). A dir that is not there holds none. MK_ERR_IO. */
mk_status mt_checkpoint_newest(mk_context *ctx, const char *dir, int64_t below, int64_t *step);

#ifdef __cplusplus
}
#endif

#endif

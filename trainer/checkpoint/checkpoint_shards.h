/* The values of a checkpoint: shard-<rank>.safetensors, one a rank of the run that wrote it.
 *
 * A shard holds, of each parameter that its rank owned a piece of, three flat tensors "<name>.main", "<name>.m" and
 * "<name>.v" in the master dtype: elements [first, first + count) of the global parameter (params.h), where first
 * stands in the file's metadata under the parameter's name. Shard 0 also holds the step's statistics. Compute copies
 * are not stored: they are the main parameters, rounded. So the layout of the run that reads does not matter. */
#ifndef TRAINER_CHECKPOINT_CHECKPOINT_SHARDS_H
#define TRAINER_CHECKPOINT_CHECKPOINT_SHARDS_H

#include "trainer/checkpoint/checkpoint_meta.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/model/params.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a shard holds of a parameter. */
typedef enum mt_shard_value { MT_SHARD_MAIN, MT_SHARD_M, MT_SHARD_V, MT_SHARD_VALUES } mt_shard_value;

enum {
  MT_SHARD_NAME_BYTES = MT_PARAM_NAME_BYTES + 8,
  MT_SHARD_PIECE = 1 << 20, /* elements that are read or written at once */
  MT_SHARD_HISTORY_ENTRIES = sizeof(((mk_step_state *)0)->loss_history) / sizeof(double)
};

/* "layers.0.qkv.main" */
void mt_shard_tensor_name(const char *param, mt_shard_value value, char *name, size_t bytes);

/* "shard-00003.safetensors" */
void mt_shard_file_name(int64_t rank, char name[MT_CHECKPOINT_NAME_BYTES]);

/* Statistics of the step in shard 0: F64 [MT_SHARD_HISTORY_ENTRIES] each. */
#define MT_SHARD_LOSS_HISTORY "step.loss_history"
#define MT_SHARD_NORM_HISTORY "step.norm_history"
#define MT_SHARD_HISTORY_COUNT "step.history" /* metadata: entries in use */

typedef struct mt_shards mt_shards;

/* Opens all shards of a checkpoint and checks that they hold every element of every value of the whole model of `cfg`
 * once, in the master dtype, and nothing else. MK_ERR_IO, MK_ERR_FORMAT with file and parameter. */
mk_status mt_shards_open(mk_context *ctx, const char *folder, const mt_checkpoint_meta *meta, const mt_config *cfg,
                         mt_shards **out);
void mt_shards_close(mt_shards *shards);

/* Elements [first, first + count) of the global parameter, through `put` in pieces of at most `piece` elements in
 * ascending order; raw values of the master dtype. */
typedef mk_status (*mt_shard_put_fn)(void *user, int64_t first, int64_t count, const void *values);
mk_status mt_shards_read(const mt_shards *shards, const char *param, mt_shard_value value, int64_t first, int64_t count,
                         int64_t piece, mt_shard_put_fn put, void *user);

/* The step's statistics. entries: capacity of both arrays; *used: entries that count. */
mk_status mt_shards_history(const mt_shards *shards, int64_t entries, double *loss, double *norm, int64_t *used);

#ifdef __cplusplus
}
#endif

#endif

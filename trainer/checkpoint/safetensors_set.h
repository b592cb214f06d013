/* A model's tensors in one safetensors file or spread over several, as transformers shards them. */
#ifndef TRAINER_CHECKPOINT_SAFETENSORS_SET_H
#define TRAINER_CHECKPOINT_SAFETENSORS_SET_H

#include "trainer/checkpoint/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mt_st_set {
  mk_context *ctx;
  mt_st_reader **reader;
  int64_t count;
} mt_st_set;

/* `path`: a safetensors file; or a folder, of which model.safetensors or, through model.safetensors.index.json, all
 * shards are opened. A missing shard, a tensor that the index promises and the shard lacks, and a tensor that stands in
 * two shards are errors by name. */
mk_status mt_st_set_open(mk_context *ctx, const char *path, mt_st_set *out);
void mt_st_set_fini(mt_st_set *set);

/* The tensor and its file; false when absent. */
bool mt_st_set_find(const mt_st_set *set, const char *name, const mt_st_reader **reader, const mt_st_tensor **tensor);

#ifdef __cplusplus
}
#endif

#endif

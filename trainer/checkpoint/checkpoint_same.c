/* See checkpoint_same.h. Every key that is not in the table must be equal. */
#include "trainer/checkpoint/checkpoint_same.h"

#include <string.h>

/* Keys of the machine (device, threads, budget, limits) may all change. */
static const struct {
  const char *key, *why;
} MAY_CHANGE[] = {
    {"model", "a name; what it stands for is compared key by key"},
    {"preset", "a name; the keys that it sets are compared"},
    {"ranks", "layout: values are addressed by parameter and global index"},
    {"ep", "layout"},
    {"pp", "layout"},
    {"pp_schedule", "layout"},
    {"pp_chunks", "layout"},
    {"shard", "layout"},
    {"grad_reduce", "layout"},
    {"fsdp_shard_ranks", "layout"},
    {"fsdp_reshard", "layout"},
    {"fsdp_prefetch", "layout"},
    {"fsdp_prefetch_backward", "layout"},
    {"fsdp_reduce", "layout"},
    {"bucket_mib", "layout"},
    {"ep_transport", "layout"},
    {"rank_tokens", "layout: how a step is cut into microbatches"},
    {"head_chunk", "layout"},
    {"recompute", "memory against time, the same numbers"},
    {"recompute_rule", "memory against time, the same numbers"},
    {"host_counts", "when the host waits"},
    {"kernel", "which code multiplies the same values"},
    {"global_tokens", "the position in the data is kept in windows"},
    {"warmup_steps", "which steps are measured"},
    {"steps", "where the run ends"},
    {"schedule_steps", "compared as the step at which the schedule ends"},
    {"data_path", "the data are compared by their content"},
    {"eval_every", "evaluation leaves no trace"},
    {"eval_tokens", "evaluation leaves no trace"},
    {"weights_in", "read by a fresh run only"},
    {"weights_out", "a path"},
    {"checkpoint_dir", "a path"},
    {"checkpoint_every", "when to save"},
    {"checkpoint_keep", "what stays"},
    {"resume", "how the run was started"},
};

static bool may_change(const mt_key *key) {
  if (key->group == MT_KEYS_MACHINE) return true;
  for (size_t i = 0; i < sizeof MAY_CHANGE / sizeof MAY_CHANGE[0]; i++) {
    if (strcmp(MAY_CHANGE[i].key, key->name) == 0) return true;
  }
  return false;
}

mk_status mt_checkpoint_same(mk_context *ctx, const char *name, const mt_checkpoint_meta *meta, const mt_config *now,
                             int64_t total_steps) {
  size_t count = 0;
  const mt_key *keys = mt_config_keys(&count);
  char then_text[MT_TEXT_BYTES], now_text[MT_TEXT_BYTES];
  for (size_t i = 0; i < count; i++) {
    if (may_change(&keys[i])) continue;
    mt_config_get(&meta->config, &keys[i], then_text, sizeof then_text);
    mt_config_get(now, &keys[i], now_text, sizeof now_text);
    MK_CHECK(ctx, strcmp(then_text, now_text) == 0, MK_ERR_CONFIG,
             "%s: %.60s when %s was written, %.60s now: a resumed run keeps model, seed, data and optimizer (layout, "
             "machine, steps and paths may change); set %s=%.60s, or start anew with weights_in",
             keys[i].name, then_text, name, now_text, keys[i].name, then_text);
  }
  bool timed = now->time_limit_s > 0 && now->schedule_steps == 0;
  MK_CHECK(
      ctx, now->schedule == MK_LR_CONSTANT || timed || total_steps == meta->schedule_end, MK_ERR_CONFIG,
      "schedule_steps: %s: the learning-rate schedule ended at step %lld when the checkpoint was written and ends at "
      "%lld now; set schedule_steps=%lld",
      name, (long long)meta->schedule_end, (long long)total_steps, (long long)meta->schedule_end);
  return MK_OK;
}

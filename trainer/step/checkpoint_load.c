/* Finding and loading a checkpoint. Ranks share the checking of files; a candidate is taken or left by all alike. */
#include <stdio.h>
#include <string.h>

#include "kernels/base/folder.h"
#include "kernels/base/log.h"
#include "trainer/checkpoint/checkpoint_same.h"
#include "trainer/checkpoint/checkpoint_shards.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/step/agree.h"
#include "trainer/step/checkpoint.h"

/* Description and contents of a candidate; every rank reads the description and its share of the files. */
static mk_status verify(mt_trainer *t, const char *folder, mt_checkpoint_meta *out) {
  const mt_comm *world = t->mesh->world;
  mt_checkpoint_meta meta = {0};
  mk_status st = mt_checkpoint_meta_read(t->ctx, folder, &meta);
  for (int64_t f = world->rank; f < meta.files && st == MK_OK; f += world->size)
    st = mt_checkpoint_file_check(t->ctx, folder, &meta.file[f]);
  st = mt_agree(t, st);
  if (st != MK_OK) {
    mt_checkpoint_meta_fini(t->ctx, &meta);
    return st;
  }
  *out = meta;
  return MK_OK;
}

/* The number of rank 0 for all. */
static mk_status follow_first(mt_trainer *t, int64_t *number) {
  char text[MK_MESSAGE_BYTES] = "";
  memcpy(text, number, sizeof *number);
  MK_TRY(t->ctx, mt_tell(t, 0, text));
  memcpy(number, text, sizeof *number);
  return MK_OK;
}

/* Rank 0 looks, all follow. *step: -1 where there is none. */
static mk_status newest(mt_trainer *t, int64_t below, int64_t *step) {
  mk_status st = MK_OK;
  if (t->mesh->world->rank == 0) st = mt_checkpoint_newest(t->ctx, t->cfg.checkpoint_dir, below, step);
  MK_TRY(t->ctx, mt_agree(t, st));
  return follow_first(t, step);
}

/* Newest usable checkpoint of checkpoint_dir; *found: whether there is one. Where all are damaged the run does not
 * begin anew by itself: it would take their place one by one. */
static mk_status search(mt_trainer *t, char folder[MT_CHECKPOINT_PATH_BYTES], mt_checkpoint_meta *meta, bool *found) {
  bool first = t->mesh->world->rank == 0;
  int damaged = 0;
  *found = false;
  for (int64_t step = INT64_MAX;; damaged++) {
    MK_TRY(t->ctx, newest(t, step, &step));
    if (step < 0) break;
    mt_checkpoint_path(t->cfg.checkpoint_dir, step, folder);
    mk_status st = verify(t, folder, meta);
    *found = st == MK_OK;
    if (*found) return MK_OK;
    if (st != MK_ERR_IO && st != MK_ERR_FORMAT) return st;
    if (first) mk_log(t->ctx, "resume: %s is not usable: %s", folder, t->ctx->error.message);
    mk_error_clear(t->ctx);
  }
  MK_CHECK(t->ctx, damaged == 0, MK_ERR_FORMAT,
           "none of the %d checkpoints in %s is usable (each is named above); mend or remove them, or start anew in "
           "another folder",
           damaged, t->cfg.checkpoint_dir);
  if (first) mk_log(t->ctx, "resume: no checkpoint in %s: starting at step 0", t->cfg.checkpoint_dir);
  return MK_OK;
}

typedef struct target {
  mt_trainer *t;
  const mt_param *param;
  mt_value which;
} target;

static mk_status put(void *user, int64_t first, int64_t count, const void *values) {
  const target *to = user;
  return mt_trainer_state_write(to->t, to->param, to->which, first, count, values);
}

/* Of the moments the shard; of the main parameters too where units are cut, else all local elements, because the
 * compute copy follows from them. */
static mk_status load_param(mt_trainer *t, const mt_shards *shards, const mt_param *p) {
  target main = {t, p, MT_VALUE_MAIN}, m = {t, p, MT_VALUE_M}, v = {t, p, MT_VALUE_V};
  int64_t own = p->first + p->shard_first, count = p->shard_count;
  bool whole = t->model->params.store[p->expert].ranks == 1;
  int64_t first = whole ? p->first : own, all = whole ? p->count : count;
  MK_TRY(t->ctx, mt_shards_read(shards, p->name, MT_SHARD_MAIN, first, all, MT_SHARD_PIECE, put, &main));
  MK_TRY(t->ctx, mt_shards_read(shards, p->name, MT_SHARD_M, own, count, MT_SHARD_PIECE, put, &m));
  return mt_shards_read(shards, p->name, MT_SHARD_V, own, count, MT_SHARD_PIECE, put, &v);
}

static mk_status load_state(mt_trainer *t, const mt_shards *shards, const mt_checkpoint_meta *meta) {
  mk_step_state state;
  MK_TRY(t->ctx, mk_copy_d2h(t->compute, &state, &t->model->state));
  MK_TRY(t->ctx, mk_stream_sync(t->compute, false));
  state.step = meta->step;
  state.taken = meta->taken;
  MK_TRY(t->ctx,
         mt_shards_history(shards, MT_SHARD_HISTORY_ENTRIES, state.loss_history, state.norm_history, &state.history));
  MK_TRY(t->ctx, mk_copy_h2d(t->compute, &t->model->state, &state));
  MK_TRY(t->ctx, mk_stream_sync(t->compute, false));
  t->step = t->resumed = meta->step;
  if (t->cfg.time_limit_s > 0 && t->cfg.schedule_steps == 0) t->optim.total_steps = meta->schedule_end;
  return mt_trainer_weights_changed(t);
}

static mk_status load_values(mt_trainer *t, const char *folder, const mt_checkpoint_meta *meta) {
  mk_status st = MK_OK;
  mt_shards *shards = NULL;
  const mt_params *params = &t->model->params;
  MK_TRY(t->ctx, mt_shards_open(t->ctx, folder, meta, &t->cfg, &shards));
  for (int i = 0; i < params->count; i++)
    MK_TRY_GOTO(t->ctx, load_param(t, shards, &params->item[i]), out);
  MK_TRY_GOTO(t->ctx, load_state(t, shards, meta), out);
out:
  mt_shards_close(shards);
  return st;
}

static mk_status check_same(mt_trainer *t, const mt_data *data, const char *folder, const mt_checkpoint_meta *meta) {
  char now[MK_HASH_BYTES];
  const mt_config *c = &t->cfg;
  int64_t last = c->warmup_steps + c->steps;
  MK_TRY(t->ctx, mt_checkpoint_same(t->ctx, folder, meta, c, t->optim.total_steps));
  MK_TRY(t->ctx, mt_data_fingerprint(data, now));
  MK_CHECK(
      t->ctx, strcmp(now, meta->fingerprint) == 0, MK_ERR_CONFIG,
      "data_path: %s: the data are not those that the checkpoint was trained on (size or content differ): its position "
      "means nothing in them; give the old data, or start anew with weights_in",
      folder);
  MK_CHECK(t->ctx, meta->step <= last, MK_ERR_CONFIG,
           "steps: %s is at step %lld, beyond the end of this run at step %lld (warmup_steps + steps)", folder,
           (long long)meta->step, (long long)last);
  return MK_OK;
}

/* Two histories in one folder would be mixed by the next resume. */
static mk_status check_folder(mt_trainer *t) {
  int64_t step = -1;
  if (t->cfg.checkpoint_dir[0] == '\0') return MK_OK;
  MK_TRY(t->ctx, newest(t, INT64_MAX, &step));
  MK_CHECK(
      t->ctx, step <= t->step, MK_ERR_OUTPUT,
      "checkpoint_dir: %s already holds step %lld of another run; resume=auto goes on from it, or give another folder",
      t->cfg.checkpoint_dir, (long long)step);
  return MK_OK;
}

static mk_status load(mt_trainer *t, mt_data *data, const char *folder, const mt_checkpoint_meta *meta) {
  mk_status st = check_same(t, data, folder, meta);
  if (st == MK_OK) st = load_values(t, folder, meta);
  MK_TRY(t->ctx, mt_agree(t, st));
  mt_data_start(data, meta->step, meta->windows);
  if (t->mesh->world->rank == 0) mk_log(t->ctx, "resume: %s", folder);
  return MK_OK;
}

/* Has the time limit ended the run that wrote the checkpoint, or would it have with the limit of now? Then it is not
 * measured anew, which would give another end at each start (C-14). */
static bool time_is_up(const mt_config *now, const mt_checkpoint_meta *meta) {
  const mt_config *then = &meta->config;
  if (now->time_limit_s <= 0) return false;
  bool ended = meta->end == meta->step && meta->end < then->warmup_steps + then->steps;
  return meta->trained_s >= now->time_limit_s || (ended && now->time_limit_s <= then->time_limit_s);
}

static mk_status set_position(mt_trainer *t, const char *folder, const mt_checkpoint_meta *meta, mt_run_position *at) {
  const mt_config *c = &t->cfg;
  int64_t saved = 0;
  if (c->checkpoint_dir[0] != '\0' && mt_checkpoint_is(folder, c->checkpoint_dir, meta->step)) saved = meta->step;
  MK_TRY(t->ctx, follow_first(t, &saved));
  at->trained_s = meta->trained_s;
  at->evaluated = meta->evaluated;
  at->saved = saved;
  if (time_is_up(c, meta)) at->end = meta->step;
  return MK_OK;
}

static mk_status resume(mt_trainer *t, mt_data *data, mt_run_position *at) {
  char folder[MT_CHECKPOINT_PATH_BYTES];
  mt_checkpoint_meta meta = {0};
  bool automatic = strcmp(t->cfg.resume, "auto") == 0, found = true;
  snprintf(folder, sizeof folder, "%s", t->cfg.resume);
  MK_TRY(t->ctx, automatic ? search(t, folder, &meta, &found) : verify(t, folder, &meta));
  if (!found) return MK_OK;
  mk_status st = load(t, data, folder, &meta);
  if (st == MK_OK) st = set_position(t, folder, &meta, at);
  mt_checkpoint_meta_fini(t->ctx, &meta);
  if (st != MK_OK || automatic) return st;
  return check_folder(t);
}

/* Before the run, so that a name that cannot be written to costs no training. */
static mk_status make_folder(mt_trainer *t) {
  if (t->cfg.checkpoint_dir[0] == '\0') return MK_OK;
  bool first = t->mesh->world->rank == 0;
  mk_status st = first ? mk_folder_make(t->ctx, t->cfg.checkpoint_dir) : MK_OK;
  if (st == MK_OK && first) st = mt_checkpoint_lock(t->ctx, t->cfg.checkpoint_dir, &t->checkpoint_lock);
  if (st == MK_OK && first) st = mt_checkpoint_tidy(t->ctx, t->cfg.checkpoint_dir);
  if (st != MK_OK) mk_error_prefix(t->ctx, "checkpoint_dir");
  return mt_agree(t, st);
}

mk_status mt_checkpoint_resume(mt_trainer *t, mt_data *data, mt_run_position *at) {
  bool none = strcmp(t->cfg.resume, "none") == 0;
  MK_TRY(t->ctx, make_folder(t));
  mk_status st = none ? check_folder(t) : resume(t, data, at);
  if (st != MK_OK && !none) mk_error_prefix(t->ctx, "resume");
  return st;
}

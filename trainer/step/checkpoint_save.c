/* Writing a checkpoint: each rank its shard into one temporary folder, rank 0 the description, then one rename. Every
 * part ends with an agreement, so that all ranks go on or all fail with the one reason. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "trainer/checkpoint/checkpoint_shards.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/step/agree.h"
#include "trainer/step/checkpoint.h"

/* What this rank writes of a parameter: a range of the local elements. */
typedef struct piece {
  const mt_param *param;
  int64_t first, count;
} piece;

typedef struct save {
  mt_trainer *t;
  mk_context *ctx;
  int64_t step;
  const char *dir;
  char folder[MT_CHECKPOINT_PATH_BYTES]; /* where files are written */
  mk_step_state state;
  piece *pieces; /* [n] */
  int64_t n;
  mt_st_tensor *tensors; /* [MT_SHARD_VALUES * n, and 2 on rank 0] */
  char (*names)[MT_SHARD_NAME_BYTES];
  const char **metadata;
  char (*numbers)[24];
  char history[24];
  int64_t n_tensors;
} save;

bool mt_checkpoint_due(const mt_config *cfg, int64_t n, int64_t last) {
  if (cfg->checkpoint_dir[0] == '\0') return false;
  return n == last || (cfg->checkpoint_every > 0 && n % cfg->checkpoint_every == 0);
}

/* The own shard. What several ranks hold alike (all of the group, or the copies of hybrid sharding) is divided among
 * them, unless it is small. */
static piece own_piece(const mt_trainer *t, const mt_param *p) {
  enum { SMALLEST_DIVIDED = 4096 };
  const mt_comm *alike = p->replicated ? mt_sharding_group(t->mesh, p->expert) : t->mesh->copies[p->expert];
  int64_t ranks = alike == NULL ? 1 : alike->size, rank = alike == NULL ? 0 : alike->rank;
  if (p->shard_count < SMALLEST_DIVIDED) return (piece){p, p->shard_first, rank == 0 ? p->shard_count : 0};
  int64_t first = p->shard_count * rank / ranks;
  return (piece){p, p->shard_first + first, p->shard_count * (rank + 1) / ranks - first};
}

static void list_pieces(save *s) {
  const mt_params *params = &s->t->model->params;
  s->n = 0;
  for (int i = 0; i < params->count; i++) {
    piece own = own_piece(s->t, &params->item[i]);
    if (own.count > 0) s->pieces[s->n++] = own;
  }
}

static void add_tensor(save *s, const char *name, mk_dtype dtype, int64_t count) {
  snprintf(s->names[s->n_tensors], MT_SHARD_NAME_BYTES, "%s", name);
  s->tensors[s->n_tensors] =
      (mt_st_tensor){.name = s->names[s->n_tensors], .dtype = dtype, .n_dims = 1, .dim = {count}};
  s->n_tensors += 1;
}

/* Names, sizes and places of the shard's tensors: MT_SHARD_VALUES a piece, in the order of the pieces. */
static mk_status describe_shard(save *s) {
  mk_context *ctx = s->ctx;
  size_t most = (size_t)s->t->model->params.count;
  mk_dtype master = mt_master_dtype(&s->t->cfg);
  char name[MT_SHARD_NAME_BYTES];
  MK_TRY(ctx, mk_heap_array(ctx, most, sizeof *s->pieces, &s->pieces));
  MK_TRY(ctx, mk_heap_array(ctx, MT_SHARD_VALUES * most + 2, sizeof *s->tensors, &s->tensors));
  MK_TRY(ctx, mk_heap_array(ctx, MT_SHARD_VALUES * most + 2, sizeof *s->names, &s->names));
  MK_TRY(ctx, mk_heap_array(ctx, 2 * most + 3, sizeof *s->metadata, &s->metadata));
  MK_TRY(ctx, mk_heap_array(ctx, most, sizeof *s->numbers, &s->numbers));
  list_pieces(s);
  size_t words = 0;
  for (int64_t i = 0; i < s->n; i++) {
    const mt_param *p = s->pieces[i].param;
    for (int value = 0; value < MT_SHARD_VALUES; value++) {
      mt_shard_tensor_name(p->name, (mt_shard_value)value, name, sizeof name);
      add_tensor(s, name, master, s->pieces[i].count);
    }
    snprintf(s->numbers[i], sizeof s->numbers[i], "%" PRId64, p->first + s->pieces[i].first);
    s->metadata[words++] = p->name;
    s->metadata[words++] = s->numbers[i];
  }
  if (s->t->mesh->world->rank != 0) return MK_OK;
  add_tensor(s, MT_SHARD_LOSS_HISTORY, MK_F64, MT_SHARD_HISTORY_ENTRIES);
  add_tensor(s, MT_SHARD_NORM_HISTORY, MK_F64, MT_SHARD_HISTORY_ENTRIES);
  snprintf(s->history, sizeof s->history, "%" PRId64, s->state.history);
  s->metadata[words++] = MT_SHARD_HISTORY_COUNT;
  s->metadata[words] = s->history;
  return MK_OK;
}

/* One value of one piece, in pieces of the disk's size. */
static mk_status put_value(save *s, mt_st_writer *writer, int64_t index, const piece *piece_, mt_value which,
                           void *buffer) {
  for (int64_t done = 0; done < piece_->count; done += MT_SHARD_PIECE) {
    int64_t count = piece_->count - done < MT_SHARD_PIECE ? piece_->count - done : MT_SHARD_PIECE;
    int64_t first = piece_->param->first + piece_->first + done;
    MK_TRY(s->ctx, mt_trainer_state_read(s->t, piece_->param, which, first, count, buffer));
    MK_TRY(s->ctx, mt_st_writer_put(writer, index, buffer, count));
  }
  return MK_OK;
}

static mk_status put_all(save *s, mt_st_writer *writer, void *buffer) {
  static const mt_value values[] = {
      [MT_SHARD_MAIN] = MT_VALUE_MAIN, [MT_SHARD_M] = MT_VALUE_M, [MT_SHARD_V] = MT_VALUE_V};
  for (int64_t i = 0; i < s->n; i++) {
    for (int value = 0; value < MT_SHARD_VALUES; value++)
      MK_TRY(s->ctx, put_value(s, writer, MT_SHARD_VALUES * i + value, &s->pieces[i], values[value], buffer));
  }
  if (s->t->mesh->world->rank != 0) return MK_OK;
  MK_TRY(s->ctx, mt_st_writer_put(writer, MT_SHARD_VALUES * s->n, s->state.loss_history, MT_SHARD_HISTORY_ENTRIES));
  return mt_st_writer_put(writer, MT_SHARD_VALUES * s->n + 1, s->state.norm_history, MT_SHARD_HISTORY_ENTRIES);
}

static mk_status write_shard(save *s, mt_checkpoint_file *file) {
  mk_context *ctx = s->ctx;
  mk_status st = MK_OK;
  mt_st_writer *writer = NULL;
  void *buffer = NULL;
  char name[MT_CHECKPOINT_NAME_BYTES], path[MT_CHECKPOINT_PATH_BYTES + MT_CHECKPOINT_NAME_BYTES];
  mt_shard_file_name(s->t->mesh->world->rank, name);
  snprintf(path, sizeof path, "%s/%s", s->folder, name);
  MK_TRY_GOTO(ctx, describe_shard(s), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, MT_SHARD_PIECE, mk_dtype_bytes(mt_master_dtype(&s->t->cfg)), &buffer), out);
  MK_TRY_GOTO(ctx, mt_st_writer_create(ctx, path, s->tensors, s->n_tensors, s->metadata, &writer), out);
  MK_TRY_GOTO(ctx, put_all(s, writer, buffer), out);
  MK_TRY_GOTO(ctx, mt_st_writer_commit(writer), out);
  MK_TRY_GOTO(ctx, mt_checkpoint_file_describe(ctx, s->folder, name, file), out);
out:
  mt_st_writer_destroy(writer);
  mk_heap_free(ctx, buffer);
  mk_heap_free(ctx, s->numbers);
  mk_heap_free(ctx, s->metadata);
  mk_heap_free(ctx, s->names);
  mk_heap_free(ctx, s->tensors);
  mk_heap_free(ctx, s->pieces);
  return st;
}

/* What every rank wrote, on all ranks. */
static mk_status gather_files(save *s, const mt_checkpoint_file *own, mt_checkpoint_meta *meta) {
  const mt_comm *world = s->t->mesh->world;
  char text[MK_MESSAGE_BYTES] = "";
  _Static_assert(sizeof *own <= sizeof text, "a file's description travels as one notice");
  MK_TRY(s->ctx, mk_heap_array(s->ctx, (size_t)world->size, sizeof *meta->file, &meta->file));
  meta->files = world->size;
  for (int r = 0; r < world->size; r++) {
    memcpy(text, own, sizeof *own);
    MK_TRY(s->ctx, mt_tell(s->t, r, text));
    memcpy(&meta->file[r], text, sizeof *own);
  }
  return MK_OK;
}

static mk_status publish(save *s, const mt_checkpoint_meta *meta) {
  MK_TRY(s->ctx, mt_checkpoint_meta_write(s->ctx, s->folder, meta));
  return mt_checkpoint_commit(s->ctx, s->dir, s->step);
}

/* Everything up to the rename. */
static mk_status save_all(save *s, mt_checkpoint_meta *meta) {
  mt_trainer *t = s->t;
  bool first = t->mesh->world->rank == 0;
  mt_checkpoint_file own = {0};
  MK_TRY(s->ctx, mt_agree(t, first ? mt_checkpoint_begin(s->ctx, s->dir, s->step) : MK_OK));
  MK_TRY(s->ctx, mt_agree(t, write_shard(s, &own)));
  MK_TRY(s->ctx, gather_files(s, &own, meta));
  return mt_agree(t, first ? publish(s, meta) : MK_OK);
}

mk_status mt_checkpoint_save(mt_trainer *t, const mt_data *data, int64_t step, const mt_run_position *at,
                             char path[MK_MESSAGE_BYTES]) {
  mk_context *ctx = t->ctx;
  save s = {.t = t, .ctx = ctx, .step = step, .dir = t->cfg.checkpoint_dir};
  bool first = t->mesh->world->rank == 0;
  MK_TRY(ctx, mk_stream_sync(t->comm, false));
  MK_TRY(ctx, mk_copy_d2h(t->compute, &s.state, &t->model->state));
  MK_TRY(ctx, mk_stream_sync(t->compute, false));
  mt_checkpoint_meta meta = {.step = step,
                             .taken = s.state.taken,
                             .windows = mt_data_windows_before(data, step),
                             .trained_s = at->trained_s,
                             .evaluated = at->evaluated,
                             .end = at->end,
                             .schedule_end = t->optim.total_steps,
                             .config = t->cfg};
  mt_checkpoint_temporary(s.dir, step, s.folder);
  mt_checkpoint_path(s.dir, step, path);
  mk_status st = mt_data_fingerprint(data, meta.fingerprint);
  if (st == MK_OK) st = save_all(&s, &meta);
  if (st == MK_OK) st = mt_agree(t, first ? mt_checkpoint_prune(ctx, s.dir, step, t->cfg.checkpoint_keep) : MK_OK);
  if (st != MK_OK && first) mt_checkpoint_abandon(ctx, s.dir, step);
  if (st != MK_OK) mk_error_prefix(ctx, "checkpoint_dir");
  mt_checkpoint_meta_fini(ctx, &meta);
  return st;
}

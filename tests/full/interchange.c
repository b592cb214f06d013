/* moemark's logits for weights in Hugging Face layout, in FP32.
 *   interchange write DIR   config.json and model.safetensors of DIR, written by moemark-trainer: makes
 *                           tokens.safetensors ("tokens" [2,48], I32) and logits.safetensors ("logits" [2,48,V])
 *   interchange check DIR   all four files, written by transformers: compares; prints one line
 * Exit codes: 0 done or within 1e-4, 1 further apart, 2 the folder cannot be used. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "kernels/base/log.h"
#include "kernels/base/out.h"
#include "kernels/base/process.h"
#include "trainer/checkpoint/hf_config.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/step/weights_io.h"

enum { BATCH = 2, SEQ = 48, PATH_BYTES = 1024 };

#define LIMIT 1e-4

typedef struct exchange {
  mk_context *ctx;
  const char *folder;
  mt_config cfg;
  mt_comm *world;
  mt_trainer *t;
  int32_t tokens[BATCH * SEQ];
  float *logits; /* [BATCH * SEQ, V] */
} exchange;

static const char *path_of(const exchange *x, const char *name, char path[PATH_BYTES]) {
  snprintf(path, PATH_BYTES, "%.900s/%s", x->folder, name);
  return path;
}

static mk_status write_tensor(exchange *x, const char *file, mt_st_tensor spec, const void *values) {
  mt_st_writer *writer = NULL;
  mk_status st = MK_OK;
  char path[PATH_BYTES];
  int64_t count = 1;
  for (int d = 0; d < spec.n_dims; d++)
    count *= spec.dim[d];
  MK_TRY_GOTO(x->ctx, mt_st_writer_create(x->ctx, path_of(x, file, path), &spec, 1, NULL, &writer), out);
  MK_TRY_GOTO(x->ctx, mt_st_writer_put(writer, 0, values, count), out);
  MK_TRY_GOTO(x->ctx, mt_st_writer_commit(writer), out);
out:
  mt_st_writer_destroy(writer);
  return st;
}

static mk_status read_tensor(exchange *x, const char *file, const char *name, mk_dtype as, int64_t count, void *out) {
  mt_st_reader *reader = NULL;
  mk_status st = MK_OK;
  char path[PATH_BYTES];
  MK_TRY_GOTO(x->ctx, mt_st_reader_create(x->ctx, path_of(x, file, path), &reader), out);
  const mt_st_tensor *t = mt_st_reader_find(reader, name);
  MK_CHECK_GOTO(x->ctx, t != NULL && t->count == count, MK_ERR_FORMAT, out, "%s: tensor '%s' of %lld values is missing",
                path, name, (long long)count);
  MK_TRY_GOTO(x->ctx, mt_st_reader_get(reader, t, 0, count, as, out), out);
out:
  mt_st_reader_destroy(reader);
  return st;
}

/* The model of config.json, with the weights of the folder. */
static mk_status open_model(exchange *x) {
  char path[PATH_BYTES];
  x->cfg = mt_config_default();
  MK_TRY(x->ctx, mt_hf_config_read(x->ctx, path_of(x, "config.json", path), &x->cfg));
  x->cfg.seq_len = SEQ;
  x->cfg.rank_tokens = x->cfg.global_tokens = BATCH * SEQ;
  x->cfg.threads = 1;
  MK_TRY(x->ctx, mt_comm_self_create(x->ctx, &x->world));
  MK_TRY(x->ctx, mt_trainer_create(x->ctx, &x->cfg, x->world, &x->t));
  MK_TRY(x->ctx, mk_heap_array(x->ctx, BATCH * SEQ, (size_t)x->cfg.vocab * sizeof *x->logits, &x->logits));
  return mt_weights_load(x->t, x->folder);
}

static mk_status compute(exchange *x) {
  int32_t labels[BATCH * SEQ] = {0};
  double ce = 0, count = 0;
  return mt_trainer_evaluate(x->t, 0, x->tokens, labels, &ce, &count, x->logits);
}

static mk_status write_all(exchange *x) {
  for (int i = 0; i < BATCH * SEQ; i++)
    x->tokens[i] = (int32_t)((i * 7919ll + 13) % x->cfg.vocab);
  mt_st_tensor tokens = {.name = "tokens", .dtype = MK_I32, .n_dims = 2, .dim = {BATCH, SEQ}};
  mt_st_tensor logits = {.name = "logits", .dtype = MK_F32, .n_dims = 3, .dim = {BATCH, SEQ, x->cfg.vocab}};
  MK_TRY(x->ctx, compute(x));
  MK_TRY(x->ctx, write_tensor(x, "tokens.safetensors", tokens, x->tokens));
  return write_tensor(x, "logits.safetensors", logits, x->logits);
}

static mk_status check_all(exchange *x, bool *within) {
  mk_status st = MK_OK;
  int64_t count = BATCH * SEQ * x->cfg.vocab;
  float *expected = NULL;
  double worst = 0;
  MK_TRY_GOTO(x->ctx, mk_heap_array(x->ctx, (size_t)count, sizeof *expected, &expected), out);
  MK_TRY_GOTO(x->ctx, read_tensor(x, "tokens.safetensors", "tokens", MK_I32, BATCH * SEQ, x->tokens), out);
  MK_TRY_GOTO(x->ctx, read_tensor(x, "logits.safetensors", "logits", MK_F32, count, expected), out);
  MK_TRY_GOTO(x->ctx, compute(x), out);
  for (int64_t i = 0; i < count; i++) {
    double error = fabs((double)x->logits[i] - (double)expected[i]);
    if (!(error <= worst)) worst = error; /* NaN counts */
  }
  *within = worst <= LIMIT;
  mk_out("{\"dir\":\"%s\",\"layout\":\"transformers to moemark\",\"max_abs_error\":%g,\"tol\":%g,\"ok\":%s}\n",
         x->folder, worst, LIMIT, *within ? "true" : "false");
out:
  mk_heap_free(x->ctx, expected);
  return st;
}

int main(int argc, char **argv) {
  mk_context ctx = {0};
  exchange x = {.ctx = &ctx};
  bool writes = argc == 3 && strcmp(argv[1], "write") == 0, within = true;
  mk_process_init();
  if (!writes && (argc != 3 || strcmp(argv[1], "check") != 0)) {
    mk_log(&ctx, "usage: interchange write|check DIR");
    return 2;
  }
  x.folder = argv[2];
  mk_status st = open_model(&x);
  if (st == MK_OK) st = writes ? write_all(&x) : check_all(&x, &within);
  if (st != MK_OK) mk_log_error(&ctx, false);
  mk_heap_free(&ctx, x.logits);
  mt_trainer_destroy(x.t);
  mt_comm_destroy(x.world);
  if (st != MK_OK || mk_out_flush(&ctx) != MK_OK) return 2;
  return within ? 0 : 1;
}

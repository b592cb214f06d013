/* See agree.h. One word is reduced; only after a fault a message follows. */
#include "trainer/step/agree.h"

#include <stdio.h>
#include <string.h>

mk_status mt_tell(mt_trainer *t, int root, char text[MK_MESSAGE_BYTES]) {
  mt_comm *world = t->mesh->world;
  if (world->size == 1) return MK_OK;
  MK_TRY(t->ctx, mk_copy_h2d(t->compute, &t->optim.notice, text));
  MK_TRY(t->ctx, mt_comm_broadcast(world, &t->optim.notice, root, t->compute));
  MK_TRY(t->ctx, mk_copy_d2h(t->compute, text, &t->optim.notice));
  return mk_stream_sync(t->compute, false);
}

/* Largest of all ranks' words. */
static mk_status largest(mt_trainer *t, int32_t *word) {
  MK_TRY(t->ctx, mk_copy_h2d(t->compute, &t->optim.verdict, word));
  MK_TRY(t->ctx, mt_comm_all_reduce(t->mesh->world, &t->optim.verdict, &t->optim.verdict, MT_MAX, t->compute));
  MK_TRY(t->ctx, mk_copy_d2h(t->compute, word, &t->optim.verdict));
  return mk_stream_sync(t->compute, false);
}

mk_status mt_agree(mt_trainer *t, mk_status own) {
  mt_comm *world = t->mesh->world;
  int32_t word = own == MK_OK ? 0 : world->size - world->rank; /* the lowest failed rank has the largest */
  char text[MK_MESSAGE_BYTES] = "";
  if (world->size == 1) return own;
  MK_TRY(t->ctx, largest(t, &word));
  if (word == 0) return MK_OK;
  int32_t status = own;
  memcpy(text, &status, sizeof status);
  snprintf(text + sizeof status, sizeof text - sizeof status, "%.1000s", t->ctx->error.message);
  MK_TRY(t->ctx, mt_tell(t, world->size - word, text));
  if (own != MK_OK) return own;
  memcpy(&status, text, sizeof status);
  return MK_FAIL(t->ctx, (mk_status)status, "rank %d: %s", world->size - word, text + sizeof status);
}

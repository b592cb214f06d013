/* LM head and loss: final RMSNorm, logits, cross-entropy with z-loss; forward and backward of a chunk of tokens at
 * once, so that only [chunk,V] logits exist. The gradient of the loss is known as soon as the logits are. */
#include "trainer/model/model.h"
#include "trainer/model/norm.h"

static mk_status chunk_run(mt_model *m, const mt_pass *pass, int64_t first, int64_t rows) {
  mt_pass chunk = *pass, *p = &chunk;
  chunk.fresh[0] = pass->fresh[0] && first == 0; /* later chunks add to the weight gradient of the first */
  mk_context *ctx = m->ctx;
  mt_head *h = &m->head;
  int unit = m->params.units - 1;
  mk_tensor x = mk_tensor_rows(&h->normed, first, rows), dx = mk_tensor_rows(&h->d_normed, first, rows);
  mk_tensor logits = mk_tensor_rows(&h->logits, 0, rows);
  mk_tensor flat = mk_tensor_slice(&h->losses, 0, 2 * rows);
  MK_TRY(ctx, mt_linear_forward(m, p, unit, MT_PARAM_HEAD_OUT, &x, &logits));
  if (p->logits_out != NULL) {
    char *at = (char *)p->logits_out + (size_t)(first * m->cfg->vocab) * mk_dtype_bytes(logits.dtype);
    MK_TRY(ctx, mk_copy_d2h(p->stream, at, &logits));
  }
  MK_TRY(ctx,
         mk_cross_entropy(p->stream, &(mk_cross_entropy_args){.logits = logits,
                                                              .labels = mk_tensor_slice(&p->set->labels, first, rows),
                                                              .state = m->state,
                                                              .sums = mt_pass_sums(m, p),
                                                              .losses = mk_tensor_as_2d(&flat, 2, rows),
                                                              .z_weight = (float)m->cfg->z_weight,
                                                              .with_grad = p->train}));
  if (!p->train) return MK_OK;
  return mt_linear_backward(m, p, unit, MT_PARAM_HEAD_OUT, &x, &logits, NULL, &dx);
}

/* In: the stream x [T,D], which is head.stream, or with pre-norm a stream and a branch whose sum becomes head.stream.
 * Out: gradient of head.stream, in p->d_head or, where the backward pass follows at once, in scratch.dx. */
mk_status mt_head_forward_backward(mt_model *m, const mt_pass *p, const mk_tensor *x, const mk_tensor *pending) {
  mk_context *ctx = m->ctx;
  mt_head *h = &m->head;
  int unit = m->params.units - 1;
  MK_TRY(ctx, mt_norm_in(m, p, unit, MT_PARAM_HEAD_NORM, x, pending, &h->stream, &h->normed, &h->rstd));
  for (int64_t first = 0; first < m->tokens; first += h->chunk) {
    int64_t rows = m->tokens - first < h->chunk ? m->tokens - first : h->chunk;
    MK_TRY(ctx, chunk_run(m, p, first, rows));
  }
  if (!p->train) return MK_OK;
  const mk_tensor *d_stream = mk_tensor_present(&p->d_head) ? &p->d_head : &m->scratch.dx;
  return mt_norm_backward(m, p, unit, MT_PARAM_HEAD_NORM, &h->stream, &h->rstd, &h->d_normed, NULL, d_stream);
}

/* Token embedding: rows * embed_scale, then an optional RMSNorm (Olmo-core 3.0.0 olmo_core/nn/ddp/model.py). */
#include <math.h>

#include "trainer/model/model.h"
#include "trainer/model/norm.h"

static float scale_of(const mt_config *c) {
  return c->embed_scale == 0 ? sqrtf((float)c->d_model) : (float)c->embed_scale;
}

mk_status mt_embedding_forward(mt_model *m, const mt_pass *p, mk_tensor *y) {
  mt_embedding *e = &p->set->embedding;
  bool normed = mk_tensor_present(&e->raw);
  const mt_param *table = mt_params_find(&m->params, 0, MT_PARAM_EMBED);
  MK_TRY(m->ctx, mk_embedding_fwd(
                     p->stream,
                     &(mk_embedding_fwd_args){
                         .ids = p->set->ids, .table = table->w, .y = normed ? e->raw : *y, .scale = scale_of(m->cfg)}));
  if (!normed) return MK_OK;
  return mt_norm_in(m, p, 0, MT_PARAM_EMBED_NORM, &e->raw, NULL, NULL, y, &e->rstd);
}

mk_status mt_embedding_backward(mt_model *m, const mt_pass *p, const mk_tensor *dx) {
  mt_embedding *e = &p->set->embedding;
  const mk_tensor *d_raw = dx;
  if (mk_tensor_present(&e->raw)) {
    MK_TRY(m->ctx, mt_norm_backward(m, p, 0, MT_PARAM_EMBED_NORM, &e->raw, &e->rstd, dx, NULL, &m->scratch.d_branch));
    d_raw = &m->scratch.d_branch;
  }
  const mt_param *table = mt_params_find(&m->params, 0, MT_PARAM_EMBED);
  return mk_embedding_bwd(
      p->stream,
      &(mk_embedding_bwd_args){.ids = p->set->ids, .dy = *d_raw, .dtable = table->grad, .scale = scale_of(m->cfg)});
}

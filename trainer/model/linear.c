/* Linear layers of the model: parameter lookup plus the three GEMMs. */
#include "trainer/model/mxfp8.h"

mk_status mt_linear_forward(mt_model *m, const mt_pass *p, int unit, mt_param_role role, const mk_tensor *x,
                            const mk_tensor *y) {
  const mt_param *w = mt_params_find(&m->params, unit, role);
  if (mk_tensor_present(&w->w_q.q)) return mt_mxfp8_linear_forward(m, p, w, x, y);
  return mk_linear_fwd(p->stream, &(mk_linear_fwd_args){.x = *x, .w = w->w, .packed = w->packed, .y = *y});
}

mk_status mt_linear_backward(mt_model *m, const mt_pass *p, int unit, mt_param_role role, const mk_tensor *x,
                             const mk_tensor *dy, const mk_tensor *add, const mk_tensor *dx) {
  const mt_param *w = mt_params_find(&m->params, unit, role);
  mk_tensor none = {0};
  if (mk_tensor_present(&w->w_q.q)) return mt_mxfp8_linear_backward(m, p, w, x, dy, add != NULL ? add : &none, dx);
  MK_TRY(m->ctx, mk_linear_wgrad(p->stream,
                                 &(mk_linear_wgrad_args){.dy = *dy, .x = *x, .dw = w->grad, .overwrite = p->fresh[0]}));
  return mk_linear_dgrad(
      p->stream,
      &(mk_linear_dgrad_args){.dy = *dy, .w = w->w, .packed = w->packed, .add = add != NULL ? *add : none, .dx = *dx});
}

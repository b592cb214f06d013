/* See norm.h. */
#include "trainer/model/norm.h"

mk_status mt_norm_in(mt_model *m, const mt_pass *p, int unit, mt_param_role role, const mk_tensor *x,
                     const mk_tensor *branch, const mk_tensor *sum, const mk_tensor *y, const mk_tensor *rstd) {
  mk_tensor none = {0};
  bool fused = branch != NULL && mk_tensor_present(branch);
  return mk_rmsnorm_fwd(p->stream, &(mk_rmsnorm_fwd_args){.x = *x,
                                                          .branch = fused ? *branch : none,
                                                          .sum = fused ? *sum : none,
                                                          .gain = mt_params_find(&m->params, unit, role)->w,
                                                          .y = *y,
                                                          .rstd = *rstd,
                                                          .eps = (float)m->cfg->norm_eps});
}

mk_status mt_norm_out(mt_model *m, const mt_pass *p, int unit, mt_param_role role, const mk_tensor *x,
                      const mk_tensor *stream, const mk_tensor *y, const mk_tensor *rstd) {
  return mk_rmsnorm_fwd(p->stream, &(mk_rmsnorm_fwd_args){.x = *x,
                                                          .gain = mt_params_find(&m->params, unit, role)->w,
                                                          .add = *stream,
                                                          .y = *y,
                                                          .rstd = *rstd,
                                                          .eps = (float)m->cfg->norm_eps});
}

mk_status mt_norm_backward(mt_model *m, const mt_pass *p, int unit, mt_param_role role, const mk_tensor *x,
                           const mk_tensor *rstd, const mk_tensor *dy, const mk_tensor *add, const mk_tensor *dx) {
  const mt_param *gain = mt_params_find(&m->params, unit, role);
  mk_tensor none = {0};
  return mk_rmsnorm_bwd(p->stream, &(mk_rmsnorm_bwd_args){.dy = *dy,
                                                          .x = *x,
                                                          .gain = gain->w,
                                                          .rstd = *rstd,
                                                          .add = add != NULL ? *add : none,
                                                          .dx = *dx,
                                                          .dgain = gain->grad});
}

/* What the strategies' formulas are made of: elements from the list of parameters, bytes of an element from the
 * configuration. Nothing here looks at what was laid out or placed, so that a prediction is one. */
#include "kernels/base/min_max.h"
#include "trainer/parallel/parallel.h"

static int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

int64_t mt_tensor_bytes(int64_t elements, int64_t width) { return mk_arena_bytes(elements * width); }

mt_widths mt_widths_of(const mt_config *cfg) {
  int64_t compute = (int64_t)mk_dtype_bytes(mt_compute_dtype(cfg)),
          master = (int64_t)mk_dtype_bytes(mt_master_dtype(cfg));
  return (mt_widths){.compute = compute, .master = master, .states = compute == master ? 2 : 3};
}

int64_t mt_unit_elements(const mt_params *params, int kind, int unit, int64_t align) {
  int64_t count = 0;
  for (int i = 0; i < params->count; i++) {
    const mt_param *p = &params->item[i];
    if (p->unit == unit && p->expert == (kind == 1)) count += round_up(p->count, MT_PARAM_ALIGN);
  }
  return round_up(count, align);
}

int64_t mt_elements(const mt_params *params, int kind, int64_t align) {
  int64_t count = 0;
  for (int unit = 0; unit < params->units; unit++)
    count += mt_unit_elements(params, kind, unit, align);
  return count;
}

int64_t mt_quantised_bytes(const mt_params *params, const mt_config *cfg, int kind, bool in_turn) {
  int64_t all = 0, largest[MT_PARAM_ROLE_COUNT] = {0};
  for (int i = 0; i < params->count; i++) {
    const mt_param *p = &params->item[i];
    if (!mt_role_mxfp8(cfg, p->role) || p->expert != (kind == 1)) continue;
    int64_t bytes = 2 * (mt_tensor_bytes(p->count, 1) + mt_tensor_bytes(p->count / MK_MXFP8_BLOCK, 1));
    all += in_turn ? mk_max(0, bytes - largest[p->role]) : bytes;
    largest[p->role] = mk_max(largest[p->role], bytes);
  }
  return all;
}

int64_t mt_whole_bytes(const mt_params *params, const mt_config *cfg, int kind, int ranks) {
  mt_widths w = mt_widths_of(cfg);
  int64_t bytes = mt_elements(params, kind, 1) * (w.compute + w.master) + mt_quantised_bytes(params, cfg, kind, false);
  for (int i = 0; i < params->count; i++) {
    const mt_param *p = &params->item[i];
    int64_t own = mt_param_shards(p->count, ranks) ? p->count / ranks : p->count;
    if (p->expert == (kind == 1)) bytes += w.states * mt_tensor_bytes(own, w.master);
  }
  return bytes;
}

int64_t mt_uncut_mem_bytes(const mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan) {
  (void)plan;
  return mt_whole_bytes(params, cfg, 0, 1) + mt_whole_bytes(params, cfg, 1, 1);
}

int64_t mt_gradient_bytes(const mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan) {
  int64_t count = 0;
  if (plan->dp > 1) count += mt_elements(params, 0, 1);
  if (plan->ep_dp > 1) count += mt_elements(params, 1, 1);
  return count * mt_widths_of(cfg).master;
}

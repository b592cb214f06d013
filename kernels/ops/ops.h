/* All ops: contracts by folder, names and work functions by id. */
#ifndef KERNELS_OPS_OPS_H
#define KERNELS_OPS_OPS_H

#include "kernels/device/device.h"
#include "kernels/ops/adamw/adamw.h"
#include "kernels/ops/add/add.h"
#include "kernels/ops/attention/attention.h"
#include "kernels/ops/cast/cast.h"
#include "kernels/ops/combine/combine.h"
#include "kernels/ops/cross_entropy/cross_entropy.h"
#include "kernels/ops/embedding/embedding.h"
#include "kernels/ops/grouped_gemm/grouped_gemm.h"
#include "kernels/ops/linear/linear.h"
#include "kernels/ops/load_balance/load_balance.h"
#include "kernels/ops/mxfp8/mxfp8.h"
#include "kernels/ops/mxfp8_gemm/mxfp8_gemm.h"
#include "kernels/ops/param_init/param_init.h"
#include "kernels/ops/permute/permute.h"
#include "kernels/ops/qk_norm_rope/qk_norm_rope.h"
#include "kernels/ops/rmsnorm/rmsnorm.h"
#include "kernels/ops/route_map/route_map.h"
#include "kernels/ops/router/router.h"
#include "kernels/ops/row_exchange/row_exchange.h"
#include "kernels/ops/row_scale/row_scale.h"
#include "kernels/ops/scale/scale.h"
#include "kernels/ops/squared_norm/squared_norm.h"
#include "kernels/ops/step_state/step_state.h"
#include "kernels/ops/swiglu/swiglu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "rmsnorm_fwd" and so on. */
const char *mk_op_name(mk_op_id op);

/* Work of one call of `op`. */
mk_work mk_op_work(mk_op_id op, const void *args, int64_t rows);

#ifdef __cplusplus
}
#endif

#endif

/* Private to combine and permute: the sum of routed rows, which is the forward of the one and the backward of the
 * other. Absent weights count as 1. */
#ifndef KERNELS_OPS_COMBINE_COMBINE_SUM_H
#define KERNELS_OPS_COMBINE_COMBINE_SUM_H

#include "kernels/ops/combine/combine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `op` names the caller in errors: MK_OP_combine_fwd or MK_OP_permute_bwd. */
mk_status mk_combine_sum_cpu(mk_stream *stream, mk_op_id op, const mk_combine_fwd_args *args);
mk_status mk_combine_sum_ref(mk_stream *stream, mk_op_id op, const mk_combine_fwd_args *args);

#ifdef __cplusplus
}
#endif

#endif

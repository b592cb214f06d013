/* Private to combine, permute and row_exchange: the sum of routed rows, which is the forward of the first and the way
 * back of the others. Absent weights count as 1. */
#ifndef KERNELS_OPS_COMBINE_COMBINE_SUM_H
#define KERNELS_OPS_COMBINE_COMBINE_SUM_H

#include "kernels/ops/combine/combine.h"
#include "kernels/ops/row_exchange/row_exchange.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows lie in args->rows, named by args->map; or, where routes is not NULL, with the peers (rows and map are absent).
 * `op` names the caller in errors. */
mk_status mk_combine_sum_cpu(mk_stream *stream, mk_op_id op, const mk_combine_fwd_args *args,
                             const mk_row_routes *routes);
mk_status mk_combine_sum_ref(mk_stream *stream, mk_op_id op, const mk_combine_fwd_args *args,
                             const mk_row_routes *routes);

#ifdef __cplusplus
}
#endif

#endif

/* How many rows a call works on, where only the device knows: the arguments hold a capacity, the device the rows in it.
 * A line for each op whose work function takes `rows`. */
#include "kernels/ops/op_rows.h"

#include <stddef.h>

typedef enum row_source {
  OF_SHAPE, /* the dims say it all */
  LAST,     /* the last element of the i32 tensor: offsets[E], or the optional rows[0] */
  KEPT      /* the elements of the i32 tensor that are not negative: routes not dropped */
} row_source;

typedef struct op_rows {
  row_source source;
  size_t at; /* of the tensor in the args struct */
} op_rows;

#define ROWS(op, source, field) [MK_OP_##op] = {source, offsetof(mk_##op##_args, field)}

static const op_rows of_op[MK_OP_COUNT] = {
    ROWS(grouped_gemm_fwd, LAST, offsets),
    ROWS(grouped_gemm_dgrad, LAST, offsets),
    ROWS(grouped_gemm_wgrad, LAST, offsets),
    ROWS(mxfp8_quantize, LAST, rows),
    ROWS(mxfp8_dequantize, LAST, rows),
    ROWS(mxfp8_grouped, LAST, offsets),
    ROWS(swiglu_fwd, LAST, rows),
    ROWS(swiglu_bwd, LAST, rows),
    ROWS(row_scale_fwd, LAST, rows),
    ROWS(row_scale_bwd, LAST, rows),
    ROWS(permute_fwd, KEPT, map),
    ROWS(permute_bwd, KEPT, map),
    ROWS(row_put, KEPT, routes.rank),
    ROWS(row_get, KEPT, routes.rank),
    ROWS(row_sum, KEPT, routes.rank),
    ROWS(combine_fwd, KEPT, map),
    ROWS(combine_bwd, KEPT, map),
};

static const mk_tensor *tensor_of(mk_op_id op, const void *args) {
  const mk_tensor *t = (const mk_tensor *)((const char *)args + of_op[op].at);
  return of_op[op].source != OF_SHAPE && mk_tensor_present(t) ? t : NULL;
}

bool mk_op_rows_on_device(mk_op_id op, const void *args) { return tensor_of(op, args) != NULL; }

int64_t mk_op_rows(mk_op_id op, const void *args) {
  const mk_tensor *t = tensor_of(op, args);
  if (t == NULL) return -1;
  const int32_t *entries = t->data;
  int64_t n = mk_tensor_count(t), kept = 0;
  if (of_op[op].source == LAST) return n > 0 && entries[n - 1] > 0 ? entries[n - 1] : 0;
  for (int64_t i = 0; i < n; i++)
    kept += entries[i] >= 0;
  return kept;
}

/* See window_tally.h. */
#include "tests/trainer/parallel/window_tally.h"

#include <stdatomic.h>

#include "kernels/ops/ops.h"

/* A device is told apart from others by its table alone, so what the table counts into cannot hang on a device. */
static const mk_device_ops *real;
static mk_device_ops counting;
static _Atomic int64_t bytes_of[MT_MAX_RANKS]; /* by the rank that holds the row */

typedef struct rows {
  mk_tensor rank; /* i32 [T,K]; -1 = dropped */
  int64_t row_bytes;
} rows;

static mk_status count_rows(mk_stream *stream, const void *args) {
  const rows *a = args;
  const int32_t *rank = a->rank.data;
  (void)stream;
  for (int64_t r = 0; r < mk_tensor_count(&a->rank); r++)
    if (rank[r] >= 0) atomic_fetch_add(&bytes_of[rank[r]], a->row_bytes);
  return MK_OK;
}

static mk_status count_first(mk_stream *stream, const mk_row_routes *routes, const mk_tensor *t) {
  rows args = {.rank = routes->rank, .row_bytes = t->dim[1] * (int64_t)mk_dtype_bytes(t->dtype)};
  return real->call(stream, count_rows, &args, sizeof args);
}

static mk_status launch(mk_stream *stream, mk_op_id op, const void *args, size_t args_bytes) {
  const mk_row_put_args *put = args;
  const mk_row_get_args *get = args;
  const mk_row_sum_args *sum = args;
  mk_status st = MK_OK;
  if (op == MK_OP_row_put) st = count_first(stream, &put->routes, &put->x);
  if (op == MK_OP_row_get) st = count_first(stream, &get->routes, &get->out);
  if (op == MK_OP_row_sum) st = count_first(stream, &sum->routes, &sum->y);
  return st == MK_OK ? real->launch(stream, op, args, args_bytes) : st;
}

void window_tally_start(mt_trainer *t) {
  real = t->dev->ops;
  counting = *real;
  counting.launch = launch;
  t->dev->ops = &counting;
  for (int r = 0; r < MT_MAX_RANKS; r++)
    atomic_store(&bytes_of[r], 0);
}

int64_t window_tally_bytes(const mt_trainer *t) {
  int64_t bytes = 0;
  for (int r = 0; r < t->ep->ranks; r++)
    if (r != t->ep->rank) bytes += atomic_load(&bytes_of[r]);
  return bytes;
}

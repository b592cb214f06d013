/* Tiles through dnnl_sgemm. FP32 operands are used where they lie; BF16 operands are widened block by block into the
 * thread's scratch, which stays in its second-level cache: a product of two BF16 numbers is exact in FP32. MXFP8
 * operands go the same way: an element times its scale is an FP32 number, and so is a product of two.
 *
 * Scratch: accumulator ROWS x COLS, then the block of a, then the block of b. The reduction goes in steps that fit. */
#include <oneapi/dnnl/dnnl.h>

#include "kernels/base/min_max.h"
#include "kernels/device/cpu/gemm_parts.h"
#include "kernels/ops/mxfp8/mxfp8.h"

enum {
  STEP_A = 1024,       /* columns of a widened at once, with weights in FP32 */
  STEP_B = 256,        /* when the weights are copied as well */
  PAD = 16,            /* floats between rows, so that a column does not fall into one set of the first-level cache */
  TRANSPOSE_ROWS = 32, /* from here on a transposed copy of the weights pays in fwd */
};

bool mk_cpu_sgemm(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                  const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
  return dnnl_sgemm(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc) == dnnl_success;
}

typedef struct block {
  const float *data;
  int64_t ld;
} block;

/* A block of a matrix as floats: in place when it is stored so, else copied into *scratch, which moves on. `compact`
 * asks for a block without gaps between its rows. `scale` belongs to MXFP8, whose columns start at a block's begin. */
static block take(const mk_tensor *t, const mk_tensor *scale, int64_t offset, int64_t ld, int64_t rows, int64_t cols,
                  bool compact, float **scratch) {
  const void *at = mk_gemm_at(t, offset);
  if (t->dtype == MK_F32 && (!compact || ld == cols)) return (block){.data = at, .ld = ld};
  block out = {.data = *scratch, .ld = cols};
  if (t->dtype == MK_U8) {
    int64_t scale_ld = mk_mxfp8_blocks(ld), first = offset / ld * scale_ld + offset % ld / MK_MXFP8_BLOCK;
    mk_gemm_mxfp8_load(at, mk_gemm_at(scale, first), ld, scale_ld, rows, cols, *scratch, cols);
  } else {
    mk_cpu_rows_load(at, t->dtype, ld, rows, cols, *scratch, cols);
  }
  *scratch += rows * cols;
  return out;
}

void mk_gemm_wgrad_clear(const mk_gemm_call *call, const mk_gemm_task *task) {
  for (int64_t row = task->col; row < task->col + task->cols; row++) {
    void *at = mk_gemm_at(&call->c, mk_gemm_weight_offset(task->group, call->n, call->k, row, task->inner));
    memset(at, 0, (size_t)task->inners * sizeof(float));
  }
}

static bool wgrad_tile(const mk_gemm_plan *plan, const mk_gemm_task *task, float *scratch) {
  const mk_gemm_call *call = plan->call;
  float *c = mk_gemm_at(&call->c, mk_gemm_weight_offset(task->group, call->n, call->k, task->col, task->inner));
  if (call->overwrite && task->rows == 0) mk_gemm_wgrad_clear(call, task);
  for (int64_t done = 0; done < task->rows; done += plan->tiles.rows) {
    float beta = call->overwrite && done == 0 ? 0 : 1;
    int64_t rows = mk_min(plan->tiles.rows, task->rows - done), row = task->row + done;
    float *free_scratch = scratch;
    block a = take(&call->a, NULL, mk_gemm_row_offset(row, task->col, call->n), call->n, rows, task->cols, true,
                   &free_scratch);
    block b = take(&call->b, NULL, mk_gemm_row_offset(row, task->inner, call->k), call->k, rows, task->inners, true,
                   &free_scratch);
    if (!mk_cpu_sgemm('T', 'N', task->cols, task->inners, rows, 1, a.data, a.ld, b.data, b.ld, beta, c, call->k)) {
      return false;
    }
  }
  return true;
}

/* One step of the reduction, columns [at, at + len) of a. */
static bool reduce_step(const mk_gemm_call *call, const mk_gemm_task *task, int64_t at, int64_t len, float beta,
                        float *acc, int64_t ld, float *scratch) {
  int64_t whole = mk_gemm_reduction(call);
  block a =
      take(&call->a, &call->a_scale, mk_gemm_row_offset(task->row, at, whole), whole, task->rows, len, false, &scratch);
  if (call->kind == MK_GEMM_FWD) {
    int64_t offset = mk_gemm_weight_offset(task->group, call->n, call->k, task->col, at);
    if (task->rows >= TRANSPOSE_ROWS && call->b.dtype != MK_U8) {
      int64_t ldb = task->cols + PAD;
      mk_gemm_transpose(mk_gemm_at(&call->b, offset), call->b.dtype, call->k, task->cols, len, scratch, ldb);
      return mk_cpu_sgemm('N', 'N', task->rows, task->cols, len, 1, a.data, a.ld, scratch, ldb, beta, acc, ld);
    }
    block b = take(&call->b, &call->b_scale, offset, call->k, task->cols, len, false, &scratch);
    return mk_cpu_sgemm('N', 'T', task->rows, task->cols, len, 1, a.data, a.ld, b.data, b.ld, beta, acc, ld);
  }
  int64_t offset = mk_gemm_weight_offset(task->group, call->n, call->k, at, task->col);
  block b = take(&call->b, NULL, offset, call->k, len, task->cols, false, &scratch);
  return mk_cpu_sgemm('N', 'N', task->rows, task->cols, len, 1, a.data, a.ld, b.data, b.ld, beta, acc, ld);
}

/* The sum of no products. */
static void zero_rows(float *acc, int64_t ld, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++)
    memset(acc + r * ld, 0, (size_t)cols * sizeof *acc);
}

bool mk_gemm_float_tile(const mk_gemm_plan *plan, const mk_gemm_task *task, float *scratch) {
  const mk_gemm_call *call = plan->call;
  if (call->kind == MK_GEMM_WGRAD) return wgrad_tile(plan, task, scratch);
  int64_t out = mk_gemm_out_cols(call), whole = mk_gemm_reduction(call), step = whole;
  int64_t c_offset = mk_gemm_row_offset(task->row, task->col, out);
  if (call->a.dtype != MK_F32) step = STEP_A;
  if (call->b.dtype != MK_F32 || (call->kind == MK_GEMM_FWD && task->rows >= TRANSPOSE_ROWS)) step = STEP_B;
  float *acc = call->c.dtype == MK_F32 ? mk_gemm_at(&call->c, c_offset) : scratch;
  int64_t ld = call->c.dtype == MK_F32 ? out : task->cols;
  bool add = mk_tensor_present(&call->add);
  if (add && mk_gemm_at(&call->add, c_offset) != (void *)acc) {
    mk_cpu_rows_load(mk_gemm_at(&call->add, c_offset), call->add.dtype, out, task->rows, task->cols, acc, ld);
  }
  if (!add && whole == 0) zero_rows(acc, ld, task->rows, task->cols);
  float *blocks = scratch + (call->c.dtype == MK_F32 ? 0 : task->rows * task->cols);
  for (int64_t at = 0; at < whole; at += step) {
    float beta = add || at > 0 ? 1 : 0;
    if (!reduce_step(call, task, at, mk_min(step, whole - at), beta, acc, ld, blocks)) return false;
  }
  if (acc == scratch)
    mk_cpu_rows_store(acc, ld, task->rows, task->cols, mk_gemm_at(&call->c, c_offset), call->c.dtype, out);
  return true;
}

/* Private to kernels/device/cpu/gemm*.c: the plan of a call (tiles, tasks) and the two tile kernels. */
#ifndef KERNELS_DEVICE_CPU_GEMM_PARTS_H
#define KERNELS_DEVICE_CPU_GEMM_PARTS_H

#include "kernels/device/cpu/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Largest tile: rows x cols of the output; for wgrad cols x inner, and rows is the step of the reduction. */
typedef struct mk_gemm_tiles {
  int64_t rows, cols, inner;
} mk_gemm_tiles;

/* Rows [row, row + rows) of the row buffers, columns [col, col + cols) of N (fwd, wgrad) or K (dgrad); wgrad also
 * columns [inner, inner + inners) of K. */
typedef struct mk_gemm_task {
  int64_t group, row, rows, col, cols, inner, inners;
} mk_gemm_task;

typedef struct mk_gemm_plan {
  const mk_gemm_call *call;
  bool native;
  mk_gemm_tiles tiles;
  mk_gemm_task *tasks; /* large before small */
  int64_t n_tasks;
} mk_gemm_plan;

/* Tile sizes: a function of the shape and the kernel alone. */
mk_gemm_tiles mk_gemm_choose_tiles(const mk_gemm_call *call, bool native);

/* Upper bound on tasks for rows_max rows, and the tasks for the offsets given (NULL: one group of `rows` rows).
 * `order` is work for `groups` entries. Returns the number of tasks. */
int64_t mk_gemm_task_bound(const mk_gemm_call *call, const mk_gemm_tiles *tiles);
int64_t mk_gemm_make_tasks(const mk_gemm_call *call, const mk_gemm_tiles *tiles, int64_t *order, mk_gemm_task *tasks);

/* Columns that row tiles are made of: N of fwd and wgrad, K of dgrad; and the length of the reduction. */
static inline int64_t mk_gemm_out_cols(const mk_gemm_call *call) {
  return call->kind == MK_GEMM_DGRAD ? call->k : call->n;
}
static inline int64_t mk_gemm_reduction(const mk_gemm_call *call) {
  return call->kind == MK_GEMM_DGRAD ? call->n : call->k;
}

/* Element offsets, in 64 bits (Transformer Engine issue 2908, torchtitan issue 2430: both overflowed 32). */
static inline int64_t mk_gemm_row_offset(int64_t row, int64_t col, int64_t width) { return row * width + col; }
static inline int64_t mk_gemm_weight_offset(int64_t group, int64_t n, int64_t k, int64_t row, int64_t col) {
  return (group * n + row) * k + col;
}

/* Address of element `index`. */
static inline void *mk_gemm_at(const mk_tensor *t, int64_t index) {
  return (char *)t->data + (size_t)index * mk_dtype_bytes(t->dtype);
}

/* Clears the output tile of a wgrad task. */
void mk_gemm_wgrad_clear(const mk_gemm_call *call, const mk_gemm_task *task);

/* rows x cols elements of a matrix with `ld` elements a row to dst[cols, rows] with dst_ld. */
void mk_gemm_transpose(const void *src, mk_dtype dtype, int64_t ld, int64_t rows, int64_t cols, float *dst,
                       int64_t dst_ld);

/* As mk_cpu_rows_load from MXFP8: elements q, the scales of the same rows; both start at a block's begin. */
void mk_gemm_mxfp8_load(const uint8_t *q, const uint8_t *scale, int64_t ld, int64_t scale_ld, int64_t rows,
                        int64_t cols, float *dst, int64_t dst_ld);

/* One task, on the calling thread. False on failure of oneDNN. */
bool mk_gemm_float_tile(const mk_gemm_plan *plan, const mk_gemm_task *task, float *scratch);

/* The primitives of the native kernel: one family a shape, made at its first use and kept. */
typedef struct mk_gemm_native mk_gemm_native;
typedef struct mk_gemm_family mk_gemm_family;

mk_status mk_gemm_native_create(mk_context *ctx, int threads, mk_gemm_native **out);
void mk_gemm_native_destroy(mk_context *ctx, mk_gemm_native *native);
mk_status mk_gemm_native_family(mk_context *ctx, mk_gemm_native *native, const mk_gemm_plan *plan,
                                mk_gemm_family **out);
bool mk_gemm_native_tile(mk_gemm_native *native, mk_gemm_family *family, const mk_gemm_plan *plan,
                         const mk_gemm_task *task, int thread);

#ifdef __cplusplus
}
#endif

#endif

/* SwiGLU on the GPU: one pass, FP32 arithmetic; a thread takes 16 bytes of a row at a time where rows allow it. The
 * number of valid rows is read on the device: the grid covers the bound, blocks beyond the valid rows end at once. */
#include "kernels/device/cuda/cuda_kernel.cuh"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/swiglu/swiglu.h"

enum { THREADS = 256, GRID_ROWS_MAX = 65535 };

/* Rows and packs of a row that this thread works on. */
struct walk {
  int64_t row, rows, row_step; /* row = row; row < rows; row += row_step */
  int64_t pack;                /* < packs of a row, or there is nothing to do */
};

__device__ __forceinline__ walk my_walk(const int32_t *rows, int64_t bound) {
  walk w;
  int64_t valid = rows != nullptr ? *rows : bound;
  w.rows = valid < 0 ? 0 : valid > bound ? bound : valid;
  w.row = blockIdx.y * (int64_t)blockDim.y + threadIdx.y;
  w.row_step = gridDim.y * (int64_t)blockDim.y;
  w.pack = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  return w;
}

__device__ __forceinline__ float sigmoid(float z) { return 1.0f / (1.0f + expf(-z)); }

template <typename T, int N>
static __global__ void __launch_bounds__(THREADS)
    fwd_kernel(const T *x, const int32_t *rows, T *y, int64_t bound, int64_t width) {
  walk w = my_walk(rows, bound);
  if (w.pack * N >= width) return;
  for (int64_t row = w.row; row < w.rows; row += w.row_step) {
    const T *up_at = x + row * 2 * width + w.pack * N;
    mk_floats<N> up = mk_load<N>(up_at), gate = mk_load<N>(up_at + width), out;
#pragma unroll
    for (int i = 0; i < N; i++)
      out.at[i] = up.at[i] * gate.at[i] * sigmoid(gate.at[i]);
    mk_store<N>(y + row * width + w.pack * N, out);
  }
}

/* dx may be x: each thread reads its elements before it writes them. */
template <typename T, int N>
static __global__ void __launch_bounds__(THREADS)
    bwd_kernel(const T *dy, const T *x, const int32_t *rows, T *dx, int64_t bound, int64_t width) {
  walk w = my_walk(rows, bound);
  if (w.pack * N >= width) return;
  for (int64_t row = w.row; row < w.rows; row += w.row_step) {
    int64_t at = row * 2 * width + w.pack * N;
    mk_floats<N> g = mk_load<N>(dy + row * width + w.pack * N);
    mk_floats<N> up = mk_load<N>(x + at), gate = mk_load<N>(x + at + width), dup, dgate;
#pragma unroll
    for (int i = 0; i < N; i++) {
      float z = gate.at[i], sig = sigmoid(z);
      dup.at[i] = g.at[i] * z * sig;
      dgate.at[i] = g.at[i] * up.at[i] * sig * (1.0f + z * (1.0f - sig));
    }
    mk_store<N>(dx + at, dup);
    mk_store<N>(dx + at + width, dgate);
  }
}

/* Narrow rows share a block, so that its threads have work. */
static dim3 block_of(int64_t packs) {
  unsigned across = 1;
  while (across < packs && across < THREADS)
    across *= 2;
  return dim3(across, THREADS / across);
}

static dim3 grid_of(dim3 block, int64_t rows, int64_t packs) {
  return dim3(static_cast<unsigned>(mk_ceil_div(packs, block.x)),
              static_cast<unsigned>(mk_least(mk_ceil_div(rows, block.y), GRID_ROWS_MAX)));
}

static const int32_t *rows_of(const mk_tensor *rows) {
  return mk_tensor_present(rows) ? static_cast<const int32_t *>(rows->data) : nullptr;
}

template <typename T, int N>
static void fwd_launch(mk_stream *stream, const mk_swiglu_fwd_args *a) {
  int64_t bound = a->y.dim[0], width = a->y.dim[1];
  dim3 block = block_of(width / N);
  fwd_kernel<T, N><<<grid_of(block, bound, width / N), block, 0, mk_cuda_stream_of(stream)->native>>>(
      static_cast<const T *>(a->x.data), rows_of(&a->rows), static_cast<T *>(a->y.data), bound, width);
}

template <typename T, int N>
static void bwd_launch(mk_stream *stream, const mk_swiglu_bwd_args *a) {
  int64_t bound = a->dy.dim[0], width = a->dy.dim[1];
  dim3 block = block_of(width / N);
  bwd_kernel<T, N><<<grid_of(block, bound, width / N), block, 0, mk_cuda_stream_of(stream)->native>>>(
      static_cast<const T *>(a->dy.data), static_cast<const T *>(a->x.data), rows_of(&a->rows),
      static_cast<T *>(a->dx.data), bound, width);
}

template <typename T>
static void fwd_typed(mk_stream *stream, const mk_swiglu_fwd_args *a) {
  if (mk_packs_fit<T>(a->y.dim[1], mk_address(&a->x) | mk_address(&a->y))) {
    fwd_launch<T, 16 / sizeof(T)>(stream, a);
  } else {
    fwd_launch<T, 1>(stream, a);
  }
}

template <typename T>
static void bwd_typed(mk_stream *stream, const mk_swiglu_bwd_args *a) {
  if (mk_packs_fit<T>(a->dy.dim[1], mk_address(&a->dy) | mk_address(&a->x) | mk_address(&a->dx))) {
    bwd_launch<T, 16 / sizeof(T)>(stream, a);
  } else {
    bwd_launch<T, 1>(stream, a);
  }
}

mk_status mk_swiglu_fwd_cuda(mk_stream *stream, const void *args) {
  const mk_swiglu_fwd_args *a = static_cast<const mk_swiglu_fwd_args *>(args);
  MK_TRY(stream->dev->ctx, mk_cuda_check_float(stream, MK_OP_swiglu_fwd, a->y.dtype));
  if (mk_tensor_count(&a->y) == 0) return MK_OK;
  if (a->y.dtype == MK_BF16) {
    fwd_typed<__nv_bfloat16>(stream, a);
  } else {
    fwd_typed<float>(stream, a);
  }
  MK_CUDA_LAUNCHED(stream);
  return MK_OK;
}

mk_status mk_swiglu_bwd_cuda(mk_stream *stream, const void *args) {
  const mk_swiglu_bwd_args *a = static_cast<const mk_swiglu_bwd_args *>(args);
  MK_TRY(stream->dev->ctx, mk_cuda_check_float(stream, MK_OP_swiglu_bwd, a->dy.dtype));
  if (mk_tensor_count(&a->dy) == 0) return MK_OK;
  if (a->dy.dtype == MK_BF16) {
    bwd_typed<__nv_bfloat16>(stream, a);
  } else {
    bwd_typed<float>(stream, a);
  }
  MK_CUDA_LAUNCHED(stream);
  return MK_OK;
}

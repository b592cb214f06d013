/* RMSNorm on the GPU: a block works on a row at a time, 16 bytes a thread where rows allow it; the second loop over a
 * row finds it in the first-level cache.
 *
 * Backward sums the gain's gradient in two passes without atomics: each of a fixed number of blocks takes a fixed range
 * of rows and keeps one partial sum a column (in shared memory, always added to by the same thread); then the partial
 * sums of a column are added in the order of the blocks. The bits depend on the shape only. Bytes: those of dy, x and
 * dx, and 8 * blocks * width for the partial sums. */
#include "kernels/device/cuda/cuda_kernel.cuh"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/rmsnorm/rmsnorm.h"

enum {
  THREADS_MAX = 512,
  GRID_MAX = 1 << 20,                   /* blocks of forward; more rows than that are walked */
  BLOCKS_MAX = 512,                     /* of backward: four a multiprocessor on an H100 */
  SHARED_BYTES_MAX = (48 << 10) - 1024, /* dynamic part of the 48 KiB without opt-in; mk_block_sum has a static one */
  SUM_COLS = 32,
  SUM_SLICES = 16
};

/* Typed pointers of one call; optional ones are null. T: rows, G: gain. */
template <typename T, typename G>
struct fwd_view {
  const T *x, *branch, *add;
  const G *gain;
  T *sum, *y;
  float *rstd;
  int64_t rows, width;
  float eps;
};

template <typename T, typename G>
struct bwd_view {
  const T *dy, *x, *add;
  const G *gain;
  const float *rstd;
  T *dx;
  float *partial; /* [blocks, width] */
  int64_t rows, width, rows_per_block;
  bool shared; /* partial sums of the running block in shared memory */
};

/* ---- forward ---- */

/* Every thread reads the elements it has written itself, so aliases need no barrier. */
template <typename T, typename G, int N>
static __global__ void __launch_bounds__(THREADS_MAX) fwd_kernel(fwd_view<T, G> v) {
  for (int64_t row = blockIdx.x; row < v.rows; row += gridDim.x) {
    int64_t first = row * v.width;
    float squares = 0;
    for (int64_t d = threadIdx.x * (int64_t)N; d < v.width; d += blockDim.x * (int64_t)N) {
      mk_floats<N> u = mk_load<N>(v.x + first + d);
      if (v.branch != nullptr) {
        mk_floats<N> b = mk_load<N>(v.branch + first + d);
#pragma unroll
        for (int i = 0; i < N; i++)
          u.at[i] = mk_round<T>(u.at[i] + b.at[i]);
        mk_store<N>(v.sum + first + d, u);
      }
#pragma unroll
      for (int i = 0; i < N; i++)
        squares += u.at[i] * u.at[i];
    }
    float rstd = rsqrtf(mk_block_sum(squares) / (float)v.width + v.eps);
    if (threadIdx.x == 0) v.rstd[row] = rstd;
    const T *source = v.branch != nullptr ? v.sum : v.x;
    for (int64_t d = threadIdx.x * (int64_t)N; d < v.width; d += blockDim.x * (int64_t)N) {
      mk_floats<N> u = mk_load<N>(source + first + d), gain = mk_load<N>(v.gain + d), y;
#pragma unroll
      for (int i = 0; i < N; i++)
        y.at[i] = u.at[i] * rstd * gain.at[i];
      if (v.add != nullptr) {
        mk_floats<N> add = mk_load<N>(v.add + first + d);
#pragma unroll
        for (int i = 0; i < N; i++)
          y.at[i] = mk_round<T>(y.at[i]) + add.at[i];
      }
      mk_store<N>(v.y + first + d, y);
    }
  }
}

template <typename T, typename G>
static void fwd_launch(mk_stream *stream, const mk_rmsnorm_fwd_args *a) {
  fwd_view<T, G> v;
  v.x = static_cast<const T *>(a->x.data);
  v.branch = static_cast<const T *>(a->branch.data);
  v.sum = static_cast<T *>(a->sum.data);
  v.gain = static_cast<const G *>(a->gain.data);
  v.add = static_cast<const T *>(a->add.data);
  v.y = static_cast<T *>(a->y.data);
  v.rstd = static_cast<float *>(a->rstd.data);
  v.rows = a->x.dim[0];
  v.width = a->x.dim[1];
  v.eps = a->eps;
  uintptr_t used = mk_address(&a->x) | mk_address(&a->branch) | mk_address(&a->sum) | mk_address(&a->gain) |
                   mk_address(&a->add) | mk_address(&a->y);
  unsigned grid = static_cast<unsigned>(mk_least(v.rows, GRID_MAX));
  cudaStream_t native = mk_cuda_stream_of(stream)->native;
  constexpr int pack = 16 / sizeof(T);
  if (mk_packs_fit<T>(v.width, used)) {
    fwd_kernel<T, G, pack><<<grid, mk_block_threads(v.width / pack, THREADS_MAX), 0, native>>>(v);
  } else {
    fwd_kernel<T, G, 1><<<grid, mk_block_threads(v.width, THREADS_MAX), 0, native>>>(v);
  }
}

mk_status mk_rmsnorm_fwd_cuda(mk_stream *stream, const void *args) {
  const mk_rmsnorm_fwd_args *a = static_cast<const mk_rmsnorm_fwd_args *>(args);
  MK_TRY(stream->dev->ctx, mk_cuda_check_float(stream, MK_OP_rmsnorm_fwd, a->x.dtype));
  MK_TRY(stream->dev->ctx, mk_cuda_check_float(stream, MK_OP_rmsnorm_fwd, a->gain.dtype));
  MK_TRY(stream->dev->ctx, mk_cuda_check_float(stream, MK_OP_rmsnorm_fwd, a->rstd.dtype));
  if (a->x.dim[0] == 0) return MK_OK;
  bool bf16 = a->x.dtype == MK_BF16, gain_bf16 = a->gain.dtype == MK_BF16;
  if (bf16 && gain_bf16) {
    fwd_launch<__nv_bfloat16, __nv_bfloat16>(stream, a);
  } else if (bf16) {
    fwd_launch<__nv_bfloat16, float>(stream, a);
  } else if (gain_bf16) {
    fwd_launch<float, __nv_bfloat16>(stream, a);
  } else {
    fwd_launch<float, float>(stream, a);
  }
  MK_CUDA_LAUNCHED(stream);
  return MK_OK;
}

/* ---- backward ---- */

/* Adds dy * n of the row's elements to the sums of their columns; returns this thread's part of sum(g * n). */
template <typename T, typename G, int N>
__device__ __forceinline__ float bwd_dot(const bwd_view<T, G> &v, int64_t first, float rstd, float *sums) {
  float dot = 0;
  for (int64_t d = threadIdx.x * (int64_t)N; d < v.width; d += blockDim.x * (int64_t)N) {
    mk_floats<N> dy = mk_load<N>(v.dy + first + d), x = mk_load<N>(v.x + first + d), gain = mk_load<N>(v.gain + d);
    mk_floats<N> sum = mk_load<N>(sums + d);
#pragma unroll
    for (int i = 0; i < N; i++) {
      float scaled = dy.at[i] * (x.at[i] * rstd);
      sum.at[i] += scaled;
      dot += scaled * gain.at[i];
    }
    mk_store<N>(sums + d, sum);
  }
  return dot;
}

template <typename T, typename G, int N>
__device__ __forceinline__ void bwd_row(const bwd_view<T, G> &v, int64_t first, float rstd, float mean) {
  for (int64_t d = threadIdx.x * (int64_t)N; d < v.width; d += blockDim.x * (int64_t)N) {
    mk_floats<N> dy = mk_load<N>(v.dy + first + d), x = mk_load<N>(v.x + first + d), gain = mk_load<N>(v.gain + d), dx;
#pragma unroll
    for (int i = 0; i < N; i++)
      dx.at[i] = rstd * (dy.at[i] * gain.at[i] - x.at[i] * rstd * mean);
    if (v.add != nullptr) {
      mk_floats<N> add = mk_load<N>(v.add + first + d);
#pragma unroll
      for (int i = 0; i < N; i++)
        dx.at[i] += add.at[i];
    }
    mk_store<N>(v.dx + first + d, dx);
  }
}

/* A column's sum belongs to one thread throughout, so the sums need no barrier. */
template <typename T, typename G, int N>
static __global__ void __launch_bounds__(THREADS_MAX) bwd_kernel(bwd_view<T, G> v) {
  extern __shared__ __align__(16) float in_shared[];
  float *out = v.partial + blockIdx.x * v.width, *sums = v.shared ? in_shared : out;
  int64_t begin = blockIdx.x * v.rows_per_block, end = begin + v.rows_per_block;
  for (int64_t d = threadIdx.x * (int64_t)N; d < v.width; d += blockDim.x * (int64_t)N)
    mk_store<N>(sums + d, mk_floats<N>{});
  for (int64_t row = begin; row < end && row < v.rows; row++) {
    int64_t first = row * v.width;
    float rstd = v.rstd[row];
    float mean = mk_block_sum(bwd_dot<T, G, N>(v, first, rstd, sums)) / (float)v.width;
    bwd_row<T, G, N>(v, first, rstd, mean);
  }
  if (!v.shared) return;
  for (int64_t d = threadIdx.x * (int64_t)N; d < v.width; d += blockDim.x * (int64_t)N)
    mk_store<N>(out + d, mk_load<N>(sums + d));
}

/* dgain[d] += the partial sums of column d: slices of consecutive blocks side by side, then the slices in order. */
static __global__ void __launch_bounds__(SUM_COLS *SUM_SLICES)
    dgain_kernel(const float *partial, int64_t blocks, int64_t width, float *dgain) {
  __shared__ float of_slice[SUM_SLICES][SUM_COLS];
  int64_t d = blockIdx.x * (int64_t)SUM_COLS + threadIdx.x, slice = threadIdx.y;
  float sum = 0;
  for (int64_t b = blocks * slice / SUM_SLICES; b < blocks * (slice + 1) / SUM_SLICES && d < width; b++)
    sum += partial[b * width + d];
  of_slice[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || d >= width) return;
  float total = dgain[d];
  for (int i = 0; i < SUM_SLICES; i++)
    total += of_slice[i][threadIdx.x];
  dgain[d] = total;
}

template <typename T, typename G>
static void bwd_launch(mk_stream *stream, const mk_rmsnorm_bwd_args *a, int64_t most_blocks) {
  mk_cuda_stream *own = mk_cuda_stream_of(stream);
  bwd_view<T, G> v;
  v.dy = static_cast<const T *>(a->dy.data);
  v.x = static_cast<const T *>(a->x.data);
  v.gain = static_cast<const G *>(a->gain.data);
  v.rstd = static_cast<const float *>(a->rstd.data);
  v.add = static_cast<const T *>(a->add.data);
  v.dx = static_cast<T *>(a->dx.data);
  v.partial = static_cast<float *>(own->scratch);
  v.rows = a->dy.dim[0];
  v.width = a->dy.dim[1];
  v.rows_per_block = mk_ceil_div(v.rows, most_blocks);
  int64_t blocks = mk_ceil_div(v.rows, v.rows_per_block), bytes = v.width * (int64_t)sizeof(float);
  v.shared = bytes <= SHARED_BYTES_MAX;
  size_t shared = v.shared ? static_cast<size_t>(bytes) : 0;
  unsigned grid = static_cast<unsigned>(blocks);
  uintptr_t used =
      mk_address(&a->dy) | mk_address(&a->x) | mk_address(&a->gain) | mk_address(&a->add) | mk_address(&a->dx);
  constexpr int pack = 16 / sizeof(T);
  if (mk_packs_fit<T>(v.width, used)) {
    bwd_kernel<T, G, pack><<<grid, mk_block_threads(v.width / pack, THREADS_MAX), shared, own->native>>>(v);
  } else {
    bwd_kernel<T, G, 1><<<grid, mk_block_threads(v.width, THREADS_MAX), shared, own->native>>>(v);
  }
  unsigned tiles = static_cast<unsigned>(mk_ceil_div(v.width, SUM_COLS));
  dgain_kernel<<<tiles, dim3(SUM_COLS, SUM_SLICES), 0, own->native>>>(v.partial, blocks, v.width,
                                                                      static_cast<float *>(a->dgain.data));
}

/* As many blocks as the partial sums have room for. */
static mk_status count_blocks(mk_stream *stream, int64_t rows, int64_t width, int64_t *out) {
  int64_t fit = MK_CUDA_SCRATCH_BYTES / static_cast<int64_t>(sizeof(float)) / width;
  MK_CHECK(stream->dev->ctx, fit > 0, MK_ERR_UNSUPPORTED, "rmsnorm_bwd: rows of %lld do not fit the cuda kernel",
           static_cast<long long>(width));
  *out = mk_least(fit, mk_least(rows, BLOCKS_MAX));
  return MK_OK;
}

mk_status mk_rmsnorm_bwd_cuda(mk_stream *stream, const void *args) {
  const mk_rmsnorm_bwd_args *a = static_cast<const mk_rmsnorm_bwd_args *>(args);
  int64_t blocks = 0;
  MK_TRY(stream->dev->ctx, mk_cuda_check_float(stream, MK_OP_rmsnorm_bwd, a->dy.dtype));
  MK_TRY(stream->dev->ctx, mk_cuda_check_float(stream, MK_OP_rmsnorm_bwd, a->gain.dtype));
  MK_TRY(stream->dev->ctx, mk_cuda_check_float(stream, MK_OP_rmsnorm_bwd, a->rstd.dtype));
  MK_TRY(stream->dev->ctx, mk_cuda_check_float(stream, MK_OP_rmsnorm_bwd, a->dgain.dtype));
  if (mk_tensor_count(&a->dy) == 0) return MK_OK;
  MK_TRY(stream->dev->ctx, count_blocks(stream, a->dy.dim[0], a->dy.dim[1], &blocks));
  bool bf16 = a->dy.dtype == MK_BF16, gain_bf16 = a->gain.dtype == MK_BF16;
  if (bf16 && gain_bf16) {
    bwd_launch<__nv_bfloat16, __nv_bfloat16>(stream, a, blocks);
  } else if (bf16) {
    bwd_launch<__nv_bfloat16, float>(stream, a, blocks);
  } else if (gain_bf16) {
    bwd_launch<float, __nv_bfloat16>(stream, a, blocks);
  } else {
    bwd_launch<float, float>(stream, a, blocks);
  }
  MK_CUDA_LAUNCHED(stream);
  return MK_OK;
}

/* Products of any mix of f32 and bf16. cuBLAS takes pairs of one dtype, and rounds to bf16 only what was bf16; other
 * mixes go through the stream's scratch in pieces: the bf16 operand of a mixed pair is widened, an output that cuBLAS
 * cannot round is made in f32 and rounded afterwards. Pieces cut rows or columns of the output, never the sum, so the
 * bits do not depend on the size of the scratch. */
#include "kernels/device/cuda/cuda_blas.h"
#include "kernels/device/cuda/cuda_kernel.cuh"

enum { TILE_COLS = 32, TILE_ROWS = 8, GRID_ROWS_MAX = 65535, PIECE_MULTIPLE = 128 };

static __global__ void widen_block(const __nv_bfloat16 *from, int64_t from_ld, float *to, int64_t rows, int64_t cols) {
  int64_t col = blockIdx.x * (int64_t)TILE_COLS + threadIdx.x;
  if (col >= cols) return;
  for (int64_t row = blockIdx.y * (int64_t)TILE_ROWS + threadIdx.y; row < rows; row += gridDim.y * (int64_t)TILE_ROWS)
    to[row * cols + col] = mk_widen(from[row * from_ld + col]);
}

static __global__ void round_block(const float *from, const __nv_bfloat16 *add, __nv_bfloat16 *to, int64_t to_ld,
                                   int64_t rows, int64_t cols) {
  int64_t col = blockIdx.x * (int64_t)TILE_COLS + threadIdx.x;
  if (col >= cols) return;
  for (int64_t row = blockIdx.y * (int64_t)TILE_ROWS + threadIdx.y; row < rows; row += gridDim.y * (int64_t)TILE_ROWS) {
    float x = from[row * cols + col];
    if (add != nullptr) x += mk_widen(add[row * to_ld + col]);
    to[row * to_ld + col] = mk_narrow<__nv_bfloat16>(x);
  }
}

static dim3 grid_of(int64_t rows, int64_t cols) {
  return dim3(static_cast<unsigned>(mk_ceil_div(cols, TILE_COLS)),
              static_cast<unsigned>(mk_least(mk_ceil_div(rows, TILE_ROWS), GRID_ROWS_MAX)));
}

/* The operand's part [first, first + extent); where that is widened, in `wide`, which moves past it. */
static mk_cuda_operand part_of(mk_stream *stream, const mk_cuda_operand *whole, int64_t first, int64_t extent,
                               int64_t reduce, bool is_widened, float **wide) {
  mk_cuda_operand part = *whole;
  int64_t offset = whole->reduce_first ? first : first * whole->ld;
  part.data = static_cast<const char *>(whole->data) + offset * static_cast<int64_t>(mk_dtype_bytes(whole->dtype));
  if (!is_widened) return part;
  int64_t rows = whole->reduce_first ? reduce : extent, cols = whole->reduce_first ? extent : reduce;
  widen_block<<<grid_of(rows, cols), dim3(TILE_COLS, TILE_ROWS), 0, mk_cuda_stream_of(stream)->native>>>(
      static_cast<const __nv_bfloat16 *>(part.data), whole->ld, *wide, rows, cols);
  part.data = *wide;
  part.dtype = MK_F32;
  part.ld = cols;
  *wide += rows * cols;
  return part;
}

/* One piece: `at` is the first row, or the first column with by_cols. */
static mk_status run_piece(mk_stream *stream, const mk_cuda_gemm *g, bool by_cols, int64_t at, int64_t extent,
                           bool is_rounded) {
  float *scratch = static_cast<float *>(mk_cuda_stream_of(stream)->scratch);
  bool mixed = g->left.dtype != g->right.dtype;
  mk_cuda_gemm p = *g;
  p.rows = by_cols ? g->rows : extent;
  p.cols = by_cols ? extent : g->cols;
  p.left = part_of(stream, &g->left, by_cols ? 0 : at, p.rows, g->reduce, mixed && g->left.dtype == MK_BF16, &scratch);
  p.right =
      part_of(stream, &g->right, by_cols ? at : 0, p.cols, g->reduce, mixed && g->right.dtype == MK_BF16, &scratch);
  int64_t bytes = (by_cols ? at : at * g->out_ld) * static_cast<int64_t>(mk_dtype_bytes(g->out_dtype));
  void *out = static_cast<char *>(g->out) + bytes;
  const void *add = g->add != nullptr ? static_cast<const char *>(g->add) + bytes : nullptr;
  p.out = is_rounded ? scratch : out;
  p.add = is_rounded ? nullptr : add;
  if (is_rounded) {
    p.out_dtype = MK_F32;
    p.out_ld = p.cols;
  }
  MK_CUDA_LAUNCHED(stream);
  MK_TRY(stream->dev->ctx, mk_cuda_blas_gemm(stream, &p));
  if (!is_rounded) return MK_OK;
  round_block<<<grid_of(p.rows, p.cols), dim3(TILE_COLS, TILE_ROWS), 0, mk_cuda_stream_of(stream)->native>>>(
      scratch, static_cast<const __nv_bfloat16 *>(add), static_cast<__nv_bfloat16 *>(out), g->out_ld, p.rows, p.cols);
  MK_CUDA_LAUNCHED(stream);
  return MK_OK;
}

static mk_status run_pieces(mk_stream *stream, const mk_cuda_gemm *g, bool is_rounded) {
  bool mixed = g->left.dtype != g->right.dtype, by_cols = mixed && g->right.dtype == MK_BF16;
  int64_t extent = by_cols ? g->cols : g->rows, other = by_cols ? g->rows : g->cols;
  int64_t floats = (mixed ? g->reduce : 0) + (is_rounded ? other : 0);
  int64_t piece = MK_CUDA_SCRATCH_BYTES / static_cast<int64_t>(sizeof(float)) / floats;
  MK_CHECK(stream->dev->ctx, piece > 0, MK_ERR_UNSUPPORTED,
           "a product of %lldx%lldx%lld in mixed dtypes does not fit the %d bytes of scratch",
           static_cast<long long>(g->rows), static_cast<long long>(g->cols), static_cast<long long>(g->reduce),
           static_cast<int>(MK_CUDA_SCRATCH_BYTES));
  if (piece > PIECE_MULTIPLE) piece -= piece % PIECE_MULTIPLE;
  for (int64_t at = 0; at < extent; at += piece) {
    MK_TRY(stream->dev->ctx, run_piece(stream, g, by_cols, at, mk_least(piece, extent - at), is_rounded));
  }
  return MK_OK;
}

/* A sum of nothing: the addend, or zero. */
static mk_status run_empty(mk_stream *stream, const mk_cuda_gemm *g) {
  size_t bytes = mk_dtype_bytes(g->out_dtype), ld = static_cast<size_t>(g->out_ld) * bytes;
  size_t width = static_cast<size_t>(g->cols) * bytes, rows = static_cast<size_t>(g->rows);
  cudaStream_t native = mk_cuda_stream_of(stream)->native;
  if (g->add == g->out) return MK_OK;
  if (g->add == nullptr) {
    MK_CUDA(stream->dev->ctx, cudaMemset2DAsync(g->out, ld, 0, width, rows, native));
  } else {
    MK_CUDA(stream->dev->ctx, cudaMemcpy2DAsync(g->out, ld, g->add, ld, width, rows, cudaMemcpyDeviceToDevice, native));
  }
  return MK_OK;
}

mk_status mk_cuda_gemm_run(mk_stream *stream, const mk_cuda_gemm *g) {
  bool both_bf16 = g->left.dtype == MK_BF16 && g->right.dtype == MK_BF16;
  bool is_rounded = g->out_dtype == MK_BF16 && !both_bf16;
  if (g->rows == 0 || g->cols == 0) return MK_OK;
  if (g->reduce == 0) return run_empty(stream, g);
  if (g->left.dtype == g->right.dtype && !is_rounded) return mk_cuda_blas_gemm(stream, g);
  return run_pieces(stream, g, is_rounded);
}

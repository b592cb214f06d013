/* What the kernels share: elements as floats, 16-byte packs, sums over a block. Device code, so .cu files only. */
#ifndef KERNELS_DEVICE_CUDA_CUDA_KERNEL_CUH
#define KERNELS_DEVICE_CUDA_CUDA_KERNEL_CUH

#include <cuda_bf16.h>

#include "kernels/device/cuda/cuda_device.h"

/* ---- elements ---- */

__device__ __forceinline__ float mk_widen(float x) { return x; }
__device__ __forceinline__ float mk_widen(__nv_bfloat16 x) { return __bfloat162float(x); }

/* Round to nearest even, as mk_f32_to_bf16. */
template <typename T>
__device__ __forceinline__ T mk_narrow(float x);
template <>
__device__ __forceinline__ float mk_narrow<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __nv_bfloat16 mk_narrow<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

/* N elements as stored; the alignment makes loads and stores of 16 bytes of them. */
template <typename T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) mk_pack {
  T at[N];
};

template <int N>
struct mk_floats {
  float at[N];
};

template <int N, typename T>
__device__ __forceinline__ mk_floats<N> mk_load(const T *from) {
  mk_pack<T, N> pack = *reinterpret_cast<const mk_pack<T, N> *>(from);
  mk_floats<N> out;
#pragma unroll
  for (int i = 0; i < N; i++)
    out.at[i] = mk_widen(pack.at[i]);
  return out;
}

template <int N, typename T>
__device__ __forceinline__ void mk_store(T *to, const mk_floats<N> &values) {
  mk_pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; i++)
    pack.at[i] = mk_narrow<T>(values.at[i]);
  *reinterpret_cast<mk_pack<T, N> *>(to) = pack;
}

/* What `x` is once stored as T. */
template <typename T>
__device__ __forceinline__ float mk_round(float x) {
  return mk_widen(mk_narrow<T>(x));
}

/* ---- blocks ---- */

enum { MK_WARP = 32, MK_MAX_WARPS = 32 };

__device__ __forceinline__ float mk_warp_sum(float x) {
#pragma unroll
  for (int step = MK_WARP / 2; step > 0; step /= 2)
    x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

/* Sum over a one-dimensional block of whole warps, the same bits in every thread and every run. */
__device__ __forceinline__ float mk_block_sum(float x) {
  __shared__ float of_warp[MK_MAX_WARPS];
  int lane = threadIdx.x % MK_WARP, warp = threadIdx.x / MK_WARP, warps = blockDim.x / MK_WARP;
  x = mk_warp_sum(x);
  __syncthreads(); /* the sum before this one has been read */
  if (lane == 0) of_warp[warp] = x;
  __syncthreads();
  return mk_warp_sum(lane < warps ? of_warp[lane] : 0.0f);
}

/* ---- host side ---- */

/* May rows of `width` elements of T be read in packs of 16 bytes? ORs together what must be aligned. */
template <typename T>
static inline bool mk_packs_fit(int64_t width, uintptr_t addresses) {
  return width % (16 / (int64_t)sizeof(T)) == 0 && addresses % 16 == 0;
}

static inline uintptr_t mk_address(const mk_tensor *t) { return reinterpret_cast<uintptr_t>(t->data); }

static inline int64_t mk_least(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t mk_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Threads of a block that walks `items`: whole warps, at most `most`. */
static inline int mk_block_threads(int64_t items, int most) {
  int64_t warps = items > 0 ? mk_ceil_div(items, MK_WARP) : 1;
  return static_cast<int>(mk_least(warps * MK_WARP, most));
}

#endif

/* Addresses of the peers' parts of an NCCL window. NCCL tells them to device code only (nccl_device.h), so a kernel
 * writes the table once, when the window is made. Ranks that loads and stores reach are consecutive (the "LSA team").
 */
#include <nccl_device.h>
#include <string.h>

#include "kernels/device/cuda/cuda_device.h"
#include "trainer/comm/comm_nccl.h"

enum { THREADS = 128 };

static __global__ void peers_kernel(ncclWindow_t window, int first, int n, void **out) {
  int i = blockIdx.x * THREADS + threadIdx.x;
  if (i < n) out[i] = ncclGetPeerPointer(window, 0, first + i);
}

/* Host memory that the kernel writes. */
static mk_status look_up(mk_context *ctx, ncclWindow_t window, int first, int n, void **out) {
  void **table = nullptr;
  MK_CUDA(ctx, cudaMallocHost(&table, sizeof(void *) * static_cast<size_t>(n)));
  peers_kernel<<<(n + THREADS - 1) / THREADS, THREADS>>>(window, first, n, table);
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaStreamSynchronize(cudaStreamLegacy);
  for (int i = 0; i < n && error == cudaSuccess; i++)
    out[first + i] = table[i];
  cudaFreeHost(table);
  MK_CUDA(ctx, error);
  return MK_OK;
}

static mk_status map_window(mk_context *ctx, ncclComm_t native, ncclWindow_t window, mt_window *w) {
  MK_CUDA(ctx, cudaMemset(w->base, 0, w->bytes));
  MK_CUDA(ctx, cudaStreamSynchronize(cudaStreamLegacy));
  if (window != nullptr) {
    ncclTeam_t reached = ncclTeamLsa(native);
    MK_TRY(ctx, look_up(ctx, window, w->comm->rank - reached.rank, reached.nRanks, w->peer_base));
  }
  w->peer_base[w->comm->rank] = w->base;
  return MK_OK;
}

mk_status mt_comm_nccl_create(mk_context *ctx, mt_comm *bootstrap, mk_device *dev, mt_comm **out) {
  MK_CHECK(ctx, strcmp(dev->ops->name, "cuda") == 0, MK_ERR_UNSUPPORTED,
           "NCCL joins GPUs, but this rank's device is %s: use MPI", dev->ops->name);
  MK_TRY(ctx, mt_nccl_open(ctx, bootstrap, dev, map_window, out));
  return MK_OK;
}

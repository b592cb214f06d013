/* The op table of cuda: a line for each kernel that exists; the rest is NULL and refused at launch with its name. */
#include "kernels/device/cuda/cuda_device.h"
#include "kernels/ops/op_decls.h"

static const mk_op_fn table[MK_OP_COUNT] = {
    [MK_OP_rmsnorm_fwd] = mk_rmsnorm_fwd_cuda,   [MK_OP_rmsnorm_bwd] = mk_rmsnorm_bwd_cuda,
    [MK_OP_linear_pack] = mk_linear_pack_cuda,   [MK_OP_linear_fwd] = mk_linear_fwd_cuda,
    [MK_OP_linear_dgrad] = mk_linear_dgrad_cuda, [MK_OP_linear_wgrad] = mk_linear_wgrad_cuda,
    [MK_OP_swiglu_fwd] = mk_swiglu_fwd_cuda,     [MK_OP_swiglu_bwd] = mk_swiglu_bwd_cuda,
};

const mk_op_fn *mk_cuda_op_table(void) { return table; }

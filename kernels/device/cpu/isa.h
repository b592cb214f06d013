/* What the processor can do, and the GEMM kernel that follows from it. */
#ifndef KERNELS_DEVICE_CPU_ISA_H
#define KERNELS_DEVICE_CPU_ISA_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The best instruction set of this processor that matters here: "amx_bf16", "avx512_bf16", "avx512", "avx2", "sse2". */
const char *mk_cpu_isa_name(void);

/* AUTO resolved by CPU feature, never by timing: native on amx_bf16 and on AMD with avx512_bf16, unless
 * ONEDNN_MAX_CPU_ISA forbids oneDNN these instructions; else widened. An explicit choice is kept. */
mk_kernel mk_cpu_choose_kernel(mk_kernel wanted);

const char *mk_kernel_name(mk_kernel kernel);

/* oneDNN's version, e.g. "2.6.3". Returns text. Defined in gemm.c. */
const char *mk_cpu_library_version(char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif

/* Processor features come from cpuid through the compiler; whether oneDNN uses them, from oneDNN (gemm.h). */
#include "kernels/device/cpu/isa.h"

#include "kernels/device/cpu/gemm.h"

const char *mk_cpu_isa_name(void) {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("amx-bf16")) return "amx_bf16";
  if (__builtin_cpu_supports("avx512bf16")) return "avx512_bf16";
  if (__builtin_cpu_supports("x86-64-v4")) return "avx512";
  if (__builtin_cpu_supports("x86-64-v3")) return "avx2";
  return "sse2";
}

/* A BF16 unit alone is no reason. Intel processors with avx512_bf16 but without AMX run oneDNN's BF16 matmul at 0.5 to
 * 0.7 of its FP32 rate (oneDNN 2.6.3, family 6 model 207), so that the widened kernel is the faster one; AMD (Zen 5)
 * runs it at 1.7 to 2.2 times the FP32 rate. `bench_ops gemm` prints both kernels on the machine at hand. */
static bool has_fast_bf16(void) {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("amx-bf16") && mk_cpu_gemm_may_use(MK_GEMM_ISA_AMX)) return true;
  bool amd = __builtin_cpu_is("amd") && __builtin_cpu_supports("avx512bf16");
  return amd && mk_cpu_gemm_may_use(MK_GEMM_ISA_BF16);
}

mk_kernel mk_cpu_choose_kernel(mk_kernel wanted) {
  if (wanted != MK_KERNEL_AUTO) return wanted;
  return has_fast_bf16() ? MK_KERNEL_NATIVE : MK_KERNEL_WIDENED;
}

const char *mk_kernel_name(mk_kernel kernel) {
  switch (kernel) {
    case MK_KERNEL_NATIVE:
      return "native";
    case MK_KERNEL_WIDENED:
      return "widened";
    default:
      return "auto";
  }
}

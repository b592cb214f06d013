/* Processor features come from cpuid through the compiler; whether oneDNN uses them, from oneDNN. */
#include "kernels/device/cpu/isa.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>

const char *mk_cpu_isa_name(void) {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("amx-bf16")) return "amx_bf16";
  if (__builtin_cpu_supports("avx512bf16")) return "avx512_bf16";
  if (__builtin_cpu_supports("x86-64-v4")) return "avx512";
  if (__builtin_cpu_supports("x86-64-v3")) return "avx2";
  return "sse2";
}

bool mk_cpu_has_bf16(void) {
  __builtin_cpu_init();
  bool processor = __builtin_cpu_supports("amx-bf16") || __builtin_cpu_supports("avx512bf16");
  unsigned wanted = dnnl_cpu_isa_avx512_core_bf16; /* a bit mask: each set contains those below it */
  return processor && ((unsigned)dnnl_get_effective_cpu_isa() & wanted) == wanted;
}

mk_kernel mk_cpu_choose_kernel(mk_kernel wanted) {
  if (wanted != MK_KERNEL_AUTO) return wanted;
  return mk_cpu_has_bf16() ? MK_KERNEL_NATIVE : MK_KERNEL_WIDENED;
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

const char *mk_cpu_library_version(char *text, size_t bytes) {
  const dnnl_version_t *version = dnnl_version();
  snprintf(text, bytes, "%d.%d.%d", version->major, version->minor, version->patch);
  return text;
}

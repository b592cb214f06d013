/* What this machine can do with the threads of one rank: GEMM rates and memory bandwidth, measured with the kernels
 * that training uses. They are the denominators of MFU and the roofline of profile mode. */
#ifndef TRAINER_LAUNCH_PEAKS_H
#define TRAINER_LAUNCH_PEAKS_H

#include "trainer/launch/config.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mt_peaks {
  double gemm_fp32_flops;       /* FLOP/s of a large FP32 GEMM */
  double gemm_bf16_flops;       /* FLOP/s of the same GEMM on BF16 values, through the kernel below */
  double bandwidth_bytes_per_s; /* two streams read and one written, each larger than a last-level cache share */
  char kernel[32];              /* "native" or "widened" */
  int threads;
} mt_peaks;

/* Best of several short repeats on a device of its own with cfg's name, threads and kernel; below 3 s and 512 MiB. */
mk_status mt_peaks_measure(mk_context *ctx, const mt_config *cfg, mt_peaks *out);

/* The roofline for a precision. Elementwise work is bounded by the FP32 GEMM rate: no code multiplies and adds faster.
 */
mk_roofline mt_peaks_roofline(const mt_peaks *peaks, mt_precision precision);

/* Measures and prints {"gemm_fp32_flops":..,"gemm_bf16_flops":..,"bandwidth_bytes_per_s":..,"kernel":..,"threads":..}.
 */
mk_status mt_peaks_print(mk_context *ctx, const mt_config *cfg);

#ifdef __cplusplus
}
#endif

#endif

/* RoPE's table (Su et al. 2021, arXiv 2104.09864): row per position, cos of hd/2 angles, then their sin. */
#include <math.h>

#include "kernels/ops/qk_norm_rope/qk_norm_rope.h"

void mk_rope_table(double *table, int64_t seq_len, int64_t head_dim, double theta) {
  int64_t half = head_dim / 2;
  for (int64_t i = 0; i < half; i++) {
    double frequency = pow(theta, -2.0 * (double)i / (double)head_dim);
    for (int64_t s = 0; s < seq_len; s++) {
      table[s * head_dim + i] = cos((double)s * frequency);
      table[s * head_dim + half + i] = sin((double)s * frequency);
    }
  }
}

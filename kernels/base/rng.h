/* Counter-based random numbers: a pure function of (seed, purpose, index), so that every backend and world size
 * draws the same values. Philox4x32-10, Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11. */
#ifndef KERNELS_BASE_RNG_H
#define KERNELS_BASE_RNG_H

#include <stdint.h>

/* Who draws. Never renumber: the values are part of what a seed means. */
typedef enum mk_rng_purpose {
  MK_RNG_INIT = 1,    /* parameter initialisation; sub = parameter id, index = element */
  MK_RNG_TOKENS = 2,  /* random tokens; index = global token */
  MK_RNG_ROUTER = 3,  /* random routing; sub = layer, index = (step, token, expert) folded */
  MK_RNG_SHUFFLE = 4, /* data order; sub = epoch */
  MK_RNG_TEST = 5,
  MK_RNG_DELAY = 6,  /* delays of the cpu_async test device */
  MK_RNG_LAUNCH = 7, /* order of the suite's launches; sub = block */
} mk_rng_purpose;

typedef struct mk_rng_block {
  uint32_t word[4];
} mk_rng_block;

/* Four 32-bit words for one counter value. */
static inline mk_rng_block mk_rng_draw(uint64_t seed, uint32_t purpose, uint32_t sub, uint64_t index) {
  uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = sub, c3 = purpose;
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0;
    uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
    uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  mk_rng_block block = {{c0, c1, c2, c3}};
  return block;
}

/* Uniform in [0, 1): the top 24 bits of one word, exact in FP32. */
static inline float mk_rng_unit(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }

#endif

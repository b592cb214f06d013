/* The draws of random routing: U[0,1) as a pure function of (seed, layer, step, token, expert), so that recomputation,
 * every backend and every world size see the same routing. Four experts share one generator block. */
#ifndef KERNELS_OPS_ROUTER_ROUTER_DRAW_H
#define KERNELS_OPS_ROUTER_ROUTER_DRAW_H

#include "kernels/base/rng.h"

/* Index bits: expert / 4 in 8 bits (E <= 1024), token of the step in 32, step in the rest. */
enum { MK_DRAW_EXPERTS = 4, MK_DRAW_EXPERT_BITS = 8, MK_DRAW_TOKEN_BITS = 32 };

/* Words of experts 4*block .. 4*block + 3 of one token; mk_rng_unit turns a word into the score. */
static inline mk_rng_block mk_router_draw(uint64_t seed, uint32_t layer, int64_t step, int64_t token, int64_t block) {
  uint64_t index = (uint64_t)step << (MK_DRAW_EXPERT_BITS + MK_DRAW_TOKEN_BITS);
  index |= (uint64_t)token << MK_DRAW_EXPERT_BITS | (uint64_t)block;
  return mk_rng_draw(seed, MK_RNG_ROUTER, layer, index);
}

#endif

/* Fisher-Yates inside each block. */
#include "suite/run/order.h"

#include "kernels/base/rng.h"

static void shuffle(ms_slot *slots, int count, uint64_t seed, int block) {
  for (int i = count - 1; i > 0; i--) {
    mk_rng_block draw = mk_rng_draw(seed, MK_RNG_LAUNCH, (uint32_t)block, (uint64_t)i);
    uint64_t word = (uint64_t)draw.word[0] << 32 | draw.word[1]; /* 64 bits: the modulo's bias is below 1e-15 */
    int j = (int)(word % (uint64_t)(i + 1));
    ms_slot keep = slots[i];
    slots[i] = slots[j];
    slots[j] = keep;
  }
}

static int by_case(const int64_t *launches, int n_cases, ms_slot *slots) {
  int used = 0;
  for (int c = 0; c < n_cases; c++) {
    for (int64_t i = 1; i <= launches[c]; i++)
      slots[used++] = (ms_slot){c, (int)i};
  }
  return used;
}

int ms_order_slots(const int64_t *launches, int n_cases, bool shuffled, uint64_t seed, ms_slot *slots) {
  if (!shuffled) return by_case(launches, n_cases, slots);
  int used = 0, first = -1;
  for (int block = 1; first != used; block++) {
    first = used;
    for (int c = 0; c < n_cases; c++) {
      if (launches[c] >= block) slots[used++] = (ms_slot){c, block};
    }
    shuffle(slots + first, used - first, seed, block);
  }
  return used;
}

/* Balanced Feistel network over 2h bits, the smallest even width that holds n, with cycle walking: a value that falls
 * outside [0, n) is sent through again, at most 4 times on average (Black and Rogaway, "Ciphers with arbitrary finite
 * domains", CT-RSA 2002). Round function: counter RNG. Six rounds. */
#include "trainer/data/shuffle.h"

#include "kernels/base/rng.h"

enum { ROUNDS = 6 };

int64_t mt_shuffle(uint64_t seed, uint32_t epoch, int64_t n, int64_t index) {
  int half = 1;
  while ((1ll << (2 * half)) < n)
    half++;
  uint64_t mask = (1ull << half) - 1, value = (uint64_t)index;
  do {
    uint64_t left = value >> half, right = value & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
      uint64_t mixed = left ^ (mk_rng_draw(seed, MK_RNG_SHUFFLE, epoch, round << 32 | right).word[0] & mask);
      left = right;
      right = mixed;
    }
    value = left << half | right;
  } while (value >= (uint64_t)n);
  return (int64_t)value;
}

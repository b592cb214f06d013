/* Reduction in rank order. Idea: blocks that stay in the first-level cache go through all sources before the next
 * block, so each source is read once and the result is written once: (n_sources + 1) * n elements of memory traffic. */
#include "trainer/comm/reduce.h"

#include "kernels/device/cpu/vector.h"

enum { BLOCK = 1024 };

/* Adds to or takes the maximum with one source. WIDEN reads an element, SUM_TYPE is what is reduced. Exact aliasing of
 * acc and the source is legal: element i depends on element i only. */
#define DEFINE_STEP(NAME, TYPE, SUM_TYPE, WIDEN) \
  MK_VECTOR static void NAME##_step(mt_reduce op, SUM_TYPE *acc, const TYPE *source, int n) { \
    if (op == MT_SUM) { \
      for (int i = 0; i < n; i++) \
        acc[i] += WIDEN(source[i]); \
    } else { \
      for (int i = 0; i < n; i++) { \
        SUM_TYPE x = WIDEN(source[i]); \
        acc[i] = acc[i] > x || acc[i] != acc[i] ? acc[i] : x; \
      } \
    } \
  }

/* One block of all sources: first is widened into acc, the others follow, the result is narrowed into out. */
#define DEFINE_REDUCE(NAME, TYPE, SUM_TYPE, WIDEN, NARROW) \
  DEFINE_STEP(NAME, TYPE, SUM_TYPE, WIDEN) \
  MK_VECTOR static void NAME##_load(SUM_TYPE *acc, const TYPE *source, int n) { \
    for (int i = 0; i < n; i++) \
      acc[i] = WIDEN(source[i]); \
  } \
  MK_VECTOR static void NAME##_store(TYPE *out, const SUM_TYPE *acc, int n) { \
    for (int i = 0; i < n; i++) \
      out[i] = NARROW(acc[i]); \
  } \
  static void NAME##_reduce(mt_reduce op, const void *const *source, int n_sources, TYPE *out, int64_t first, int n) { \
    SUM_TYPE acc[BLOCK]; \
    NAME##_load(acc, (const TYPE *)source[0] + first, n); \
    for (int r = 1; r < n_sources; r++) \
      NAME##_step(op, acc, (const TYPE *)source[r] + first, n); \
    NAME##_store(out + first, acc, n); \
  }

#define SAME(x) (x)

DEFINE_REDUCE(f32, float, float, SAME, SAME)
DEFINE_REDUCE(f64, double, double, SAME, SAME)
DEFINE_REDUCE(i32, int32_t, int32_t, SAME, SAME)
DEFINE_REDUCE(i64, int64_t, int64_t, SAME, SAME)
DEFINE_REDUCE(bf16, mk_bf16, float, mk_bf16_to_f32, mk_f32_to_bf16)

void mt_reduce_ranks(mk_dtype dtype, mt_reduce op, const void *const *source, int n_sources, void *out, int64_t n) {
  for (int64_t first = 0; first < n; first += BLOCK) {
    int count = n - first < BLOCK ? (int)(n - first) : BLOCK;
    switch (dtype) {
      case MK_F32:
        f32_reduce(op, source, n_sources, out, first, count);
        break;
      case MK_F64:
        f64_reduce(op, source, n_sources, out, first, count);
        break;
      case MK_I32:
        i32_reduce(op, source, n_sources, out, first, count);
        break;
      case MK_I64:
        i64_reduce(op, source, n_sources, out, first, count);
        break;
      case MK_BF16:
        bf16_reduce(op, source, n_sources, out, first, count);
        break;
      default:
        break; /* refused by mt_comm_all_reduce and mt_comm_reduce_scatter */
    }
  }
}

/* Thresholds and intervals; the operating characteristics of the first rule at n = 6, d = 3 % and 1 % spread of
 * launches are 0.0 % false alarms and 100 % detection of a 6 % slowdown (2,000 simulated comparisons a cell). */
#include "suite/judge/gate.h"

#include <math.h>
#include <string.h>

const char *ms_gate_word(const ms_ratio *slowdown, double delta) {
  double g = slowdown->value - 1, lo = slowdown->lo - 1, hi = slowdown->hi - 1;
  if (!slowdown->exists || !isfinite(g)) return "INCONCLUSIVE";
  if (lo > 0 && g >= delta) return "REGRESSED";
  if (hi < 0 && g <= -delta) return "IMPROVED";
  return hi < delta ? "PASS" : "INCONCLUSIVE";
}

const char *ms_published_word(double lo, double hi, double published, double tolerance, bool lower_is_better) {
  double a = lo / published, b = hi / published;
  if (!isfinite(a) || !isfinite(b)) return "INCONCLUSIVE";
  if (a >= 1 - tolerance && b <= 1 + tolerance) return "REPRODUCED";
  if (b < 1 - tolerance) return lower_is_better ? "ABOVE" : "BELOW";
  if (a > 1 + tolerance) return lower_is_better ? "BELOW" : "ABOVE";
  return "INCONCLUSIVE";
}

static bool satisfies(double value, const char *op, double bound) {
  if (strcmp(op, ">=") == 0) return value >= bound;
  if (strcmp(op, "<=") == 0) return value <= bound;
  if (strcmp(op, ">") == 0) return value > bound;
  return strcmp(op, "<") == 0 && value < bound;
}

/* Equality within a margin: met when all of the interval is inside, not met when all of it is outside on one side. */
static const char *equality_word(double lo, double hi, double margin) {
  if (lo >= -margin && hi <= margin) return "met";
  return lo > margin || hi < -margin ? "not met" : "INCONCLUSIVE";
}

const char *ms_claim_word(double lo, double hi, const char *op, double bound) {
  if (!isfinite(lo) || !isfinite(hi)) return "INCONCLUSIVE";
  if (strcmp(op, "+-") == 0) return equality_word(lo, hi, bound);
  bool low = satisfies(lo, op, bound), high = satisfies(hi, op, bound);
  if (low != high) return "INCONCLUSIVE";
  return low ? "met" : "not met";
}

/* Rules that turn intervals into words. Pure. */
#ifndef SUITE_JUDGE_GATE_H
#define SUITE_JUDGE_GATE_H

#include "suite/stats/stats.h"

/* Against an accepted baseline. `slowdown` is the ratio in the worse direction (above 1 = worse), `delta` the relevance
 * threshold. REGRESSED: L > 0 and g >= d; IMPROVED: U < 0 and g <= -d; PASS: U < d; else INCONCLUSIVE, also when the
 * launches are too few for an interval. */
const char *ms_gate_word(const ms_ratio *slowdown, double delta);

/* Against a published value P: r = m / P with interval [lo, hi] / P and tolerance t. REPRODUCED: inside [1-t, 1+t];
 * BELOW: all of it worse; ABOVE: all of it better; else INCONCLUSIVE. */
const char *ms_published_word(double lo, double hi, double published, double tolerance, bool lower_is_better);

/* A claim's interval against "value op bound": met when all of it satisfies the bound, not met when none does, else
 * INCONCLUSIVE. "+-": met when the interval lies in [-bound, bound]. Without an interval give lo = hi = value. A NaN is
 * INCONCLUSIVE. */
const char *ms_claim_word(double lo, double hi, const char *op, double bound);

#endif

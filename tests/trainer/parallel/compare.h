/* Two outcomes beside each other. */
#ifndef TESTS_TRAINER_PARALLEL_COMPARE_H
#define TESTS_TRAINER_PARALLEL_COMPARE_H

#include "tests/trainer/parallel/costs.h"

/* Of one row on one rank, or the worst over ranks; plain bytes, so that it travels as they are. */
typedef struct result {
  double tolerance, sum_tolerance;
  double loss_error;     /* worst of the step's sums, relative */
  double gradient_error; /* worst tensor, norm-relative; its name */
  char gradient_name[MT_PARAM_NAME_BYTES];
  double parameter_error; /* after three steps, worst tensor, relative to the way it went */
  int64_t flips;          /* routes that differ from the one-rank twin's */
  int64_t first_flips;    /* of these, in step 1 */
  costs cost;
  int32_t failures;
  char first_failure[160];
} result;

/* Prints "FAIL row rank: what index expected got" and keeps the first in the result. */
void result_fail(result *r, const char *row, int rank, const char *what, int64_t index, double expected, double got);

/* A rank's outcome against the one-rank twin's. exact_routes: a route that differs is a failure; otherwise it is
 * counted, and what comes after it is not judged. */
void compare_one(result *r, const char *row, const outcome *got, const outcome *one, bool exact_routes);

/* Bytes, memory and waits against their predictions. Without routes to go by (flips), bytes are not judged. */
void compare_costs(result *r, const char *row, const outcome *got);

/* Bit for bit: sums, gradients, parameters. */
void compare_bits(result *r, const char *row, const outcome *got, const outcome *twin);

#endif

/* Fault injection (key `fault`), so that tests and users can see how a run ends. */
#ifndef TRAINER_LAUNCH_FAULT_H
#define TRAINER_LAUNCH_FAULT_H

#include <stdint.h>

#include "kernels/base/status.h"

typedef enum mt_fault_kind { MT_FAULT_NONE, MT_FAULT_HEAP, MT_FAULT_COMM } mt_fault_kind;

typedef struct mt_fault {
  mt_fault_kind kind;
  int64_t at;   /* the allocation or call that fails, 1-based, counted from the start of the run */
  int64_t rank; /* on this rank; -1 = on all */
} mt_fault;

/* "" (none), "heap:N", "comm:N", each with "@RANK" for one rank only. MK_ERR_CONFIG otherwise. */
mk_status mt_fault_parse(mk_context *ctx, const char *text, mt_fault *out);

/* Is it this rank that fails? */
bool mt_fault_hits(const mt_fault *fault, mt_fault_kind kind, int rank);

#endif

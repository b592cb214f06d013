/* The one JSON line that a peer's run.sh prints, as records like our own, so that the same metrics apply. */
#ifndef SUITE_RUN_PEER_H
#define SUITE_RUN_PEER_H

#include "suite/record/records.h"
#include "trainer/launch/config.h"

typedef struct ms_peer_facts {
  int64_t warmup_steps;
  mt_precision precision; /* of its dtype; MT_FP64 where no peak is known */
  bool not_installed;     /* status "unsupported", or no environment yet */
} ms_peer_facts;

/* Reads the last line of `text` into `records` (fresh). A line that is missing or no such object is MK_ERR_FORMAT. */
mk_status ms_peer_read(mk_context *ctx, const char *text, ms_records *records, ms_peer_facts *out);

#endif

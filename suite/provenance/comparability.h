/* Whether two launches may be compared: equal hashes were made by the same arithmetic on the same kind of machine with
 * the same configuration. */
#ifndef SUITE_PROVENANCE_COMPARABILITY_H
#define SUITE_PROVENANCE_COMPARABILITY_H

#include "suite/plan/plan.h"
#include "suite/provenance/machine.h"
#include "suite/record/records.h"

/* 64 hex digits over CPU model, features, usable threads; kernel, ISA and library of the records; ranks, threads,
 * device, precision and the whole resolved configuration (peers: program and arguments). */
mk_status ms_comparability_hash(mk_context *ctx, const ms_machine *machine, const ms_case *c, const ms_records *records,
                                char out[MK_HASH_BYTES]);

#endif

/* manifest.json of a run: what was run, by which program, on which machine. */
#ifndef SUITE_PROVENANCE_MANIFEST_H
#define SUITE_PROVENANCE_MANIFEST_H

#include "suite/run/run.h"

/* Writes <run>/manifest.json; state is "running" until the run has an end time, then "complete" or "interrupted". */
mk_status ms_manifest_write(mk_context *ctx, const ms_run *run);

#endif

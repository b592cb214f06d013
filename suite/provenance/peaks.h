/* Measured rates of this machine: `moemark-trainer --peaks` measures them, a cache file keeps them.
 *
 * The file is $XDG_CACHE_HOME/moemark/peaks-<machine hash>.json (else ~/.cache/moemark/...): another CPU model, feature
 * set or number of usable threads has another file. */
#ifndef SUITE_PROVENANCE_PEAKS_H
#define SUITE_PROVENANCE_PEAKS_H

#include "suite/plan/plan.h"
#include "suite/provenance/machine.h"
#include "suite/record/records.h"
#include "suite/run/supervisor.h"

/* Path of this machine's file. */
mk_status ms_peaks_path(mk_context *ctx, const ms_machine *machine, char out[MS_PATH_BYTES]);

/* Rates from the cache; all 0 when they have not been measured. A damaged file is MK_ERR_FORMAT naming it. */
mk_status ms_peaks_load(mk_context *ctx, const ms_machine *machine, ms_machine_rates *out);

/* The same for callers that know no machine (it is probed). */
mk_status ms_peaks_load_here(mk_context *ctx, ms_machine_rates *out);

/* Measures (about ten seconds, all cores) and stores. */
mk_status ms_peaks_measure(mk_context *ctx, ms_supervisor *supervisor, const ms_machine *machine,
                           ms_machine_rates *out);

/* Peak of the machine for the arithmetic that these records report (kernel: native, widened, fp32); NaN when it is not
 * measured or the arithmetic has none (MXFP8 emulation, FP64). Never another arithmetic's peak. */
double ms_peaks_flops(const ms_machine_rates *rates, const ms_records *records, mt_precision precision);

#endif

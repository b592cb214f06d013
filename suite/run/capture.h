/* Output of a short helper program. */
#ifndef SUITE_RUN_CAPTURE_H
#define SUITE_RUN_CAPTURE_H

#include "suite/run/supervisor.h"

/* Runs argv and gives its standard output as text; its standard error is dropped. *code is its exit code (-1: silent
 * for longer than limit_s). */
mk_status ms_capture(mk_context *ctx, ms_supervisor *supervisor, char *const *argv, double limit_s, char **out,
                     int *code);

/* First line of `mpirun --version`, empty when there is no mpirun. */
mk_status ms_mpi_version(mk_context *ctx, ms_supervisor *supervisor, char *out, size_t bytes);

#endif

/* Command lines through argp, where every fault is one recorded message: argp by itself prints two lines of its own and
 * ends the program. */
#ifndef KERNELS_BASE_ARGUMENTS_H
#define KERNELS_BASE_ARGUMENTS_H

#include <argp.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* argp_parse, with MK_ERR_CONFIG for an unknown, ambiguous or incomplete option and for what the parser refused with
 * mk_arguments_fail. --help and --usage print and end the program; MK_ERR_OUTPUT where their text cannot be written.
 * argv[0] names the program in messages. `first` as in argp_parse: NULL when arguments that are no options go to the
 * parser. */
mk_status mk_arguments_parse(mk_context *ctx, const struct argp *argp, int argc, char **argv, int *first, void *input);

/* For argp parsers: records MK_ERR_CONFIG (unless a fault is recorded already) and gives the value to return. */
error_t mk_arguments_fail(mk_context *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif

#endif

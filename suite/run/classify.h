/* From how a process ended and what it recorded to one word and one sentence. */
#ifndef SUITE_RUN_CLASSIFY_H
#define SUITE_RUN_CLASSIFY_H

#include "suite/run/run.h"
#include "suite/run/supervisor.h"

/* Fills status, message, code and wall_s of `launch` from `end` and launch->records (NULL: none could be read).
 * `hint` is a line of the program's own errors, or empty. Pure. */
void ms_launch_classify(const ms_child_end *end, const char *hint, ms_launch *launch);

#endif

/* The processes below this one, from /proc. */
#ifndef SUITE_RUN_PROCESS_TREE_H
#define SUITE_RUN_PROCESS_TREE_H

#include "kernels/base/status.h"

/* Counts the living descendants of this process (zombies do not count) and sends them `signal`; 0 only counts. */
mk_status ms_tree_signal(mk_context *ctx, int signal, int *count);

#endif

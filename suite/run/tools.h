/* The programs that a launch needs. */
#ifndef SUITE_RUN_TOOLS_H
#define SUITE_RUN_TOOLS_H

#include "suite/study/paths.h"

/* moemark-trainer: $MOEMARK_TRAINER, else beside the running program. MK_ERR_UNSUPPORTED says where it was sought. */
mk_status ms_tool_trainer(mk_context *ctx, char out[MS_PATH_BYTES]);

/* mpirun on PATH. MK_ERR_UNSUPPORTED names the package. */
mk_status ms_tool_mpirun(mk_context *ctx, char out[MS_PATH_BYTES]);

/* A program on PATH; false when there is none. */
bool ms_tool_find(const char *name, char out[MS_PATH_BYTES]);

#endif

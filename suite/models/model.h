/* Model files: suite/models/<name>.yaml, schema moemark/model/2. Complete: every model key of the trainer is mandatory,
 * so that no default decides what a model is; the published parameter counts and FLOP per token stand in the same file
 * and are compared with counts.h when it is loaded. */
#ifndef SUITE_MODELS_MODEL_H
#define SUITE_MODELS_MODEL_H

#include "suite/study/diagnostics.h"
#include "suite/study/paths.h"
#include "trainer/launch/config.h"

/* Path of the file of model `name`. */
mk_status ms_model_find(mk_context *ctx, const char *name, char path[MS_PATH_BYTES]);

/* Sets all model keys of *cfg, the others stay. Faults go to diag as file:line:col; any gives MK_ERR_CONFIG and leaves
 * *cfg untouched. */
mk_status ms_model_load(mk_context *ctx, const char *path, ms_diagnostics *diag, mt_config *cfg);

#endif

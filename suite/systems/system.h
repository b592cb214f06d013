/* Systems: suite/systems/<name>.yaml (schema moemark/system/1) over GPU data suite/systems/gpus/<gpu>.csv
 * (key,value,unit,source,note in base SI units). Every number carries its unit in its name or column, and its source.
 */
#ifndef SUITE_SYSTEMS_SYSTEM_H
#define SUITE_SYSTEMS_SYSTEM_H

#include <stdint.h>

#include "suite/study/diagnostics.h"

enum { MS_SYSTEM_TEXT_BYTES = 256 };

typedef struct ms_gpu_value {
  char key[64];
  double value;            /* NaN for a word such as pcie6 */
  char text[64], unit[32]; /* value as written */
  char source[MS_SYSTEM_TEXT_BYTES], note[MS_SYSTEM_TEXT_BYTES];
} ms_gpu_value;

typedef struct ms_system {
  char path[4096];
  char name[64];
  char match_gpu[64]; /* word in the device name; empty: a CPU system */
  int64_t match_gpus; /* GPUs in all; 0 for a CPU system */
  int64_t nodes, gpus_per_node;
  char launcher[64]; /* local, mpirun, srun, sbatch */
  char bind[64];
  double memory_budget_gib; /* of one device; 0 = not stated */
  char source[MS_SYSTEM_TEXT_BYTES];
  ms_gpu_value *gpu; /* rows of the GPU's file; NULL for a CPU system */
  int n_gpu;
} ms_system;

/* Reads system `name`. Faults go to diag; any gives MK_ERR_CONFIG. */
mk_status ms_system_read(mk_context *ctx, const char *name, ms_diagnostics *diag, ms_system **out);
void ms_system_destroy(mk_context *ctx, ms_system *system);

/* Whether what runs on `device` (the trainer's key) may count as run on the system: one of GPUs has cuda, and sim
 * stands for it in simulated time; the processors of a CPU system may hold any device. */
bool ms_system_offers(const ms_system *system, const char *device);

/* A number of the GPU's file, NaN when the key is missing or a word. */
double ms_system_gpu_value(const ms_system *system, const char *key);

#endif

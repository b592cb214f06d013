/* The machine and the build as JSON: part of manifest.json, and what `moemark sysinfo --json` prints. */
#ifndef SUITE_PROVENANCE_SYSINFO_H
#define SUITE_PROVENANCE_SYSINFO_H

#include <cjson/cJSON.h>

#include "suite/provenance/machine.h"

/* Adds an object "code" (version, commit, dirty, build) to root and returns it. */
cJSON *ms_sysinfo_code(cJSON *root);

/* Adds the objects "software" and "hardware" to root. */
void ms_sysinfo_machine(cJSON *root, const ms_machine *machine);

#endif

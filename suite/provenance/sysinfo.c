/* Facts under the names that manifest.json uses. */
#include "suite/provenance/sysinfo.h"

#include "suite/provenance/build_info.h"

cJSON *ms_sysinfo_code(cJSON *root) {
  cJSON *code = cJSON_AddObjectToObject(root, "code");
  cJSON_AddStringToObject(code, "version", MS_BUILD_INFO.version);
  cJSON_AddStringToObject(code, "commit", MS_BUILD_INFO.commit);
  cJSON_AddStringToObject(code, "dirty", MS_BUILD_INFO.dirty);
  cJSON_AddStringToObject(code, "diff_sha256", MS_BUILD_INFO.diff_sha256);
  cJSON_AddStringToObject(code, "build_type", MS_BUILD_INFO.build_type);
  cJSON_AddStringToObject(code, "compiler", MS_BUILD_INFO.compiler);
  cJSON_AddStringToObject(code, "flags", MS_BUILD_INFO.flags);
  return code;
}

void ms_sysinfo_machine(cJSON *root, const ms_machine *m) {
  cJSON *software = cJSON_AddObjectToObject(root, "software");
  cJSON_AddStringToObject(software, "os", m->os);
  cJSON_AddStringToObject(software, "kernel", m->kernel);
  cJSON_AddStringToObject(software, "mpi", m->mpi);
  cJSON_AddStringToObject(software, "hwloc", m->hwloc);
  cJSON *hardware = cJSON_AddObjectToObject(root, "hardware");
  cJSON_AddStringToObject(hardware, "cpu_model", m->cpu_model);
  cJSON_AddStringToObject(hardware, "isa", m->isa);
  const struct {
    const char *key;
    int64_t value;
  } counts[] = {{"sockets", m->sockets},
                {"numa_nodes", m->numa_nodes},
                {"cores", m->cores},
                {"hardware_threads", m->hardware_threads},
                {"usable_threads", m->usable_threads},
                {"l1d_bytes", m->l1d_bytes},
                {"l2_bytes", m->l2_bytes},
                {"l3_bytes", m->l3_bytes},
                {"memory_bytes", m->memory_bytes},
                {"shm_bytes", m->shm_bytes}};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    cJSON_AddNumberToObject(hardware, counts[i].key, (double)counts[i].value);
  }
}

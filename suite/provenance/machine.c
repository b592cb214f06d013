/* Topology through hwloc (used nowhere else in the suite), features from /proc/cpuinfo. Tens of milliseconds. */
#include "suite/provenance/machine.h"

#include <hwloc.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "kernels/base/hash.h"

static const char *const FEATURES[] = {"fma",      "avx",         "avx2",        "avx512f",  "avx512bw",
                                       "avx512vl", "avx512_vnni", "avx512_bf16", "avx_vnni", "avx512_fp16",
                                       "amx_tile", "amx_bf16",    "amx_int8",    NULL};

static bool has_word(const char *line, const char *word) {
  size_t bytes = strlen(word);
  for (const char *at = strstr(line, word); at != NULL; at = strstr(at + bytes, word)) {
    bool starts = at > line && (at[-1] == ' ' || at[-1] == '\t');
    if (starts && (at[bytes] == ' ' || at[bytes] == '\n' || at[bytes] == '\0')) return true;
  }
  return false;
}

static void line_value(const char *line, char *out, size_t bytes) {
  const char *value = strchr(line, ':');
  value = value == NULL ? "" : value + 1 + strspn(value + 1, " \t\"");
  snprintf(out, bytes, "%.*s", (int)strcspn(value, "\"\n"), value);
}

static void cpuinfo_read(ms_machine *m) {
  char line[8192];
  FILE *file = fopen("/proc/cpuinfo", "re");
  bool model = false, flags = false;
  while (file != NULL && !(model && flags) && fgets(line, sizeof line, file) != NULL) {
    if (!model && strncmp(line, "model name", 10) == 0) {
      line_value(line, m->cpu_model, sizeof m->cpu_model);
      model = true;
    }
    if (flags || strncmp(line, "flags", 5) != 0) continue;
    size_t used = 0;
    for (int i = 0; FEATURES[i] != NULL; i++) {
      if (!has_word(line, FEATURES[i])) continue;
      used += (size_t)snprintf(m->isa + used, sizeof m->isa - used, "%s%s", used > 0 ? " " : "", FEATURES[i]);
    }
    flags = true;
  }
  if (file != NULL) fclose(file);
}

static void os_read(ms_machine *m) {
  m->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);
  struct utsname name;
  if (uname(&name) == 0) {
    snprintf(m->host, sizeof m->host, "%s", name.nodename);
    snprintf(m->kernel, sizeof m->kernel, "%s %s %s", name.sysname, name.release, name.machine);
  }
  const struct passwd *who = getpwuid(geteuid());
  snprintf(m->user, sizeof m->user, "%s", who != NULL ? who->pw_name : "");
  char line[512];
  FILE *file = fopen("/etc/os-release", "re");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, "PRETTY_NAME=", 12) != 0) continue;
    snprintf(m->os, sizeof m->os, "%.*s", (int)strcspn(line + 13, "\"\n"), line + 13);
  }
  if (file != NULL) fclose(file);
  struct statvfs space;
  if (statvfs("/dev/shm", &space) == 0) m->shm_bytes = (int64_t)space.f_bavail * (int64_t)space.f_frsize;
}

static int64_t cache_bytes(hwloc_topology_t topology, hwloc_obj_type_t type) {
  hwloc_obj_t cache = hwloc_get_obj_by_type(topology, type, 0);
  return cache == NULL ? 0 : (int64_t)cache->attr->cache.size;
}

static mk_status topology_read(mk_context *ctx, ms_machine *m) {
  mk_status st = MK_OK;
  hwloc_topology_t topology;
  MK_CHECK(ctx, hwloc_topology_init(&topology) == 0, MK_ERR_DEVICE, "hwloc cannot start");
  MK_CHECK_GOTO(ctx, hwloc_topology_load(topology) == 0, MK_ERR_DEVICE, out, "hwloc cannot read the topology");
  m->sockets = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE);
  m->numa_nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
  m->cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
  m->hardware_threads = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
  m->l1d_bytes = cache_bytes(topology, HWLOC_OBJ_L1CACHE);
  m->l2_bytes = cache_bytes(topology, HWLOC_OBJ_L2CACHE);
  m->l3_bytes = cache_bytes(topology, HWLOC_OBJ_L3CACHE);
  hwloc_bitmap_t bound = hwloc_bitmap_alloc();
  bool known = bound != NULL && hwloc_get_cpubind(topology, bound, HWLOC_CPUBIND_PROCESS) == 0;
  m->usable_threads = known ? hwloc_bitmap_weight(bound) : m->hardware_threads;
  hwloc_bitmap_free(bound);
  unsigned version = hwloc_get_api_version();
  snprintf(m->hwloc, sizeof m->hwloc, "%u.%u.%u", version >> 16, (version >> 8) & 255, version & 255);
out:
  hwloc_topology_destroy(topology);
  return st;
}

mk_status ms_machine_probe(mk_context *ctx, ms_machine *out) {
  ms_machine machine = {0};
  cpuinfo_read(&machine);
  os_read(&machine);
  MK_TRY(ctx, topology_read(ctx, &machine));
  *out = machine;
  return MK_OK;
}

mk_status ms_machine_hash(mk_context *ctx, const ms_machine *m, char out[65]) {
  char text[1024];
  int used = snprintf(text, sizeof text, "%s\n%s\n%lld\n", m->cpu_model, m->isa, (long long)m->usable_threads);
  return mk_hash_bytes(ctx, text, (size_t)used, out);
}

/* Every backend, by name. An absent one is a stub file of absent/ that CMake puts in its place. */
#include <stdio.h>
#include <string.h>

#include "kernels/device/backends.h"

static const mk_backend backends[] = {
    {"cpu", mk_device_cpu_create, false},            /* oneDNN and OpenMP; a stream runs at once */
    {"cpu_async", mk_device_cpu_async_create, true}, /* test device: a thread a stream, random delays */
    {"ref", mk_device_ref_create, false},            /* cpu with the reference ops: any dtype, FP64 included */
    {"ref_async", mk_device_ref_async_create, true}, /* cpu_async with the reference ops */
    {"cuda", mk_device_cuda_create, true},           /* NVIDIA GPUs: host functions run on a thread of the driver */
    {"sim", mk_device_sim_create, false},            /* counts memory and charges virtual time */
};

enum { BACKENDS = sizeof backends / sizeof backends[0] };

const mk_backend *mk_backend_find(const char *name) {
  for (int i = 0; i < BACKENDS; i++) {
    if (strcmp(backends[i].name, name) == 0) return &backends[i];
  }
  return NULL;
}

bool mk_device_threaded(const char *name) {
  const mk_backend *backend = mk_backend_find(name);
  return backend != NULL && backend->threaded;
}

const char *mk_backend_names(char *text, size_t bytes) {
  size_t used = 0;
  text[0] = '\0';
  for (int i = 0; i < BACKENDS && used < bytes; i++) {
    int wrote = snprintf(text + used, bytes - used, "%s%s", i == 0 ? "" : ", ", backends[i].name);
    used += wrote > 0 ? (size_t)wrote : 0;
  }
  return text;
}

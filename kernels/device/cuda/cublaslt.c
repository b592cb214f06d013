/* See cublaslt.h. */
#include "kernels/device/cuda/cublaslt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define LIBRARY "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR)

static mk_status resolve(mk_context *ctx, void *library, const char *name, void *out) {
  void *symbol = dlsym(library, name);
  MK_CHECK(ctx, symbol != NULL, MK_ERR_UNSUPPORTED, LIBRARY " lacks %s: install cuBLAS of CUDA 13", name);
  memcpy(out, &symbol, sizeof symbol); /* ISO C has no cast from a data to a function pointer */
  return MK_OK;
}

mk_status mk_cublaslt_load(mk_context *ctx, mk_cublaslt *out) {
  void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) library = dlopen(MK_CUDA_LIBRARY_DIR "/" LIBRARY, RTLD_NOW | RTLD_LOCAL);
  MK_CHECK(ctx, library != NULL, MK_ERR_UNSUPPORTED,
           "the cuda device needs " LIBRARY ": %s; install cuBLAS of CUDA 13 or add its folder to LD_LIBRARY_PATH",
           dlerror());
  mk_cublaslt lib;
#define X(name) MK_TRY(ctx, resolve(ctx, library, #name, &lib.name));
  MK_CUBLASLT_LIST(X)
#undef X
  *out = lib;
  return MK_OK;
}

mk_status mk_cublas_fail(mk_context *ctx, const mk_cublaslt *lib, cublasStatus_t status, const char *call,
                         const char *file, int line) {
  mk_status st = status == CUBLAS_STATUS_NOT_SUPPORTED ? MK_ERR_UNSUPPORTED : MK_ERR_DEVICE;
  return mk_fail(ctx, st, file, line, "cuBLAS: %s from %s", lib->cublasLtGetStatusString(status), call);
}

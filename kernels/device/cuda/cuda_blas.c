/* GEMM through cuBLASLt. A plan (descriptors and the algorithm that cuBLAS's heuristic ranks first, never a timing) is
 * made at the first call of a shape and kept, so that a step makes no descriptors and asks no heuristic.
 *
 * cuBLAS is column-major: the row-major product out[r,c] is out^T[c,r], whose first operand is `right`. Split
 * reductions may only be summed in FP32 from the workspace, in a fixed order: the schemes that go through the output
 * would round BF16 more than once. */
#include "kernels/device/cuda/cuda_blas.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "kernels/device/cuda/cublaslt.h"

enum { PLANS = 512, ALIGN_MAX = 256 };

/* All bytes are compared, so a key is cleared before it is filled. */
typedef struct plan_key {
  int64_t rows, cols, reduce, left_ld, right_ld, out_ld;
  int32_t left_align, right_align, add_align, out_align; /* bytes */
  int32_t dtype, out_dtype;
  int32_t left_first, right_first; /* reduce_first */
} plan_key;

typedef struct plan {
  plan_key key; /* rows 0: no plan here */
  cublasLtMatmulDesc_t product;
  cublasLtMatrixLayout_t left, right, out;
  cublasLtMatmulAlgo_t algo;
} plan;

struct mk_cuda_blas {
  mk_cublaslt lib;
  cublasLtHandle_t handle;
  plan plans[PLANS];
};

mk_status mk_cuda_blas_create(mk_context *ctx, mk_cuda_blas **out) {
  mk_cuda_blas *blas = NULL;
  mk_status st = MK_OK;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *blas, &blas));
  MK_TRY_GOTO(ctx, mk_cublaslt_load(ctx, &blas->lib), out);
  MK_CUBLAS_GOTO(ctx, &blas->lib, cublasLtCreate(&blas->handle), out);
  *out = blas;
  return MK_OK;
out:
  mk_heap_free(ctx, blas);
  return st;
}

static void plan_clear(const mk_cublaslt *lib, plan *p) {
  if (p->out != NULL) lib->cublasLtMatrixLayoutDestroy(p->out);
  if (p->right != NULL) lib->cublasLtMatrixLayoutDestroy(p->right);
  if (p->left != NULL) lib->cublasLtMatrixLayoutDestroy(p->left);
  if (p->product != NULL) lib->cublasLtMatmulDescDestroy(p->product);
  *p = (plan){0};
}

void mk_cuda_blas_destroy(mk_context *ctx, mk_cuda_blas *blas) {
  if (blas == NULL) return;
  for (int i = 0; i < PLANS; i++)
    plan_clear(&blas->lib, &blas->plans[i]);
  blas->lib.cublasLtDestroy(blas->handle);
  mk_heap_free(ctx, blas);
}

void mk_cuda_blas_version(const mk_cuda_blas *blas, char *text, size_t bytes) {
  size_t version = blas->lib.cublasLtGetVersion(); /* 10000 * major + 100 * minor + patch */
  snprintf(text, bytes, "cuBLAS %zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
}

/* ---- plans ---- */

static int32_t align_of(const void *data) {
  uintptr_t lowest = (uintptr_t)data & -(uintptr_t)data;
  return lowest == 0 || lowest > ALIGN_MAX ? ALIGN_MAX : (int32_t)lowest;
}

/* Without an addend its factor is 0 and it is not read, but cuBLAS wants an address. */
static const void *addend_of(const mk_cuda_gemm *g) { return g->add != NULL ? g->add : g->out; }

static plan_key key_of(const mk_cuda_gemm *g) {
  plan_key key;
  memset(&key, 0, sizeof key);
  key.rows = g->rows;
  key.cols = g->cols;
  key.reduce = g->reduce;
  key.left_ld = g->left.ld;
  key.right_ld = g->right.ld;
  key.out_ld = g->out_ld;
  key.left_align = align_of(g->left.data);
  key.right_align = align_of(g->right.data);
  key.add_align = align_of(addend_of(g));
  key.out_align = align_of(g->out);
  key.dtype = g->left.dtype;
  key.out_dtype = g->out_dtype;
  key.left_first = g->left.reduce_first;
  key.right_first = g->right.reduce_first;
  return key;
}

static plan *place_of(mk_cuda_blas *blas, const plan_key *key) {
  const unsigned char *bytes = (const unsigned char *)key;
  uint32_t hash = 2166136261u; /* FNV-1a */
  for (size_t i = 0; i < sizeof *key; i++)
    hash = (hash ^ bytes[i]) * 16777619u;
  return &blas->plans[hash % PLANS];
}

static cudaDataType_t type_of(int32_t dtype) { return dtype == MK_BF16 ? CUDA_R_16BF : CUDA_R_32F; }

static mk_status describe(mk_context *ctx, const mk_cublaslt *lib, const plan_key *k, plan *p) {
  cublasOperation_t op_right = k->right_first ? CUBLAS_OP_N : CUBLAS_OP_T;
  cublasOperation_t op_left = k->left_first ? CUBLAS_OP_T : CUBLAS_OP_N;
  uint64_t rows = (uint64_t)k->rows, cols = (uint64_t)k->cols, reduce = (uint64_t)k->reduce;
  MK_CUBLAS(ctx, lib, cublasLtMatmulDescCreate(&p->product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  MK_CUBLAS(ctx, lib,
            cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_TRANSA, &op_right, sizeof op_right));
  MK_CUBLAS(ctx, lib,
            cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_TRANSB, &op_left, sizeof op_left));
  MK_CUBLAS(ctx, lib,
            cublasLtMatrixLayoutCreate(&p->right, type_of(k->dtype), k->right_first ? cols : reduce,
                                       k->right_first ? reduce : cols, k->right_ld));
  MK_CUBLAS(ctx, lib,
            cublasLtMatrixLayoutCreate(&p->left, type_of(k->dtype), k->left_first ? rows : reduce,
                                       k->left_first ? reduce : rows, k->left_ld));
  MK_CUBLAS(ctx, lib, cublasLtMatrixLayoutCreate(&p->out, type_of(k->out_dtype), cols, rows, k->out_ld));
  return MK_OK;
}

static mk_status prefer(mk_context *ctx, const mk_cublaslt *lib, const plan_key *k, cublasLtMatmulPreference_t wish) {
  const uint64_t bytes = MK_CUDA_BLAS_BYTES;
  const struct {
    cublasLtMatmulPreferenceAttributes_t name;
    uint32_t value;
  } wishes[] = {
      {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, (uint32_t)k->right_align},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, (uint32_t)k->left_align},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, (uint32_t)k->add_align},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, (uint32_t)k->out_align},
  };
  MK_CUBLAS(ctx, lib,
            cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes));
  for (size_t i = 0; i < sizeof wishes / sizeof wishes[0]; i++) {
    MK_CUBLAS(ctx, lib,
              cublasLtMatmulPreferenceSetAttribute(wish, wishes[i].name, &wishes[i].value, sizeof wishes[i].value));
  }
  return MK_OK;
}

static mk_status choose(mk_context *ctx, mk_cuda_blas *blas, const plan_key *k, plan *p) {
  const mk_cublaslt *lib = &blas->lib;
  cublasLtMatmulPreference_t wish = NULL;
  cublasLtMatmulHeuristicResult_t best = {0};
  int found = 0;
  mk_status st = MK_OK;
  MK_CUBLAS(ctx, lib, cublasLtMatmulPreferenceCreate(&wish));
  MK_TRY_GOTO(ctx, prefer(ctx, lib, k, wish), out);
  MK_CUBLAS_GOTO(ctx, lib,
                 cublasLtMatmulAlgoGetHeuristic(blas->handle, p->product, p->right, p->left, p->out, p->out, wish, 1,
                                                &best, &found),
                 out);
  MK_CHECK_GOTO(ctx, found > 0, MK_ERR_UNSUPPORTED, out, "cuBLAS has no kernel for a product of %lldx%lldx%lld in %s",
                (long long)k->rows, (long long)k->cols, (long long)k->reduce, mk_dtype_name((mk_dtype)k->dtype));
  p->algo = best.algo;
out:
  lib->cublasLtMatmulPreferenceDestroy(wish);
  return st;
}

static mk_status plan_get(mk_context *ctx, mk_cuda_blas *blas, const mk_cuda_gemm *g, const plan **out) {
  plan_key key = key_of(g);
  plan *p = place_of(blas, &key);
  mk_status st = MK_OK;
  if (memcmp(&p->key, &key, sizeof key) != 0) {
    plan_clear(&blas->lib, p); /* another shape may have stood here */
    MK_TRY_GOTO(ctx, describe(ctx, &blas->lib, &key, p), out);
    MK_TRY_GOTO(ctx, choose(ctx, blas, &key, p), out);
    p->key = key;
  }
  *out = p;
  return MK_OK;
out:
  plan_clear(&blas->lib, p);
  return st;
}

mk_status mk_cuda_blas_gemm(mk_stream *base, const mk_cuda_gemm *g) {
  mk_cuda_stream *stream = mk_cuda_stream_of(base);
  mk_cuda_blas *blas = mk_cuda_device_of(base)->blas;
  const float one = 1, add = g->add != NULL ? 1 : 0;
  const plan *p = NULL;
  MK_TRY(base->dev->ctx, plan_get(base->dev->ctx, blas, g, &p));
  MK_CUBLAS(
      base->dev->ctx, &blas->lib,
      cublasLtMatmul(blas->handle, p->product, &one, g->right.data, p->right, g->left.data, p->left, &add, addend_of(g),
                     p->out, g->out, p->out, &p->algo, stream->blas_memory, MK_CUDA_BLAS_BYTES, stream->native));
  return MK_OK;
}

/* A GEMM call: choose the kernel, list the tasks, run them in one parallel region. See gemm.h. */
#include "kernels/device/cpu/gemm.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdatomic.h>
#include <stdio.h>

#include "kernels/base/heap.h"
#include "kernels/base/pages.h"
#include "kernels/device/cpu/gemm_parts.h"
#include "kernels/device/cpu/isa.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/ops/ops.h"

struct mk_cpu_gemm {
  int threads;
  float *scratch; /* [threads][MK_CPU_SCRATCH_FLOATS] */
  size_t scratch_bytes;
  mk_gemm_task *tasks; /* grown by the first call of a shape */
  int64_t tasks_cap;
  int64_t *order; /* [groups] */
  int64_t order_cap;
  mk_gemm_native *native; /* NULL with the widened kernel */
};

/* ---- what oneDNN says ---- */

bool mk_cpu_gemm_may_use(mk_gemm_isa isa) {
  static const unsigned masks[] = {[MK_GEMM_ISA_AVX512] = dnnl_cpu_isa_avx512_core,
                                   [MK_GEMM_ISA_BF16] = dnnl_cpu_isa_avx512_core_bf16,
                                   [MK_GEMM_ISA_AMX] = dnnl_cpu_isa_avx512_core_amx};
  return ((unsigned)dnnl_get_effective_cpu_isa() & masks[isa]) == masks[isa]; /* each set contains those below it */
}

const char *mk_cpu_library_version(char *text, size_t bytes) {
  const dnnl_version_t *version = dnnl_version();
  snprintf(text, bytes, "%d.%d.%d", version->major, version->minor, version->patch);
  return text;
}

/* ---- life ---- */

static mk_status create_parts(mk_context *ctx, const mk_cpu_device *dev, mk_cpu_gemm *gemm) {
  gemm->threads = dev->threads;
  gemm->scratch_bytes = (size_t)dev->threads * MK_CPU_SCRATCH_FLOATS * sizeof(float);
  void *scratch = NULL;
  MK_TRY(ctx, mk_pages_alloc(ctx, gemm->scratch_bytes, &scratch));
  gemm->scratch = scratch;
  if (dev->kernel == MK_KERNEL_NATIVE) MK_TRY(ctx, mk_gemm_native_create(ctx, dev->threads, &gemm->native));
  return MK_OK;
}

mk_status mk_cpu_gemm_create(mk_cpu_device *dev, mk_cpu_gemm **out) {
  mk_context *ctx = dev->base.ctx;
  MK_CHECK(ctx, dev->kernel != MK_KERNEL_NATIVE || mk_cpu_gemm_may_use(MK_GEMM_ISA_AVX512), MK_ERR_UNSUPPORTED,
           "kernel native: oneDNN multiplies BF16 from AVX-512 up only, and this processor has none; use widened");
  mk_cpu_gemm *gemm = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *gemm, &gemm));
  mk_status st = create_parts(ctx, dev, gemm);
  if (st != MK_OK) {
    mk_cpu_gemm_destroy(ctx, gemm);
    return mk_trace(ctx, st, __FILE__, __LINE__);
  }
  *out = gemm;
  return MK_OK;
}

void mk_cpu_gemm_destroy(mk_context *ctx, mk_cpu_gemm *gemm) {
  if (gemm == NULL) return;
  mk_gemm_native_destroy(ctx, gemm->native);
  mk_heap_free(ctx, gemm->order);
  mk_heap_free(ctx, gemm->tasks);
  mk_pages_free(ctx, gemm->scratch, gemm->scratch_bytes);
  mk_heap_free(ctx, gemm);
}

float *mk_cpu_gemm_scratch(const mk_cpu_gemm *gemm, int thread) {
  return gemm->scratch + (size_t)thread * MK_CPU_SCRATCH_FLOATS;
}

/* ---- packing ---- */

/* Weights are taken as they are. An FP32 copy of BF16 weights, made once a step, costs more memory traffic than
 * widening the tile at hand while it is copied anyway: a weight is read as two bytes for each row tile instead of being
 * read as two, written as four and read as four. */
size_t mk_cpu_gemm_pack_bytes(mk_device *dev, mk_dtype dtype, int64_t groups, int64_t n, int64_t k) {
  (void)dev;
  (void)dtype;
  (void)groups;
  (void)n;
  (void)k;
  return 0;
}

/* ---- the call ---- */

static mk_status check_offsets(mk_context *ctx, mk_op_id op, const mk_gemm_call *call) {
  if (!mk_tensor_present(&call->offsets)) return MK_OK;
  const int32_t *offsets = call->offsets.data;
  MK_CHECK(ctx, offsets[0] == 0 && offsets[call->groups] <= call->a.dim[0], MK_ERR_ARG,
           "%s: offsets run from %d to %d in a buffer of %lld rows", mk_op_name(op), offsets[0], offsets[call->groups],
           (long long)call->a.dim[0]);
  for (int64_t e = 0; e < call->groups; e++) {
    MK_CHECK(ctx, offsets[e] <= offsets[e + 1], MK_ERR_ARG, "%s: offsets fall at group %lld: %d, then %d",
             mk_op_name(op), (long long)e, offsets[e], offsets[e + 1]);
  }
  return MK_OK;
}

/* Makes room for the tasks that the call can have with any offsets. */
static mk_status reserve(mk_context *ctx, mk_cpu_gemm *gemm, const mk_gemm_plan *plan) {
  int64_t need = mk_gemm_task_bound(plan->call, &plan->tiles), groups = plan->call->groups;
  if (need > gemm->tasks_cap) {
    MK_TRY(ctx, mk_heap_resize(ctx, &gemm->tasks, (size_t)need * sizeof *gemm->tasks));
    gemm->tasks_cap = need;
  }
  if (groups > gemm->order_cap) {
    MK_TRY(ctx, mk_heap_resize(ctx, &gemm->order, (size_t)groups * sizeof *gemm->order));
    gemm->order_cap = groups;
  }
  return MK_OK;
}

static bool run_tasks(mk_cpu_gemm *gemm, mk_gemm_family *family, const mk_gemm_plan *plan) {
  atomic_bool failed = false;
#pragma omp parallel for schedule(dynamic, 1) num_threads(gemm->threads)
  for (int64_t i = 0; i < plan->n_tasks; i++) {
    int thread = omp_get_thread_num();
    bool ok = family != NULL ? mk_gemm_native_tile(gemm->native, family, plan, &plan->tasks[i], thread)
                             : mk_gemm_float_tile(plan, &plan->tasks[i], mk_cpu_gemm_scratch(gemm, thread));
    if (!ok) atomic_store(&failed, true);
  }
  return !atomic_load(&failed);
}

/* Elements of f32 or bf16, or u8 with scales. */
static mk_status check_operand(mk_stream *stream, mk_op_id op, const mk_tensor *t, const mk_tensor *scale) {
  return t->dtype == MK_U8 && mk_tensor_present(scale) ? MK_OK : mk_cpu_check_float(stream, op, t->dtype);
}

/* A product over nothing still writes zeros, or `add`; only an output without elements asks for no work. */
static bool has_output(const mk_gemm_call *call) {
  bool inner = call->kind != MK_GEMM_WGRAD || call->k > 0;
  return call->groups > 0 && mk_gemm_out_cols(call) > 0 && inner;
}

mk_status mk_cpu_gemm_run(mk_stream *stream, mk_op_id op, const mk_gemm_call *call) {
  mk_context *ctx = stream->dev->ctx;
  mk_cpu_gemm *gemm = mk_cpu_device_of(stream)->gemm;
  MK_TRY(ctx, check_operand(stream, op, &call->a, &call->a_scale));
  MK_TRY(ctx, check_operand(stream, op, &call->b, &call->b_scale));
  MK_TRY(ctx, mk_cpu_check_float(stream, op, call->c.dtype));
  if (!has_output(call)) return MK_OK;
  MK_TRY(ctx, check_offsets(ctx, op, call));
  mk_gemm_plan plan = {.call = call};
  plan.native =
      gemm->native != NULL && call->a.dtype == MK_BF16 && call->b.dtype == MK_BF16 && mk_gemm_reduction(call) > 0;
  plan.tiles = mk_gemm_choose_tiles(call, plan.native);
  MK_TRY(ctx, reserve(ctx, gemm, &plan));
  mk_gemm_family *family = NULL;
  if (plan.native) MK_TRY(ctx, mk_gemm_native_family(ctx, gemm->native, &plan, &family));
  plan.tasks = gemm->tasks;
  plan.n_tasks = mk_gemm_make_tasks(call, &plan.tiles, gemm->order, gemm->tasks);
  MK_CHECK(ctx, run_tasks(gemm, family, &plan), MK_ERR_DEVICE,
           "%s: oneDNN failed, probably out of memory; weights [%lld,%lld,%lld]", mk_op_name(op),
           (long long)call->groups, (long long)call->n, (long long)call->k);
  return MK_OK;
}

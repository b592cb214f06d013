/* Tiles through oneDNN's BF16 matmul. Its primitives have a fixed shape, so a family holds, for one GEMM shape, those
 * of a full row tile (operands where they lie) and of tails of 32, 64, ... rows (operands copied and padded with zeros;
 * in wgrad the rows are the reduction), each for the common and the last column tile. All are made when the shape is
 * first used. Primitives are made for one thread and take their scratchpad from us (oneDNN developer guide, "Primitive
 * attributes: scratchpad"); each thread has its own stream and memory objects. */
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "kernels/base/pages.h"
#include "kernels/device/cpu/gemm_parts.h"

enum { FULL_ROWS = 256, TAIL_UNIT = 32, TAILS = FULL_ROWS / TAIL_UNIT, VARIANTS = TAILS + 1, WIDTHS = 2, MAX_ARGS = 4 };

/* One primitive, and for each thread its arguments. */
typedef struct tile {
  dnnl_primitive_t primitive;
  dnnl_memory_t *memory; /* [threads][MAX_ARGS]: a, b, c, scratchpad */
} tile;

typedef struct family_key {
  int64_t kind, n, k, cols, c_dtype, sum; /* cols: of the column tiles */
} family_key;

struct mk_gemm_family {
  family_key key;
  tile tiles[WIDTHS][VARIANTS]; /* variants 0 .. TAILS-1: tails; TAILS: full */
  mk_gemm_family *next;
};

struct mk_gemm_native {
  int threads;
  dnnl_engine_t engine;
  dnnl_stream_t *stream; /* [threads] */
  void **padded;         /* [threads]: a, b and c of a tail */
  size_t padded_bytes;
  void **scratchpad; /* [threads] */
  size_t scratchpad_bytes;
  mk_gemm_family *families;
};

/* A matmul c[m,n] = a[m,k] b[k,n] with strides in elements. */
typedef struct matmul {
  int64_t m, n, k, a_row, a_col, b_row, b_col, ldc;
} matmul;

static matmul describe(const family_key *key, int64_t cols, int64_t rows, bool full) {
  bool dgrad = key->kind == MK_GEMM_DGRAD;
  int64_t out = dgrad ? key->k : key->n, reduction = dgrad ? key->n : key->k;
  if (key->kind == MK_GEMM_WGRAD) {
    return (matmul){cols, key->k, rows, 1, full ? key->n : cols, key->k, 1, key->k};
  }
  matmul mm = {rows, cols, reduction, reduction, 1, 1, key->k, full ? out : cols};
  if (dgrad) mm.b_row = key->k;
  if (dgrad) mm.b_col = 1;
  return mm;
}

#define DNNL_TRY(ctx, call) \
  do { \
    dnnl_status_t dnnl_st = (call); \
    MK_CHECK(ctx, dnnl_st == dnnl_success, MK_ERR_DEVICE, "oneDNN: %s failed with status %d", #call, (int)dnnl_st); \
  } while (0)

/* ---- life ---- */

static mk_status create_parts(mk_context *ctx, mk_gemm_native *native) {
  size_t threads = (size_t)native->threads;
  MK_TRY(ctx, mk_heap_array(ctx, threads, sizeof *native->stream, &native->stream));
  MK_TRY(ctx, mk_heap_array(ctx, threads, sizeof *native->padded, &native->padded));
  MK_TRY(ctx, mk_heap_array(ctx, threads, sizeof *native->scratchpad, &native->scratchpad));
  DNNL_TRY(ctx, dnnl_engine_create(&native->engine, dnnl_cpu, 0));
  for (int t = 0; t < native->threads; t++) {
    DNNL_TRY(ctx, dnnl_stream_create(&native->stream[t], native->engine, dnnl_stream_in_order));
  }
  return MK_OK;
}

mk_status mk_gemm_native_create(mk_context *ctx, int threads, mk_gemm_native **out) {
  mk_gemm_native *native = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *native, &native));
  native->threads = threads;
  mk_status st = create_parts(ctx, native);
  if (st != MK_OK) {
    mk_gemm_native_destroy(ctx, native);
    return mk_trace(ctx, st, __FILE__, __LINE__);
  }
  *out = native;
  return MK_OK;
}

static void destroy_tile(mk_context *ctx, const mk_gemm_native *native, tile *t) {
  for (int i = 0; t->memory != NULL && i < native->threads * MAX_ARGS; i++) {
    if (t->memory[i] != NULL) dnnl_memory_destroy(t->memory[i]);
  }
  mk_heap_free(ctx, t->memory);
  if (t->primitive != NULL) dnnl_primitive_destroy(t->primitive);
}

static void destroy_family(mk_context *ctx, const mk_gemm_native *native, mk_gemm_family *family) {
  for (int w = 0; w < WIDTHS; w++) {
    for (int v = 0; v < VARIANTS; v++)
      destroy_tile(ctx, native, &family->tiles[w][v]);
  }
  mk_heap_free(ctx, family);
}

static void free_blocks(mk_context *ctx, const mk_gemm_native *native, void **blocks, size_t bytes) {
  for (int t = 0; blocks != NULL && t < native->threads; t++) {
    mk_pages_free(ctx, blocks[t], bytes);
    blocks[t] = NULL;
  }
}

void mk_gemm_native_destroy(mk_context *ctx, mk_gemm_native *native) {
  if (native == NULL) return;
  while (native->families != NULL) {
    mk_gemm_family *next = native->families->next;
    destroy_family(ctx, native, native->families);
    native->families = next;
  }
  free_blocks(ctx, native, native->padded, native->padded_bytes);
  free_blocks(ctx, native, native->scratchpad, native->scratchpad_bytes);
  for (int t = 0; native->stream != NULL && t < native->threads; t++) {
    if (native->stream[t] != NULL) dnnl_stream_destroy(native->stream[t]);
  }
  if (native->engine != NULL) dnnl_engine_destroy(native->engine);
  mk_heap_free(ctx, native->scratchpad);
  mk_heap_free(ctx, native->padded);
  mk_heap_free(ctx, native->stream);
  mk_heap_free(ctx, native);
}

/* ---- families ---- */

/* Makes the blocks of each thread at least `need` bytes long. */
static mk_status grow(mk_context *ctx, const mk_gemm_native *native, void **blocks, size_t *bytes, size_t need) {
  if (need <= *bytes) return MK_OK;
  free_blocks(ctx, native, blocks, *bytes);
  *bytes = need;
  for (int t = 0; t < native->threads; t++) {
    MK_TRY(ctx, mk_pages_alloc(ctx, need, &blocks[t]));
  }
  return MK_OK;
}

static mk_status describe_operands(mk_context *ctx, const matmul *mm, dnnl_data_type_t c_type,
                                   dnnl_matmul_desc_t *out) {
  dnnl_memory_desc_t a, b, c;
  const dnnl_dims_t a_dims = {mm->m, mm->k}, b_dims = {mm->k, mm->n}, c_dims = {mm->m, mm->n};
  const dnnl_dims_t a_strides = {mm->a_row, mm->a_col}, b_strides = {mm->b_row, mm->b_col}, c_strides = {mm->ldc, 1};
  DNNL_TRY(ctx, dnnl_memory_desc_init_by_strides(&a, 2, a_dims, dnnl_bf16, a_strides));
  DNNL_TRY(ctx, dnnl_memory_desc_init_by_strides(&b, 2, b_dims, dnnl_bf16, b_strides));
  DNNL_TRY(ctx, dnnl_memory_desc_init_by_strides(&c, 2, c_dims, c_type, c_strides));
  DNNL_TRY(ctx, dnnl_matmul_desc_init(out, &a, &b, NULL, &c));
  return MK_OK;
}

/* The attributes: our scratchpad, and c += instead of c = where asked. */
static mk_status make_attributes(mk_context *ctx, bool sum, dnnl_primitive_attr_t attr) {
  DNNL_TRY(ctx, dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
  if (!sum) return MK_OK;
  dnnl_post_ops_t ops = NULL;
  DNNL_TRY(ctx, dnnl_post_ops_create(&ops));
  dnnl_status_t st = dnnl_post_ops_append_sum(ops, 1.0f);
  if (st == dnnl_success) st = dnnl_primitive_attr_set_post_ops(attr, ops);
  dnnl_post_ops_destroy(ops);
  MK_CHECK(ctx, st == dnnl_success, MK_ERR_DEVICE, "oneDNN: sum post-op failed with status %d", (int)st);
  return MK_OK;
}

static mk_status make_memory(mk_context *ctx, mk_gemm_native *native, const_dnnl_primitive_desc_t desc, tile *out) {
  static const dnnl_query_t queries[MAX_ARGS] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md,
                                                 dnnl_query_scratchpad_md};
  MK_TRY(ctx, mk_heap_array(ctx, (size_t)native->threads * MAX_ARGS, sizeof *out->memory, &out->memory));
  size_t bytes = dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0));
  MK_TRY(ctx, grow(ctx, native, native->scratchpad, &native->scratchpad_bytes, bytes));
  for (int i = 0; i < native->threads * MAX_ARGS; i++) {
    const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(desc, queries[i % MAX_ARGS], 0);
    DNNL_TRY(ctx, dnnl_memory_create(&out->memory[i], md, native->engine, DNNL_MEMORY_NONE));
  }
  return MK_OK;
}

static mk_status make_tile(mk_context *ctx, mk_gemm_native *native, const family_key *key, const matmul *mm,
                           tile *out) {
  dnnl_matmul_desc_t op;
  dnnl_primitive_attr_t attr = NULL;
  dnnl_primitive_desc_t desc = NULL;
  MK_TRY(ctx, describe_operands(ctx, mm, key->c_dtype == MK_BF16 ? dnnl_bf16 : dnnl_f32, &op));
  DNNL_TRY(ctx, dnnl_primitive_attr_create(&attr));
  mk_status st = MK_OK;
  MK_TRY_GOTO(ctx, make_attributes(ctx, key->sum != 0, attr), out);
  dnnl_status_t made = dnnl_primitive_desc_create(&desc, &op, attr, native->engine, NULL);
  MK_CHECK_GOTO(ctx, made == dnnl_success, MK_ERR_UNSUPPORTED, out,
                "oneDNN has no BF16 matmul for [%lld,%lld,%lld] here (status %d); use the widened kernel",
                (long long)mm->m, (long long)mm->n, (long long)mm->k, (int)made);
  made = dnnl_primitive_create(&out->primitive, desc);
  MK_CHECK_GOTO(ctx, made == dnnl_success, MK_ERR_DEVICE, out, "oneDNN: primitive failed with status %d", (int)made);
  MK_TRY_GOTO(ctx, make_memory(ctx, native, desc, out), out);
out:
  if (desc != NULL) dnnl_primitive_desc_destroy(desc);
  dnnl_primitive_attr_destroy(attr);
  return st;
}

static int64_t out_cols(const family_key *key) { return key->kind == MK_GEMM_DGRAD ? key->k : key->n; }

/* Bytes of a padded tail: a, b (wgrad) and c. */
static size_t padded_bytes(const family_key *key) {
  int64_t reduction = key->kind == MK_GEMM_DGRAD ? key->n : key->k;
  if (key->kind == MK_GEMM_WGRAD) return (size_t)(FULL_ROWS * (key->cols + key->k)) * sizeof(mk_bf16);
  return (size_t)(FULL_ROWS * reduction) * sizeof(mk_bf16) + (size_t)(FULL_ROWS * key->cols) * sizeof(float);
}

static mk_status fill_family(mk_context *ctx, mk_gemm_native *native, mk_gemm_family *family) {
  int64_t cols = family->key.cols, last = out_cols(&family->key) % cols;
  MK_TRY(ctx, grow(ctx, native, native->padded, &native->padded_bytes, padded_bytes(&family->key)));
  for (int w = 0; w < WIDTHS; w++) {
    int64_t width = w == 0 ? cols : last;
    if (width == 0 || width > out_cols(&family->key)) continue; /* no tile has this width */
    for (int v = 0; v < VARIANTS; v++) {
      bool full = v == TAILS;
      matmul mm = describe(&family->key, width, full ? FULL_ROWS : (v + 1) * TAIL_UNIT, full);
      MK_TRY(ctx, make_tile(ctx, native, &family->key, &mm, &family->tiles[w][v]));
    }
  }
  return MK_OK;
}

mk_status mk_gemm_native_family(mk_context *ctx, mk_gemm_native *native, const mk_gemm_plan *plan,
                                mk_gemm_family **out) {
  const mk_gemm_call *call = plan->call;
  family_key key = {(int64_t)call->kind,
                    call->n,
                    call->k,
                    plan->tiles.cols,
                    (int64_t)call->c.dtype,
                    call->kind == MK_GEMM_WGRAD || mk_tensor_present(&call->add)};
  for (mk_gemm_family *family = native->families; family != NULL; family = family->next) {
    if (memcmp(&family->key, &key, sizeof key) != 0) continue;
    *out = family;
    return MK_OK;
  }
  mk_gemm_family *family = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *family, &family));
  family->key = key;
  int threads = omp_get_max_threads();
  omp_set_num_threads(1); /* primitives remember the number of threads that they were made for */
  mk_status st = fill_family(ctx, native, family);
  omp_set_num_threads(threads);
  if (st != MK_OK) {
    destroy_family(ctx, native, family);
    return mk_trace(ctx, st, __FILE__, __LINE__);
  }
  family->next = native->families;
  native->families = family;
  *out = family;
  return MK_OK;
}

/* ---- execution, inside the parallel region ---- */

static bool execute(const mk_gemm_native *native, const tile *t, int thread, const void *a, const void *b, void *c) {
  dnnl_memory_t *memory = t->memory + (ptrdiff_t)thread * MAX_ARGS;
  void *const handles[MAX_ARGS] = {(void *)a, (void *)b, c, native->scratchpad[thread]};
  static const int args[MAX_ARGS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};
  dnnl_exec_arg_t exec[MAX_ARGS];
  for (int i = 0; i < MAX_ARGS; i++) {
    if (dnnl_memory_set_data_handle(memory[i], handles[i]) != dnnl_success) return false;
    exec[i] = (dnnl_exec_arg_t){args[i], memory[i]};
  }
  return dnnl_primitive_execute(t->primitive, native->stream[thread], MAX_ARGS, exec) == dnnl_success;
}

/* Copies rows x cols elements into the compact block `dst` and clears rows up to `padded`. */
static void *pad(const mk_tensor *src, int64_t offset, int64_t ld, int64_t rows, int64_t cols, int64_t padded,
                 void *dst) {
  size_t bytes = (size_t)cols * mk_dtype_bytes(src->dtype);
  for (int64_t r = 0; r < rows; r++)
    memcpy((char *)dst + (size_t)r * bytes, mk_gemm_at(src, offset + r * ld), bytes);
  memset((char *)dst + (size_t)rows * bytes, 0, (size_t)(padded - rows) * bytes);
  return (char *)dst + (size_t)padded * bytes;
}

static void copy_rows(const mk_tensor *from, int64_t from_offset, int64_t from_ld, const mk_tensor *to,
                      int64_t to_offset, int64_t to_ld, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    memcpy(mk_gemm_at(to, to_offset + r * to_ld), mk_gemm_at(from, from_offset + r * from_ld),
           (size_t)cols * mk_dtype_bytes(to->dtype));
  }
}

static bool wgrad_tile(mk_gemm_native *native, const tile *tiles, const mk_gemm_call *call, const mk_gemm_task *task,
                       int thread) {
  void *c = mk_gemm_at(&call->c, mk_gemm_weight_offset(task->group, call->n, call->k, task->col, 0));
  if (call->overwrite) mk_gemm_wgrad_clear(call, task);
  for (int64_t done = 0; done < task->rows; done += FULL_ROWS) {
    int64_t rows = task->rows - done < FULL_ROWS ? task->rows - done : FULL_ROWS, row = task->row + done;
    int64_t a_offset = mk_gemm_row_offset(row, task->col, call->n), b_offset = mk_gemm_row_offset(row, 0, call->k);
    const void *a = mk_gemm_at(&call->a, a_offset), *b = mk_gemm_at(&call->b, b_offset);
    int64_t variant = rows == FULL_ROWS ? TAILS : (rows - 1) / TAIL_UNIT;
    if (variant < TAILS) {
      int64_t padded = (variant + 1) * TAIL_UNIT;
      a = native->padded[thread];
      b = pad(&call->a, a_offset, call->n, rows, task->cols, padded, native->padded[thread]);
      pad(&call->b, b_offset, call->k, rows, call->k, padded, (void *)b);
    }
    if (!execute(native, &tiles[variant], thread, a, b, c)) return false;
  }
  return true;
}

bool mk_gemm_native_tile(mk_gemm_native *native, mk_gemm_family *family, const mk_gemm_plan *plan,
                         const mk_gemm_task *task, int thread) {
  const mk_gemm_call *call = plan->call;
  const tile *tiles = family->tiles[task->cols == plan->tiles.cols ? 0 : 1];
  if (call->kind == MK_GEMM_WGRAD) return wgrad_tile(native, tiles, call, task, thread);
  int64_t out = mk_gemm_out_cols(call), reduction = mk_gemm_reduction(call);
  int64_t a_offset = mk_gemm_row_offset(task->row, 0, reduction);
  int64_t c_offset = mk_gemm_row_offset(task->row, task->col, out);
  bool fwd = call->kind == MK_GEMM_FWD, add = mk_tensor_present(&call->add);
  const void *b = mk_gemm_at(
      &call->b, mk_gemm_weight_offset(task->group, call->n, call->k, fwd ? task->col : 0, fwd ? 0 : task->col));
  if (task->rows == FULL_ROWS) {
    void *c = mk_gemm_at(&call->c, c_offset);
    if (add && mk_gemm_at(&call->add, c_offset) != c) {
      copy_rows(&call->add, c_offset, out, &call->c, c_offset, out, task->rows, task->cols);
    }
    return execute(native, &tiles[TAILS], thread, mk_gemm_at(&call->a, a_offset), b, c);
  }
  int64_t variant = (task->rows - 1) / TAIL_UNIT, padded = (variant + 1) * TAIL_UNIT;
  void *a = native->padded[thread];
  mk_tensor c = {.data = pad(&call->a, a_offset, reduction, task->rows, reduction, padded, a), .dtype = call->c.dtype};
  if (add) pad(&call->add, c_offset, out, task->rows, task->cols, padded, c.data);
  if (!execute(native, &tiles[variant], thread, a, b, c.data)) return false;
  copy_rows(&c, 0, task->cols, &call->c, c_offset, out, task->rows, task->cols);
  return true;
}

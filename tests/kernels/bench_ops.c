/* Times every GEMM and the attention of two models in FP32 and BF16, with both BF16 kernels, and prints the rate of
 * each and its share of the best GEMM rate seen: where a step's time can still be won. A program, not a test.
 *
 *   bench_ops [gemm|attention|all] [rounds] [threads]
 *
 * All cases run once a round, so that drift of the machine hits them alike; the best and the median round are printed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "kernels/base/out.h"
#include "kernels/ops/ops.h"

enum { MAX_CASES = 128, MAX_ROUNDS = 1000, FILL = 0x3c, MOST_EXPERTS = 32 };

/* Sizes of the shapes S and L: 2,048 tokens a step, top-4 of E experts. */
typedef struct model {
  const char *name;
  int64_t d, heads, kv_heads, head_dim, experts, hidden, vocab, seq_len;
} model;

static const model models[] = {
    {"S", 256, 4, 2, 64, 16, 256, 4096, 256},
    {"L", 512, 8, 2, 64, 32, 512, 8192, 512},
};

enum { TOKENS = 2048, TOP_K = 4 };

typedef enum op_kind { FWD, DGRAD, WGRAD, ATTENTION_FWD, ATTENTION_BWD } op_kind;

typedef struct bench_case {
  char name[48];
  mk_stream *stream;
  op_kind kind;
  mk_dtype dtype;
  mk_tensor x, w, packed, y, dw, offsets; /* attention: qkv, d_o, work, o, dqkv, lse */
  mk_qk_shape shape;
  double flops;
  double seconds[MAX_ROUNDS];
} bench_case;

typedef struct bench {
  mk_context ctx;
  mk_device *dev[2]; /* widened, native */
  mk_stream *stream[2];
  bench_case *cases;
  int n_cases, rounds;
} bench;

static const char *const kind_names[] = {"fwd", "dgrad", "wgrad", "attention_fwd", "attention_bwd"};

static void must(bench *b, mk_status st, const char *what) {
  if (st == MK_OK) return;
  mk_out("%s: %s\n", what, b->ctx.error.message);
  (void)mk_out_flush(&b->ctx);
  exit(1);
}

static mk_tensor place(bench *b, int device, mk_tensor t) {
  must(b, mk_device_alloc(b->dev[device], MK_MEM_WORKSPACE, mk_tensor_bytes(&t) + 64, &t.data), "memory");
  must(b, mk_fill(b->stream[device], &t, FILL), "fill");
  return t;
}

/* Uneven groups, as a router makes them: sizes between half and one and a half of the mean. */
static mk_tensor place_offsets(bench *b, int device, int64_t groups, int64_t rows) {
  int32_t ends[MOST_EXPERTS + 1] = {0};
  int64_t weight[MOST_EXPERTS], sum = 0, at = 0;
  for (int64_t e = 0; e < groups; e++)
    sum += weight[e] = 16 + (e * 7) % 33;
  for (int64_t e = 0; e < groups; e++)
    ends[e + 1] = (int32_t)((at += weight[e]) * rows / sum);
  mk_tensor t = place(b, device, mk_tensor_1d(MK_I32, groups + 1));
  must(b, mk_copy_h2d(b->stream[device], &t, ends), "offsets");
  return t;
}

static bench_case *new_case(bench *b, int device, op_kind kind, mk_dtype dtype, const char *name) {
  bench_case *c = &b->cases[b->n_cases++];
  if (b->n_cases > MAX_CASES) exit(1);
  *c = (bench_case){.stream = b->stream[device], .kind = kind, .dtype = dtype};
  const char *kernel = dtype == MK_F32 ? "" : device == 0 ? " widened" : " native";
  snprintf(c->name, sizeof c->name, "%-20s %-13s %s%s", name, kind_names[kind], mk_dtype_name(dtype), kernel);
  return c;
}

static void add_gemm(bench *b, int device, mk_dtype dtype, const char *name, int64_t groups, int64_t rows, int64_t n,
                     int64_t k) {
  mk_tensor x = place(b, device, mk_tensor_2d(dtype, rows, k)), y = place(b, device, mk_tensor_2d(dtype, rows, n));
  mk_tensor w = place(b, device, groups > 1 ? mk_tensor_3d(dtype, groups, n, k) : mk_tensor_2d(dtype, n, k));
  mk_tensor dw = w, offsets = {0}, packed = {0};
  dw.dtype = MK_F32;
  dw = place(b, device, dw);
  if (groups > 1) offsets = place_offsets(b, device, groups, rows);
  size_t bytes = mk_gemm_pack_bytes(b->dev[device], dtype, groups, n, k);
  if (bytes > 0) {
    packed = place(b, device, mk_tensor_1d(MK_U8, (int64_t)bytes));
    must(b, mk_linear_pack(b->stream[device], &(mk_linear_pack_args){.w = w, .packed = packed}), "pack");
  }
  for (int kind = FWD; kind <= WGRAD; kind++) {
    bench_case *c = new_case(b, device, (op_kind)kind, dtype, name);
    c->flops = 2.0 * (double)rows * (double)n * (double)k;
    c->x = x;
    c->w = w;
    c->packed = packed;
    c->y = y;
    c->dw = dw;
    c->offsets = offsets;
  }
}

static mk_status launch_gemm(const bench_case *c) {
  mk_stream *s = c->stream;
  if (c->kind == FWD) {
    return mk_linear_fwd(s, &(mk_linear_fwd_args){.x = c->x, .w = c->w, .packed = c->packed, .y = c->y});
  }
  if (c->kind == DGRAD) {
    return mk_linear_dgrad(s, &(mk_linear_dgrad_args){.dy = c->y, .w = c->w, .packed = c->packed, .dx = c->x});
  }
  return mk_linear_wgrad(s, &(mk_linear_wgrad_args){.dy = c->y, .x = c->x, .dw = c->dw});
}

static mk_status launch_grouped(const bench_case *c) {
  mk_stream *s = c->stream;
  if (c->kind == FWD) {
    return mk_grouped_gemm_fwd(
        s, &(mk_grouped_gemm_fwd_args){.x = c->x, .w = c->w, .packed = c->packed, .offsets = c->offsets, .y = c->y});
  }
  if (c->kind == DGRAD) {
    return mk_grouped_gemm_dgrad(s, &(mk_grouped_gemm_dgrad_args){
                                        .dy = c->y, .w = c->w, .packed = c->packed, .offsets = c->offsets, .dx = c->x});
  }
  return mk_grouped_gemm_wgrad(
      s, &(mk_grouped_gemm_wgrad_args){.dy = c->y, .x = c->x, .offsets = c->offsets, .dw = c->dw});
}

static mk_status launch_attention(const bench_case *c) {
  mk_stream *s = c->stream;
  if (c->kind == ATTENTION_FWD) {
    return mk_attention_fwd(
        s, &(mk_attention_fwd_args){.qkv = c->x, .o = c->y, .lse = c->offsets, .work = c->packed, .shape = c->shape});
  }
  return mk_attention_bwd(
      s,
      &(mk_attention_bwd_args){
          .d_o = c->w, .qkv = c->x, .o = c->y, .lse = c->offsets, .dqkv = c->dw, .work = c->packed, .shape = c->shape});
}

static mk_status launch(const bench_case *c) {
  if (c->kind >= ATTENTION_FWD) return launch_attention(c);
  return mk_tensor_present(&c->offsets) ? launch_grouped(c) : launch_gemm(c);
}

static void add_attention(bench *b, mk_dtype dtype, const model *m) {
  mk_qk_shape shape = {m->heads, m->kv_heads, m->head_dim, m->seq_len};
  int64_t width = (m->heads + 2 * m->kv_heads) * m->head_dim, out = m->heads * m->head_dim;
  mk_tensor qkv = place(b, 0, mk_tensor_2d(dtype, TOKENS, width)), dqkv = place(b, 0, qkv);
  mk_tensor o = place(b, 0, mk_tensor_2d(dtype, TOKENS, out)), d_o = place(b, 0, o);
  mk_tensor lse = place(b, 0, mk_tensor_2d(MK_F32, m->heads, TOKENS));
  size_t bytes = mk_attention_work_bytes(b->dev[0], TOKENS, &shape);
  mk_tensor work = place(b, 0, mk_tensor_1d(MK_U8, (int64_t)bytes));
  for (int kind = ATTENTION_FWD; kind <= ATTENTION_BWD; kind++) {
    bench_case *c = new_case(b, 0, (op_kind)kind, dtype, m->name);
    c->flops = (kind == ATTENTION_FWD ? 4.0 : 10.0) * TOKENS * (double)(m->seq_len + 1) / 2 * (double)out;
    c->x = qkv;
    c->w = d_o;
    c->packed = work;
    c->y = o;
    c->dw = dqkv;
    c->offsets = lse;
    c->shape = shape;
  }
}

static void add_model(bench *b, const model *m, const char *what) {
  const struct {
    int device;
    mk_dtype dtype;
  } modes[] = {{0, MK_F32}, {0, MK_BF16}, {1, MK_BF16}};
  char name[48];
  for (int i = 0; i < 3 && strcmp(what, "attention") != 0; i++) {
    int device = modes[i].device;
    mk_dtype dtype = modes[i].dtype;
    if (b->dev[device] == NULL) continue;
    snprintf(name, sizeof name, "%s qkv", m->name);
    add_gemm(b, device, dtype, name, 1, TOKENS, (m->heads + 2 * m->kv_heads) * m->head_dim, m->d);
    snprintf(name, sizeof name, "%s attention out", m->name);
    add_gemm(b, device, dtype, name, 1, TOKENS, m->d, m->heads * m->head_dim);
    snprintf(name, sizeof name, "%s head", m->name);
    add_gemm(b, device, dtype, name, 1, TOKENS, m->vocab, m->d);
    snprintf(name, sizeof name, "%s experts up,gate", m->name);
    add_gemm(b, device, dtype, name, m->experts, TOKENS * TOP_K, 2 * m->hidden, m->d);
    snprintf(name, sizeof name, "%s experts down", m->name);
    add_gemm(b, device, dtype, name, m->experts, TOKENS * TOP_K, m->d, m->hidden);
  }
  for (int i = 0; i < 2 && strcmp(what, "gemm") != 0; i++)
    add_attention(b, modes[i].dtype, m);
}

static void run_rounds(bench *b) {
  for (int round = -1; round < b->rounds; round++) { /* round -1 warms up */
    for (int i = 0; i < b->n_cases; i++) {
      bench_case *c = &b->cases[i];
      double begin = mk_device_now_s(c->stream->dev);
      must(b, launch(c), c->name);
      if (round >= 0) c->seconds[round] = mk_device_now_s(c->stream->dev) - begin;
    }
  }
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void print(bench *b) {
  double peak = 0;
  for (int i = 0; i < b->n_cases; i++) {
    qsort(b->cases[i].seconds, (size_t)b->rounds, sizeof(double), by_value);
    double rate = b->cases[i].flops / b->cases[i].seconds[0];
    if (b->cases[i].dtype == MK_F32 && rate > peak) peak = rate;
  }
  mk_out("%-48s %9s %9s %9s %s\n", "case", "best ms", "GFLOP/s", "median", "best / best of f32");
  for (int i = 0; i < b->n_cases; i++) {
    const bench_case *c = &b->cases[i];
    double best = c->seconds[0], median = c->seconds[b->rounds / 2];
    mk_out("%-48s %9.3f %9.1f %9.1f %8.2f\n", c->name, best * 1e3, c->flops / best * 1e-9, c->flops / median * 1e-9,
           c->flops / best / peak);
  }
}

int main(int argc, char **argv) {
  static const mk_kernel kernels[] = {MK_KERNEL_WIDENED, MK_KERNEL_NATIVE};
  bench b = {.rounds = argc > 2 ? atoi(argv[2]) : 20};
  const char *what = argc > 1 ? argv[1] : "all";
  if (b.rounds < 1 || b.rounds > MAX_ROUNDS) b.rounds = MAX_ROUNDS;
  must(&b, mk_heap_array(&b.ctx, MAX_CASES, sizeof *b.cases, &b.cases), "memory");
  for (int i = 0; i < 2; i++) {
    mk_device_config config = {.name = "cpu", .threads = argc > 3 ? atoi(argv[3]) : 0, .kernel = kernels[i]};
    if (mk_device_create(&b.ctx, &config, &b.dev[i]) != MK_OK) continue; /* no native kernel on this processor */
    must(&b, mk_stream_create(b.dev[i], "bench", &b.stream[i]), "stream");
  }
  for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
    add_model(&b, &models[i], what);
  run_rounds(&b);
  print(&b);
  return mk_out_flush(&b.ctx) == MK_OK ? 0 : 1;
}

/* Attention: work. A query reads (S + 1) / 2 keys on average; two products forward, five backward, 2 hd flops each. */
#include "kernels/ops/attention/attention.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/work.h"

static double flops(const mk_qk_shape *s, double tokens, int products) {
  return products * 2 * tokens * (double)(s->seq_len + 1) / 2 * (double)(s->heads * s->head_dim);
}

mk_work mk_attention_fwd_work(const void *args, int64_t rows) {
  const mk_attention_fwd_args *a = args;
  return (mk_work){.flops = flops(&a->shape, mk_work_rows(&a->o, rows), 2),
                   .bytes = mk_work_row_bytes(&a->qkv, rows) + mk_work_row_bytes(&a->o, rows) + mk_work_bytes(&a->lse),
                   .gemm = true};
}

mk_work mk_attention_bwd_work(const void *args, int64_t rows) {
  const mk_attention_bwd_args *a = args;
  return (mk_work){
      .flops = flops(&a->shape, mk_work_rows(&a->o, rows), 5),
      .bytes = 2 * mk_work_row_bytes(&a->qkv, rows) + 2 * mk_work_row_bytes(&a->o, rows) + mk_work_bytes(&a->lse),
      .gemm = true};
}

/* MXFP8 in the model (Olmo-core 3.0.0 olmo_core/kernels/{mxfp8_linear,scaled_grouped_mm}.py, nn/moe/v2/fp8.py). What is
 * quantised, always along the dimension that the product sums over:
 *
 *                             forward       data gradient   weight gradient
 *   q,k,v and output proj.    x, W          dY, W^T         dY^T and x^T, along the tokens
 *   experts, shared, dense    x, W          dY, W^T         BF16 product of dY and the saved x, read back from MXFP8
 *   rows on the way (mxfp8_ep) to the experts and back, in both directions; dY of the experts is then read back too
 *
 * Sums are FP32, results BF16; everything else is as in BF16. Weights are quantised in both orientations once a step,
 * from the BF16 copies; weights that are cut over ranks (fsdp) travel in BF16, and each use quantises what came. Rows
 * are rounded alike in every transport and on one rank, so that no layout changes a loss. */
#ifndef TRAINER_MODEL_MXFP8_H
#define TRAINER_MODEL_MXFP8_H

#include "trainer/model/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Quantised copies of a weight, where it has them and is whole. */
mk_status mt_mxfp8_pack(mt_model *m, mk_stream *stream, const mt_param *p);

/* A layer that is cut over ranks is whole again: the quantised copies that the use multiplies, both where the backward
 * pass makes activations again. */
mk_status mt_mxfp8_needed(mt_model *m, mk_stream *stream, int unit, mt_use use);

/* As mt_linear_forward and _backward; add may be absent. */
mk_status mt_mxfp8_linear_forward(mt_model *m, const mt_pass *p, const mt_param *w, const mk_tensor *x,
                                  const mk_tensor *y);
mk_status mt_mxfp8_linear_backward(mt_model *m, const mt_pass *p, const mt_param *w, const mk_tensor *x,
                                   const mk_tensor *dy, const mk_tensor *add, const mk_tensor *dx);

/* As mt_experts_forward and _backward. */
mk_status mt_mxfp8_experts_forward(mt_model *m, const mt_pass *p, mt_layer *l);
mk_status mt_mxfp8_experts_backward(mt_model *m, const mt_pass *p, mt_layer *l);

/* Scratch of the above; nothing under another precision. hidden: the widest shared expert or dense MLP of this rank;
 * rows: the most that its experts take, 0 without MoE layers. */
void mt_mxfp8_place_scratch(mt_model *m, mk_arena *work, int64_t hidden, int64_t rows);

/* A quantised [n,k] matrix in scratch `i`. */
mk_mxfp8 mt_mxfp8_scratch(const mt_model *m, int i, int64_t n, int64_t k);

#ifdef __cplusplus
}
#endif

#endif

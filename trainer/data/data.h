/* Tokens and labels of a step, the same whatever the number of ranks.
 *
 * A window is seq_len tokens. A step has W = global_tokens / seq_len windows; they are cut into blocks of rank_tokens,
 * and microbatch m of data-parallel rank r is block b = m * dp + r. So one rank with m * dp microbatches sees, in
 * order, what dp ranks see side by side. Global window g = step * W + b * (rank_tokens / seq_len) + i is what sources
 * are asked for; none of them knows ranks.
 *
 * Sources (cfg.data):
 *   random    token k of the endless stream is drawn from (seed, k); window g starts at token g * seq_len
 *   bytes, bin, npy
 *             tokens of files (token_file.h), in windows that do not overlap, those of all files shuffled anew each
 *             epoch (shuffle.h). Training windows come from each file without its last holdout fraction; a rest shorter
 *             than a window is left out, in each file
 *   tensors   safetensors file with tokens [steps,batch,seq] (I32, I64 or U8) and optionally labels alike, in file
 *             order; with holdout the last windows of the file are held out
 * Labels: with label_shift_inside the next token inside the window and -100 at its end (Olmo-core, seq_len - 1 labels a
 * window); without, a window reads one token more and every label counts. Given labels must follow the same rule.
 * Evaluation takes the first eval_tokens / seq_len held-out windows in order (random: a stream of its own). */
#ifndef TRAINER_DATA_DATA_H
#define TRAINER_DATA_DATA_H

#include "kernels/base/hash.h"
#include "trainer/launch/config.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MT_LABEL_IGNORED = -100 };

typedef struct mt_data mt_data;

/* Opens the source for rank `dp_rank` of mt_config_dp(cfg). An unreadable, empty or too short file (training: one
 * window; evaluation: eval_tokens) is refused here. Copies what it needs of cfg. */
mk_status mt_data_create(mk_context *ctx, const mt_config *cfg, int64_t dp_rank, mt_data **out);
void mt_data_destroy(mt_data *data);

/* Fills tokens and labels (rank_tokens each, host memory) of a training microbatch. No allocation. A token or label
 * outside [0, vocab) is MK_ERR_FORMAT with file, place and value. */
mk_status mt_data_batch(mt_data *data, int64_t step, int64_t microbatch, int32_t *tokens, int32_t *labels);

/* The same for evaluation microbatch 0 .. mt_data_eval_microbatches - 1; windows past the last get labels -100. */
mk_status mt_data_eval_batch(mt_data *data, int64_t microbatch, int32_t *tokens, int32_t *labels);

/* Step `step` (from 0) begins at training window `window`, and later steps follow it: where a resumed run goes on, also
 * when its steps are of another size. At first step 0 begins at window 0. */
void mt_data_start(mt_data *data, int64_t step, int64_t window);

/* Training windows that the steps before `step` have consumed. */
int64_t mt_data_windows_before(const mt_data *data, int64_t step);

/* Do the data last from where `step` begins to the end of step `last`? Only tensors come to an end: MK_ERR_FORMAT names
 * file and windows. Asked once the position is known, before a run. */
mk_status mt_data_check_length(const mt_data *data, int64_t step, int64_t last);

/* SHA-256 of what the windows are made of: the kind of source and, of files, size, first and last MiB each. Names do
 * not count, so that files may move. */
mk_status mt_data_fingerprint(const mt_data *data, char out[MK_HASH_BYTES]);

/* Pure counts. Labels that count in a step over all ranks, which is what every loss term is divided by; index inside
 * the step of a microbatch's first token. */
int64_t mt_data_labels_per_step(const mt_config *cfg);
int64_t mt_data_first_token(const mt_config *cfg, int64_t dp_rank, int64_t microbatch);

/* Evaluation: microbatches of each rank (the same on all), labels over all ranks. */
int64_t mt_data_eval_microbatches(const mt_config *cfg);
int64_t mt_data_eval_labels(const mt_config *cfg);

#ifdef __cplusplus
}
#endif

#endif

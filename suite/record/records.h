/* The trainer's records.jsonl (format: trainer/step/record.h) as a structure. Absent numbers and JSON null are NaN;
 * unknown keys and record types are ignored. */
#ifndef SUITE_RECORD_RECORDS_H
#define SUITE_RECORD_RECORDS_H

#include <stdint.h>

#include "kernels/base/status.h"

enum { MS_WORD_BYTES = 64, MS_MEM_PARTS = 6 };

/* Names of the memory parts, in the order of the arrays below: params, grads, optim, activations, comm, workspace. */
extern const char *const MS_MEM_PART_NAMES[MS_MEM_PARTS];

typedef struct ms_step {
  int64_t step;
  double time_s, time_median_s, compute_max_s, compute_median_s, tokens;
  double loss, ce, z, lb_mean, rz, grad_norm, lr, skipped, drop_rate, imbalance;
  double host_waits, wire_bytes, device_allocs;
} ms_step;

typedef struct ms_eval {
  int64_t step;
  double time_s, tokens, loss;
} ms_eval;

typedef struct ms_records {
  bool has_start, has_end;
  int64_t ranks, threads;
  int64_t resumed_step; /* steps of an earlier run that this one goes on from */
  char device[MS_WORD_BYTES], kernel[MS_WORD_BYTES], library[2 * MS_WORD_BYTES], isa[2 * MS_WORD_BYTES];
  char flops_convention[MS_WORD_BYTES];
  char describe[512];
  double params_total, params_active, flop_token;
  /* of the rank that plans most; trainer/step/record.h says which ranks the end speaks of */
  double planned_bytes[MS_MEM_PARTS];
  ms_step *steps;
  int64_t n_steps;
  ms_eval *evals;
  int64_t n_evals;
  char end_status[MS_WORD_BYTES];
  char end_message[MK_MESSAGE_BYTES];
  int end_code;
  double steps_done; /* as the end line says */
  double peak_bytes[MS_MEM_PARTS], peak_total_bytes, reserved_bytes;
  double host_waits_step, wire_bytes_step, bound_s;
  double rank_spread_loss; /* largest difference of the last loss between ranks; NaN where the trainer does not say */
} ms_records;

mk_status ms_records_create(mk_context *ctx, ms_records **out);
void ms_records_destroy(mk_context *ctx, ms_records *records);

/* Adds one line (without its line break). A start line takes back the end before it and the steps after those that it
 * goes on from; a step that stands twice counts by its later line. A line that is no JSON object or has a key twice is
 * MK_ERR_FORMAT naming `path` and `number`. */
mk_status ms_records_line_add(mk_context *ctx, ms_records *records, const char *path, int64_t number, const char *line,
                              size_t bytes);

/* Reads a whole file. A last line without its line break was cut off by the end of the writer and is left out. */
mk_status ms_records_read(mk_context *ctx, const char *path, ms_records **out);

#endif

/* One JSON object a line, through cJSON. Fields are one table each, so that a new one is one line here. */
#include "suite/record/records.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "kernels/base/json.h"

const char *const MS_MEM_PART_NAMES[MS_MEM_PARTS] = {"params", "grads", "optim", "activations", "comm", "workspace"};

typedef struct field {
  const char *key;
  size_t offset;
} field;

#define STEP(name) \
  { #name, offsetof(ms_step, name) }
#define RUN(name) \
  { #name, offsetof(ms_records, name) }

static const field STEP_FIELDS[] = {STEP(time_s),
                                    STEP(time_median_s),
                                    STEP(compute_max_s),
                                    STEP(compute_median_s),
                                    STEP(tokens),
                                    STEP(loss),
                                    STEP(ce),
                                    STEP(z),
                                    STEP(lb_mean),
                                    STEP(rz),
                                    STEP(grad_norm),
                                    STEP(lr),
                                    STEP(skipped),
                                    STEP(drop_rate),
                                    STEP(imbalance),
                                    STEP(host_waits),
                                    STEP(wire_bytes),
                                    STEP(device_allocs),
                                    {NULL, 0}};
static const field START_FIELDS[] = {RUN(params_total), RUN(params_active), RUN(flop_token), {NULL, 0}};
static const field END_FIELDS[] = {{"steps", offsetof(ms_records, steps_done)},
                                   RUN(peak_total_bytes),
                                   RUN(reserved_bytes),
                                   RUN(host_waits_step),
                                   RUN(wire_bytes_step),
                                   RUN(bound_s),
                                   RUN(rank_spread_loss),
                                   {NULL, 0}};

static double number_of(const cJSON *object, const char *key) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  if (cJSON_IsBool(item)) return cJSON_IsTrue(item) ? 1 : 0;
  return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

static int64_t integer_of(const cJSON *object, const char *key) {
  double value = number_of(object, key);
  return fabs(value) < 9e15 ? (int64_t)value : 0;
}

static void numbers_copy(const cJSON *object, const field *fields, void *base) {
  for (const field *f = fields; f->key != NULL; f++)
    *(double *)((char *)base + f->offset) = number_of(object, f->key);
}

static void text_copy(const cJSON *object, const char *key, char *dest, size_t bytes) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  snprintf(dest, bytes, "%s", cJSON_IsString(item) ? item->valuestring : "");
}

static void parts_copy(const cJSON *object, const char *key, double *parts) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  for (int i = 0; i < MS_MEM_PARTS; i++)
    parts[i] = number_of(item, MS_MEM_PART_NAMES[i]);
}

static void end_clear(ms_records *r) {
  r->has_end = false;
  numbers_copy(NULL, END_FIELDS, r); /* all NaN until a record says otherwise */
  parts_copy(NULL, "peak_bytes", r->peak_bytes);
}

/* A run that goes on in this file does the steps after `resumed_step` again, and ends by itself. */
static void start_add(ms_records *r, const cJSON *object) {
  r->has_start = true;
  r->resumed_step = integer_of(object, "resumed_step");
  while (r->n_steps > 0 && r->steps[r->n_steps - 1].step > r->resumed_step)
    r->n_steps -= 1;
  while (r->n_evals > 0 && r->evals[r->n_evals - 1].step > r->resumed_step)
    r->n_evals -= 1;
  end_clear(r);
  r->ranks = integer_of(object, "ranks");
  r->threads = integer_of(object, "threads");
  text_copy(object, "device", r->device, sizeof r->device);
  text_copy(object, "kernel", r->kernel, sizeof r->kernel);
  text_copy(object, "isa", r->isa, sizeof r->isa);
  text_copy(object, "library", r->library, sizeof r->library);
  text_copy(object, "describe", r->describe, sizeof r->describe);
  text_copy(object, "flops_convention", r->flops_convention, sizeof r->flops_convention);
  numbers_copy(object, START_FIELDS, r);
  parts_copy(object, "planned_bytes", r->planned_bytes);
}

/* Room for one more: the arrays double at powers of two. */
static mk_status grow(mk_context *ctx, void *array, int64_t count, size_t size) {
  if ((count & (count - 1)) != 0) return MK_OK;
  return mk_heap_resize(ctx, array, (size_t)(count == 0 ? 1 : 2 * count) * size);
}

/* A step that stands twice was done again: the later line counts, and what followed the earlier one does not. */
static mk_status step_add(mk_context *ctx, ms_records *r, const cJSON *object) {
  int64_t number = integer_of(object, "step");
  while (r->n_steps > 0 && r->steps[r->n_steps - 1].step >= number)
    r->n_steps -= 1;
  MK_TRY(ctx, grow(ctx, &r->steps, r->n_steps, sizeof *r->steps));
  ms_step *step = &r->steps[r->n_steps];
  step->step = number;
  numbers_copy(object, STEP_FIELDS, step);
  r->n_steps += 1;
  return MK_OK;
}

static mk_status eval_add(mk_context *ctx, ms_records *r, const cJSON *object) {
  int64_t number = integer_of(object, "step");
  while (r->n_evals > 0 && r->evals[r->n_evals - 1].step >= number)
    r->n_evals -= 1;
  MK_TRY(ctx, grow(ctx, &r->evals, r->n_evals, sizeof *r->evals));
  r->evals[r->n_evals] = (ms_eval){.step = number,
                                   .time_s = number_of(object, "time_s"),
                                   .tokens = number_of(object, "tokens"),
                                   .loss = number_of(object, "loss")};
  r->n_evals += 1;
  return MK_OK;
}

static void end_add(ms_records *r, const cJSON *object) {
  r->has_end = true;
  text_copy(object, "status", r->end_status, sizeof r->end_status);
  text_copy(object, "message", r->end_message, sizeof r->end_message);
  r->end_code = (int)integer_of(object, "code");
  numbers_copy(object, END_FIELDS, r);
  parts_copy(object, "peak_bytes", r->peak_bytes);
}

mk_status ms_records_create(mk_context *ctx, ms_records **out) {
  ms_records *r = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *r, &r));
  numbers_copy(NULL, START_FIELDS, r);
  parts_copy(NULL, "planned_bytes", r->planned_bytes);
  end_clear(r);
  *out = r;
  return MK_OK;
}

void ms_records_destroy(mk_context *ctx, ms_records *records) {
  if (records == NULL) return;
  mk_heap_free(ctx, records->steps);
  mk_heap_free(ctx, records->evals);
  mk_heap_free(ctx, records);
}

mk_status ms_records_line_add(mk_context *ctx, ms_records *r, const char *path, int64_t number, const char *line,
                              size_t bytes) {
  mk_status st = MK_OK;
  char type[MS_WORD_BYTES];
  cJSON *object = NULL;
  MK_TRY_GOTO(ctx, mk_json_parse_line(ctx, MK_ERR_FORMAT, path, number, line, bytes, &object), out);
  text_copy(object, "type", type, sizeof type);
  if (strcmp(type, "start") == 0) start_add(r, object);
  if (strcmp(type, "step") == 0) MK_TRY_GOTO(ctx, step_add(ctx, r, object), out);
  if (strcmp(type, "eval") == 0) MK_TRY_GOTO(ctx, eval_add(ctx, r, object), out);
  if (strcmp(type, "end") == 0) end_add(r, object);
out:
  cJSON_Delete(object);
  return st;
}

mk_status ms_records_read(mk_context *ctx, const char *path, ms_records **out) {
  mk_status st = MK_OK;
  char *text = NULL;
  size_t bytes = 0;
  ms_records *r = NULL;
  MK_TRY_GOTO(ctx, mk_file_read(ctx, path, &text, &bytes), out);
  MK_TRY_GOTO(ctx, ms_records_create(ctx, &r), out);
  int64_t number = 0;
  const char *line = text;
  for (const char *end; (end = memchr(line, '\n', (size_t)(text + bytes - line))) != NULL; line = end + 1) {
    number += 1;
    if (end > line) MK_TRY_GOTO(ctx, ms_records_line_add(ctx, r, path, number, line, (size_t)(end - line)), out);
  }
  *out = r;
  r = NULL;
out:
  ms_records_destroy(ctx, r);
  mk_heap_free(ctx, text);
  return st;
}

/* Keys: status, reason, impl, shape, dtype, threads, tokens_step, warmup_steps, step_ms[], flops_per_token, params,
 * peak_rss_mib, loss_first, loss_last, isa, torch, transformers (baselines/peers/torch/README.md). */
#include "suite/run/peer.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "kernels/base/json.h"

static const char *text_of(const cJSON *object, const char *key) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  return cJSON_IsString(item) ? item->valuestring : "";
}

static double number_of(const cJSON *object, const char *key) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

/* Last line that holds anything, and its number from 1. */
static const char *last_line(const char *text, size_t *bytes, int64_t *number) {
  size_t end = strlen(text);
  while (end > 0 && strchr("\n\r \t", text[end - 1]) != NULL)
    end--;
  size_t start = end;
  while (start > 0 && text[start - 1] != '\n')
    start--;
  *bytes = end - start;
  *number = 1;
  for (size_t i = 0; i < start; i++)
    *number += text[i] == '\n';
  return text + start;
}

static mt_precision precision_of(const char *dtype) {
  if (strcmp(dtype, "fp32") == 0) return MT_FP32;
  return strstr(dtype, "bf16") != NULL || strcmp(dtype, "autocast") == 0 ? MT_BF16 : MT_FP64;
}

static void isa_join(const cJSON *object, char *out, size_t bytes) {
  const cJSON *word = NULL;
  size_t used = 0;
  out[0] = '\0';
  cJSON_ArrayForEach(word, cJSON_GetObjectItemCaseSensitive(object, "isa")) {
    if (!cJSON_IsString(word) || used >= bytes) continue;
    used += (size_t)snprintf(out + used, bytes - used, "%s%s", used > 0 ? " " : "", word->valuestring);
  }
}

static void start_fill(const cJSON *object, ms_records *r) {
  const char *torch = text_of(object, "torch");
  r->has_start = true;
  r->ranks = 1;
  r->threads = isnan(number_of(object, "threads")) ? 0 : (int64_t)number_of(object, "threads");
  snprintf(r->device, sizeof r->device, "cpu");
  snprintf(r->kernel, sizeof r->kernel, "%s%s%s", torch[0] != '\0' ? "torch " : "", torch, text_of(object, "kernel"));
  snprintf(r->library, sizeof r->library, "%s%s%s%s", torch[0] != '\0' ? "torch " : "", torch,
           text_of(object, "transformers")[0] != '\0' ? " transformers " : "", text_of(object, "transformers"));
  isa_join(object, r->isa, sizeof r->isa);
  snprintf(r->describe, sizeof r->describe, "%s %s %s", text_of(object, "impl"), text_of(object, "shape"),
           text_of(object, "dtype"));
  r->flop_token = number_of(object, "flops_per_token");
  r->params_total = number_of(object, "params");
  r->reserved_bytes = number_of(object, "peak_rss_mib") * 1048576.0;
  r->peak_total_bytes = r->reserved_bytes; /* a peer has no arenas: the process is what it takes */
}

/* Warm-up steps have no times in the line; they are counted by starting after them. */
static mk_status steps_fill(mk_context *ctx, const cJSON *object, int64_t warmup_steps, ms_records *r) {
  const cJSON *times = cJSON_GetObjectItemCaseSensitive(object, "step_ms");
  int64_t count = cJSON_GetArraySize(times), i = 0;
  const cJSON *item = NULL;
  MK_CHECK(ctx, count > 0, MK_ERR_FORMAT, "stdout.log: the last line has no step_ms");
  MK_TRY(ctx, mk_heap_array(ctx, (size_t)count, sizeof *r->steps, &r->steps));
  cJSON_ArrayForEach(item, times) {
    ms_step *s = &r->steps[i];
    double time_s = cJSON_IsNumber(item) ? item->valuedouble * 1e-3 : NAN;
    *s = (ms_step){.step = warmup_steps + i + 1,
                   .time_s = time_s,
                   .time_median_s = time_s,
                   .compute_max_s = NAN,
                   .compute_median_s = NAN,
                   .tokens = number_of(object, "tokens_step"),
                   .loss = NAN,
                   .ce = NAN,
                   .z = NAN,
                   .lb_mean = NAN,
                   .rz = NAN,
                   .grad_norm = NAN,
                   .lr = NAN,
                   .drop_rate = 0,
                   .imbalance = NAN,
                   .host_waits = NAN,
                   .wire_bytes = NAN,
                   .device_allocs = NAN};
    i += 1;
  }
  r->n_steps = count;
  r->steps[count - 1].loss = number_of(object, "loss_last");
  return MK_OK;
}

mk_status ms_peer_read(mk_context *ctx, const char *text, ms_records *r, ms_peer_facts *out) {
  mk_status st = MK_OK;
  size_t bytes = 0;
  int64_t number = 0;
  const char *line = last_line(text, &bytes, &number);
  ms_peer_facts facts = {0};
  cJSON *object = NULL;
  MK_TRY_GOTO(ctx, mk_json_parse_line(ctx, MK_ERR_FORMAT, "stdout.log", number, line, bytes, &object), out);
  const char *status = text_of(object, "status"), *reason = text_of(object, "reason");
  start_fill(object, r);
  facts.precision = precision_of(text_of(object, "dtype"));
  double warmup = number_of(object, "warmup_steps");
  facts.warmup_steps = warmup > 0 ? (int64_t)warmup : 0;
  facts.not_installed = strcmp(status, "unsupported") == 0 || strncmp(reason, "no Python environment", 21) == 0;
  r->has_end = true;
  if (strcmp(status, "ok") == 0) MK_TRY_GOTO(ctx, steps_fill(ctx, object, facts.warmup_steps, r), out);
  snprintf(r->end_status, sizeof r->end_status, "%s", facts.not_installed ? "unsupported" : status);
  if (strcmp(status, "failed") == 0 && !facts.not_installed) snprintf(r->end_status, sizeof r->end_status, "crash");
  snprintf(r->end_message, sizeof r->end_message, "%s", reason);
  *out = facts;
out:
  cJSON_Delete(object);
  return st;
}

/* One flat JSON object, as the trainer prints it. */
#include "suite/provenance/peaks.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/folder.h"
#include "kernels/base/heap.h"
#include "kernels/base/json.h"
#include "suite/run/capture.h"
#include "suite/run/tools.h"

mk_status ms_peaks_path(mk_context *ctx, const ms_machine *machine, char out[MS_PATH_BYTES]) {
  char hash[65];
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  bool own = cache != NULL && cache[0] == '/';
  MK_CHECK(ctx, own || (home != NULL && home[0] == '/'), MK_ERR_IO,
           "no folder for measured peaks: set HOME or XDG_CACHE_HOME");
  MK_TRY(ctx, ms_machine_hash(ctx, machine, hash));
  int used =
      snprintf(out, MS_PATH_BYTES, "%s%s/moemark/peaks-%.16s.json", own ? cache : home, own ? "" : "/.cache", hash);
  MK_CHECK(ctx, used < MS_PATH_BYTES, MK_ERR_IO, "the name of the cache folder is too long");
  return MK_OK;
}

static double rate_of(const cJSON *object, const char *key) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  return cJSON_IsNumber(item) && item->valuedouble > 0 && isfinite(item->valuedouble) ? item->valuedouble : 0;
}

static mk_status rates_parse(mk_context *ctx, const char *name, const char *text, size_t bytes, ms_machine_rates *out) {
  mk_status st = MK_OK;
  ms_machine_rates rates = {0};
  cJSON *object = NULL;
  MK_TRY_GOTO(ctx, mk_json_parse(ctx, MK_ERR_FORMAT, name, text, bytes, &object), out);
  MK_TRY_GOTO(ctx, mk_json_check_keys(ctx, MK_ERR_FORMAT, name, object), out);
  rates.gemm_fp32_flops = rate_of(object, "gemm_fp32_flops");
  rates.gemm_bf16_flops = rate_of(object, "gemm_bf16_flops");
  rates.bandwidth_bytes_per_s = rate_of(object, "bandwidth_bytes_per_s");
  const cJSON *kernel = cJSON_GetObjectItemCaseSensitive(object, "kernel");
  snprintf(rates.kernel, sizeof rates.kernel, "%s", cJSON_IsString(kernel) ? kernel->valuestring : "");
  MK_CHECK_GOTO(ctx, rates.gemm_fp32_flops > 0 && rates.gemm_bf16_flops > 0 && rates.bandwidth_bytes_per_s > 0,
                MK_ERR_FORMAT, out,
                "%s: gemm_fp32_flops, gemm_bf16_flops and bandwidth_bytes_per_s must be numbers above 0", name);
  *out = rates;
out:
  cJSON_Delete(object);
  return st;
}

/* What was kept; a file that cannot be used says how to make another. */
static mk_status kept_parse(mk_context *ctx, const char *path, const char *text, size_t bytes, ms_machine_rates *out) {
  mk_status st = rates_parse(ctx, path, text, bytes, out);
  if (st == MK_ERR_FORMAT) mk_error_prefix(ctx, "measure the peaks again (moemark sysinfo --peaks)");
  return st;
}

mk_status ms_peaks_load(mk_context *ctx, const ms_machine *machine, ms_machine_rates *out) {
  mk_status st = MK_OK;
  char path[MS_PATH_BYTES];
  char *text = NULL;
  size_t bytes = 0;
  ms_machine_rates rates = {0};
  if (ms_peaks_path(ctx, machine, path) != MK_OK) { /* nowhere to keep any: as if not measured */
    mk_error_clear(ctx);
    *out = rates;
    return MK_OK;
  }
  if (access(path, F_OK) == 0) {
    MK_TRY_GOTO(ctx, mk_file_read(ctx, path, &text, &bytes), out);
    MK_TRY_GOTO(ctx, kept_parse(ctx, path, text, bytes, &rates), out);
  }
  *out = rates;
out:
  mk_heap_free(ctx, text);
  return st;
}

mk_status ms_peaks_load_here(mk_context *ctx, ms_machine_rates *out) {
  ms_machine machine;
  MK_TRY(ctx, ms_machine_probe(ctx, &machine));
  return ms_peaks_load(ctx, &machine, out);
}

static mk_status store(mk_context *ctx, const ms_machine *machine, const char *text) {
  char path[MS_PATH_BYTES], folder[MS_PATH_BYTES];
  MK_TRY(ctx, ms_peaks_path(ctx, machine, path));
  ms_path_folder(path, folder);
  MK_TRY(ctx, mk_folder_make(ctx, folder));
  return mk_file_write(ctx, path, text, strlen(text));
}

mk_status ms_peaks_measure(mk_context *ctx, ms_supervisor *supervisor, const ms_machine *machine,
                           ms_machine_rates *out) {
  mk_status st = MK_OK;
  char trainer[MS_PATH_BYTES];
  char option[] = "--peaks";
  char *argv[] = {trainer, option, NULL};
  char *text = NULL;
  int code = 0;
  ms_machine_rates rates;
  MK_TRY_GOTO(ctx, ms_tool_trainer(ctx, trainer), out);
  MK_TRY_GOTO(ctx, ms_capture(ctx, supervisor, argv, 300, &text, &code), out);
  MK_CHECK_GOTO(ctx, code == 0, MK_ERR_DEVICE, out, "%s --peaks ended with code %d", trainer, code);
  MK_TRY_GOTO(ctx, rates_parse(ctx, "output of moemark-trainer --peaks", text, strlen(text), &rates), out);
  MK_TRY_GOTO(ctx, store(ctx, machine, text), out);
  *out = rates;
out:
  mk_heap_free(ctx, text);
  return st;
}

double ms_peaks_flops(const ms_machine_rates *rates, const ms_records *records, mt_precision precision) {
  bool bf16 = precision == MT_BF16 && strcmp(records->kernel, "fp32") != 0;
  double flops = 0;
  if (precision == MT_FP32) flops = rates->gemm_fp32_flops;
  if (bf16 && strcmp(records->kernel, rates->kernel) == 0) flops = rates->gemm_bf16_flops;
  if (bf16 && strcmp(records->kernel, "widened") == 0 && strcmp(rates->kernel, "widened") != 0) {
    flops = rates->gemm_fp32_flops; /* widened operands are multiplied in FP32 */
  }
  return flops > 0 ? flops : NAN;
}

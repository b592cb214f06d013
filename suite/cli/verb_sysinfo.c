/* moemark sysinfo: what this machine and this build are; with --peaks what the machine can do. */
#include <stdio.h>
#include <string.h>

#include "kernels/base/log.h"
#include "kernels/device/device.h"
#include "suite/cli/verb.h"
#include "suite/provenance/peaks.h"
#include "suite/provenance/sysinfo.h"
#include "suite/run/capture.h"

typedef struct input {
  bool json, peaks;
  ms_arguments words;
} input;

enum { KEY_JSON = 256, KEY_PEAKS };

static error_t parse(int key, char *arg, struct argp_state *state) {
  input *in = state->input;
  (void)arg;
  switch (key) {
    case KEY_JSON:
      in->json = true;
      return 0;
    case KEY_PEAKS:
      in->peaks = true;
      return 0;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option OPTIONS[] = {{"json", KEY_JSON, NULL, 0, "one JSON object", 1},
                                             {"peaks", KEY_PEAKS, NULL, 0,
                                              "measure GEMM and memory rates with all cores (about ten seconds; "
                                              "nothing else should run) and keep them for MFU and "
                                              "predictions",
                                              1},
                                             {0}};

static const struct argp ARGP = {.options = OPTIONS,
                                 .parser = parse,
                                 .doc =
                                     "Prints processor, memory, software and build, all of it probed. Measured rates "
                                     "are kept in $XDG_CACHE_HOME/moemark or ~/.cache/moemark, one file a machine."};

/* The cpu device says which GEMM kernel, ISA and library it has chosen. */
static mk_status device_add(mk_context *ctx, cJSON *root) {
  mk_device *device = NULL;
  MK_TRY(ctx, mk_device_create(ctx, &(mk_device_config){.name = "cpu"}, &device));
  mk_device_info info = {0};
  mk_device_info_get(device, &info);
  mk_device_destroy(device);
  cJSON_AddStringToObject(cJSON_GetObjectItem(root, "software"), "cpu_device", info.text);
  return MK_OK;
}

static void peaks_add(cJSON *root, const ms_machine_rates *rates) {
  cJSON *peaks = cJSON_AddObjectToObject(root, "peaks");
  cJSON_AddNumberToObject(peaks, "gemm_fp32_flops", rates->gemm_fp32_flops);
  cJSON_AddNumberToObject(peaks, "gemm_bf16_flops", rates->gemm_bf16_flops);
  cJSON_AddNumberToObject(peaks, "bandwidth_bytes_per_s", rates->bandwidth_bytes_per_s);
  cJSON_AddStringToObject(peaks, "kernel", rates->kernel);
}

static mk_status rates_get(mk_context *ctx, const input *in, ms_supervisor *supervisor, const ms_machine *machine,
                           ms_machine_rates *out) {
  if (!in->peaks) return ms_peaks_load(ctx, machine, out);
  char path[MS_PATH_BYTES];
  MK_TRY(ctx, ms_peaks_measure(ctx, supervisor, machine, out));
  MK_TRY(ctx, ms_peaks_path(ctx, machine, path));
  mk_log(ctx, "rates kept in %s", path);
  return MK_OK;
}

static mk_status collect(mk_context *ctx, const input *in, ms_supervisor *supervisor, cJSON *root) {
  ms_machine machine;
  ms_machine_rates rates = {0};
  MK_TRY(ctx, ms_machine_probe(ctx, &machine));
  MK_TRY(ctx, ms_mpi_version(ctx, supervisor, machine.mpi, sizeof machine.mpi));
  MK_TRY(ctx, rates_get(ctx, in, supervisor, &machine, &rates));
  cJSON_AddStringToObject(root, "schema", "moemark/sysinfo/1");
  ms_sysinfo_code(root);
  ms_sysinfo_machine(root, &machine);
  if (rates.gemm_fp32_flops > 0) peaks_add(root, &rates);
  return device_add(ctx, root);
}

static mk_status show_json(mk_context *ctx, const cJSON *root) {
  char *text = cJSON_Print(root);
  MK_CHECK(ctx, text != NULL, MK_ERR_MEMORY, "out of host memory while printing JSON");
  mk_status st = ms_out_text(ctx, text);
  cJSON_free(text);
  return st;
}

static mk_status show_table(mk_context *ctx, const cJSON *root) {
  static const char *const COLUMNS[] = {"fact", "value"};
  mk_status st = MK_OK;
  ms_table *t = NULL;
  const cJSON *group = NULL, *item = NULL;
  MK_TRY_GOTO(ctx, ms_table_create(ctx, 2, COLUMNS, &t), out);
  cJSON_ArrayForEach(group, root) {
    cJSON_ArrayForEach(item, group) {
      MK_TRY_GOTO(ctx, ms_table_cell(ctx, t, "%s.%s", group->string, item->string), out);
      if (cJSON_IsNumber(item)) {
        MK_TRY_GOTO(ctx, ms_table_cell(ctx, t, "%.0f ", item->valuedouble), out);
      } else {
        MK_TRY_GOTO(ctx, ms_table_cell(ctx, t, "%s", item->valuestring), out);
      }
    }
  }
  MK_TRY_GOTO(ctx, ms_table_write(ctx, t, MS_FORMAT_TABLE), out);
  if (cJSON_GetObjectItem(root, "peaks") == NULL) {
    MK_TRY_GOTO(ctx, ms_out_line(ctx, "peaks are not measured yet: moemark sysinfo --peaks"), out);
  }
out:
  ms_table_destroy(ctx, t);
  return st;
}

int ms_verb_sysinfo(mk_context *ctx, int argc, char **argv) {
  input in = {0};
  mk_status st = MK_OK;
  ms_supervisor *supervisor = NULL;
  cJSON *root = NULL;
  if (ms_cli_parse(ctx, &ARGP, argc, argv, &in, &in.words) != MK_OK) return ms_cli_failed(ctx);
  if (in.words.count != 0) return ms_cli_usage(ctx, "sysinfo", "it takes no arguments");
  root = cJSON_CreateObject();
  MK_TRY_GOTO(ctx, ms_supervisor_create(ctx, &supervisor), out);
  MK_TRY_GOTO(ctx, collect(ctx, &in, supervisor, root), out);
  MK_TRY_GOTO(ctx, in.json ? show_json(ctx, root) : show_table(ctx, root), out);
out:
  cJSON_Delete(root);
  ms_supervisor_destroy(ctx, supervisor);
  return st == MK_OK ? MS_EXIT_OK : ms_cli_failed(ctx);
}

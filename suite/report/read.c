/* A run folder into memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/heap.h"
#include "kernels/base/json.h"
#include "suite/record/row_counts.h"
#include "suite/record/schema.h"
#include "suite/report/report.h"

/* The runner counts its tables in manifest.json, the judge in verdict.json. */
static mk_status table_read(mk_context *ctx, const ms_report *r, ms_csv_kind kind, const char *name, ms_csv **out) {
  char path[MS_PATH_BYTES];
  MK_TRY(ctx, ms_path_join(ctx, r->folder, name, path));
  MK_TRY(ctx, ms_result_read(ctx, kind, path, out));
  MK_TRY(ctx, ms_row_counts_check(ctx, r->manifest, r->folder, "manifest.json", name, *out));
  return ms_row_counts_check(ctx, r->verdict, r->folder, "verdict.json", name, *out);
}

static mk_status json_read(mk_context *ctx, const ms_report *r, const char *name, cJSON **out) {
  char path[MS_PATH_BYTES];
  MK_TRY(ctx, ms_path_join(ctx, r->folder, name, path));
  return mk_json_read(ctx, path, out);
}

/* verdict.json is the last file of a run. */
static mk_status verdict_read(mk_context *ctx, ms_report *r) {
  char path[MS_PATH_BYTES];
  MK_TRY(ctx, ms_path_join(ctx, r->folder, "verdict.json", path));
  MK_CHECK(
      ctx, access(path, F_OK) == 0, MK_ERR_CONFIG,
      "%.400s: has no verdict.json (state '%.20s'): the run goes on or was killed; moemark status shows its launches",
      r->folder, ms_report_text(r->manifest, "run", "state"));
  MK_TRY(ctx, mk_json_read(ctx, path, &r->verdict));
  const char *run = ms_report_text(r->manifest, "run", "id"), *judged = ms_report_text(r->verdict, NULL, "run_id");
  MK_CHECK(ctx, strcmp(run, judged) == 0, MK_ERR_FORMAT,
           "%.400s: is of run '%.60s', manifest.json of run '%.60s': files of two runs", path, judged, run);
  return MK_OK;
}

static mk_status all_read(mk_context *ctx, ms_report *r) {
  MK_TRY(ctx, json_read(ctx, r, "manifest.json", &r->manifest));
  MK_TRY(ctx, verdict_read(ctx, r));
  MK_TRY(ctx, table_read(ctx, r, MS_CSV_LAUNCHES, "launches.csv", &r->launches));
  MK_TRY(ctx, table_read(ctx, r, MS_CSV_SUMMARY, "summary.csv", &r->summary));
  MK_TRY(ctx, table_read(ctx, r, MS_CSV_CONTRASTS, "contrasts.csv", &r->contrasts));
  MK_TRY(ctx, table_read(ctx, r, MS_CSV_CLAIMS, "claims.csv", &r->claims));
  MK_TRY(ctx, table_read(ctx, r, MS_CSV_STEPS, "steps.csv", &r->steps));
  return table_read(ctx, r, MS_CSV_EVALS, "evals.csv", &r->evals);
}

mk_status ms_report_read(mk_context *ctx, const char *folder, ms_report **out) {
  mk_status st = MK_OK;
  ms_report *r = NULL;
  MK_TRY_GOTO(ctx, mk_heap_alloc(ctx, sizeof *r, &r), out);
  MK_CHECK_GOTO(ctx, realpath(folder, r->folder) != NULL, MK_ERR_CONFIG, out, "%s: no such folder", folder);
  char manifest[MS_PATH_BYTES];
  MK_TRY_GOTO(ctx, ms_path_join(ctx, r->folder, "manifest.json", manifest), out);
  MK_CHECK_GOTO(ctx, access(manifest, R_OK) == 0, MK_ERR_CONFIG, out,
                "%s: not a run folder (it has no manifest.json); give out/<study>/latest or out/<study>/<run>", folder);
  MK_TRY_GOTO(ctx, all_read(ctx, r), out);
  const char *metric = ms_csv_get(r->contrasts, 0, "metric");
  snprintf(r->metric, sizeof r->metric, "%.60s", metric[0] != '\0' ? metric : ms_csv_get(r->summary, 0, "metric"));
  *out = r;
  r = NULL;
out:
  ms_report_destroy(ctx, r);
  return st;
}

void ms_report_destroy(mk_context *ctx, ms_report *r) {
  if (r == NULL) return;
  ms_csv *const tables[] = {r->summary, r->contrasts, r->claims, r->launches, r->steps, r->evals};
  for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
    ms_csv_destroy(ctx, tables[i]);
  cJSON_Delete(r->manifest);
  cJSON_Delete(r->verdict);
  mk_heap_free(ctx, r);
}

const char *ms_report_text(const cJSON *root, const char *group, const char *key) {
  const cJSON *object = group == NULL ? root : cJSON_GetObjectItemCaseSensitive(root, group);
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  return cJSON_IsString(item) ? item->valuestring : "";
}

/* The exit code and verdict.json. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "suite/judge/parts.h"
#include "suite/provenance/build_info.h"
#include "suite/record/row_counts.h"
#include "suite/run/folder.h"

/* What a word means for the exit code; words that are not here are fine. */
static const struct {
  const char *word;
  ms_exit code;
} CODES[] = {{"FAIL", MS_EXIT_RUN},
             {"XPASS", MS_EXIT_JUDGED},
             {"REGRESSED", MS_EXIT_JUDGED},
             {"BELOW", MS_EXIT_JUDGED},
             {"not met", MS_EXIT_JUDGED},
             {"not met (low_n)", MS_EXIT_JUDGED},
             {"refused", MS_EXIT_REFUSED},
             {"INCONCLUSIVE", MS_EXIT_UNDECIDED},
             {"INCONCLUSIVE (low_n)", MS_EXIT_UNDECIDED},
             {"met (low_n)", MS_EXIT_UNDECIDED},
             {"no reference", MS_EXIT_UNDECIDED},
             {"unsupported", MS_EXIT_UNDECIDED},
             {"interrupted", MS_EXIT_INTERRUPTED}};

static ms_exit code_of(const char *word) {
  for (size_t i = 0; i < sizeof CODES / sizeof CODES[0]; i++) {
    if (strcmp(CODES[i].word, word) == 0) return CODES[i].code;
  }
  return MS_EXIT_OK;
}

/* Later in this list = weaker. */
static int strength(ms_exit code) {
  static const ms_exit ORDER[] = {MS_EXIT_INTERRUPTED, MS_EXIT_USAGE,  MS_EXIT_REFUSED,
                                  MS_EXIT_RUN,         MS_EXIT_JUDGED, MS_EXIT_UNDECIDED};
  for (int i = 0; i < 6; i++) {
    if (ORDER[i] == code) return 6 - i;
  }
  return 0;
}

ms_exit ms_exit_stronger(ms_exit a, ms_exit b) { return strength(b) > strength(a) ? b : a; }

static void word_count(ms_judgement *j, const char *word) {
  ms_exit code = code_of(word);
  if (code == MS_EXIT_UNDECIDED) {
    j->undecided += 1;
    if (!j->strict) return;
  }
  j->exit_code = ms_exit_stronger(j->exit_code, code);
}

void ms_judge_exit_code(ms_judgement *j) {
  j->exit_code = j->run->interrupted ? MS_EXIT_INTERRUPTED : MS_EXIT_OK;
  j->undecided = 0;
  for (int i = 0; i < j->run->plan->n_cases; i++)
    word_count(j, j->cases[i].verdict);
  for (int i = 0; i < j->n_metrics; i++) {
    const ms_metric_result *r = &j->metrics[i];
    if (strcmp(r->verdict, j->cases[r->case_index].verdict) != 0) word_count(j, r->verdict);
  }
  for (int i = 0; i < j->run->plan->study->n_claims; i++)
    word_count(j, j->claims[i].verdict);
}

/* The command that runs one case again. */
static void rerun_print(const ms_plan *plan, int case_index, char *out, size_t bytes) {
  const ms_study *study = plan->study;
  size_t used =
      (size_t)snprintf(out, bytes, "moemark run %s --scale %s --launches 1 -E '", study->path, plan->scale->name);
  for (int i = 0; i < study->n_factors && used < bytes; i++) {
    used += (size_t)snprintf(out + used, bytes - used, "%s%s == %s", i > 0 ? " and " : "", study->factors[i].name,
                             plan->cases[case_index].level[i]);
  }
  if (used < bytes) snprintf(out + used, bytes - used, "'");
}

static void failure_add(cJSON *list, const ms_judgement *j, const char *what, const char *verdict, const char *reason,
                        int line, int case_index) {
  char rerun[2 * MS_PATH_BYTES];
  cJSON *item = cJSON_CreateObject();
  cJSON_AddStringToObject(item, "what", what);
  cJSON_AddStringToObject(item, "verdict", verdict);
  cJSON_AddStringToObject(item, "reason", reason);
  cJSON_AddStringToObject(item, "file", j->run->plan->study->path);
  cJSON_AddNumberToObject(item, "line", line);
  if (case_index >= 0) {
    const ms_launch *cause = j->cases[case_index].cause;
    rerun_print(j->run->plan, case_index, rerun, sizeof rerun);
    cJSON_AddStringToObject(item, "logs", cause != NULL ? cause->folder : "");
    cJSON_AddStringToObject(item, "rerun", rerun);
  }
  cJSON_AddItemToArray(list, item);
}

static bool is_failure(const char *word) {
  ms_exit code = code_of(word);
  return code == MS_EXIT_RUN || code == MS_EXIT_JUDGED || code == MS_EXIT_REFUSED;
}

static void failures_add(cJSON *root, const ms_judgement *j) {
  const ms_plan *plan = j->run->plan;
  cJSON *list = cJSON_AddArrayToObject(root, "failures");
  char what[MS_LINE_BYTES + MS_NAME_BYTES + 8];
  for (int i = 0; i < plan->n_cases; i++) {
    if (!is_failure(j->cases[i].verdict)) continue;
    failure_add(list, j, plan->cases[i].name, j->cases[i].verdict, j->cases[i].reason, plan->scale->place.line, i);
  }
  for (int i = 0; i < j->n_metrics; i++) {
    const ms_metric_result *r = &j->metrics[i];
    if (!is_failure(r->verdict) || strcmp(r->verdict, j->cases[r->case_index].verdict) == 0) continue;
    snprintf(what, sizeof what, "%s of %s", r->use->name, plan->cases[r->case_index].name);
    failure_add(list, j, what, r->verdict, r->reason, r->use->place.line, r->case_index);
  }
  for (int i = 0; i < plan->study->n_claims; i++) {
    const ms_claim_result *r = &j->claims[i];
    if (is_failure(r->verdict))
      failure_add(list, j, r->claim->id, r->verdict, r->claim->says, r->claim->place.line, -1);
  }
}

static void count_add(cJSON *counts, const char *word) {
  if (word[0] == '\0') return;
  cJSON *item = cJSON_GetObjectItemCaseSensitive(counts, word);
  if (item == NULL) {
    cJSON_AddNumberToObject(counts, word, 1);
  } else {
    cJSON_SetNumberValue(item, item->valuedouble + 1);
  }
}

static void counts_add(cJSON *root, const ms_judgement *j) {
  cJSON *cases = cJSON_AddObjectToObject(root, "cases"), *metrics = cJSON_AddObjectToObject(root, "metrics");
  cJSON *claims = cJSON_AddObjectToObject(root, "claims");
  for (int i = 0; i < j->run->plan->n_cases; i++)
    count_add(cases, j->cases[i].verdict);
  for (int i = 0; i < j->n_metrics; i++)
    count_add(metrics, j->metrics[i].verdict);
  for (int i = 0; i < j->run->plan->study->n_claims; i++)
    count_add(claims, j->claims[i].verdict);
}

mk_status ms_verdict_write(mk_context *ctx, const ms_judgement *j, const ms_judge_rows *rows) {
  mk_status st = MK_OK;
  cJSON *root = cJSON_CreateObject();
  char *text = NULL;
  cJSON_AddStringToObject(root, "schema", "moemark/verdict/1");
  cJSON_AddStringToObject(root, "run_id", j->run->id);
  cJSON_AddStringToObject(root, "study", j->run->plan->study->id);
  cJSON_AddStringToObject(root, "scale", j->run->plan->scale->name);
  cJSON_AddStringToObject(root, "version", MS_BUILD_INFO.version);
  cJSON_AddStringToObject(root, "commit", MS_BUILD_INFO.commit);
  cJSON_AddNumberToObject(root, "exit_code", j->exit_code);
  cJSON_AddBoolToObject(root, "strict", j->strict);
  cJSON_AddBoolToObject(root, "interrupted", j->run->interrupted);
  cJSON_AddNumberToObject(root, "undecided", j->undecided);
  counts_add(root, j);
  failures_add(root, j);
  for (int i = 0; i < MS_JUDGE_TABLES; i++)
    ms_row_counts_add(root, rows[i].name, rows[i].rows);
  text = cJSON_Print(root);
  MK_CHECK_GOTO(ctx, text != NULL, MK_ERR_MEMORY, out, "verdict.json: out of host memory");
  MK_TRY_GOTO(ctx, ms_text_write(ctx, j->run->folder, "verdict.json", text), out);
out:
  cJSON_free(text);
  cJSON_Delete(root);
  return st;
}

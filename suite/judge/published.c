/* Which row of baselines/published/<source>.csv belongs to one of our cases.
 *
 * A row's case is "<model> %factor=value ...". Our pairs (levels translated by the study's published_case) must all
 * stand in the row; further pairs of the row describe a setting that the study keeps fixed, and the row with the fewest
 * of them wins. A hardware-free row (system `any`) may also name fewer factors than we have. Two rows that fit equally
 * well are no answer. */
#include <stdio.h>
#include <string.h>

#include "suite/judge/parts.h"

enum { PAIRS_MAX = 16 };

typedef struct pairs {
  char pair[PAIRS_MAX][2 * MS_NAME_BYTES];
  int count;
} pairs;

static void pairs_add(pairs *p, const char *text, size_t bytes) {
  if (p->count == PAIRS_MAX || bytes == 0 || bytes >= sizeof p->pair[0]) return;
  memcpy(p->pair[p->count], text, bytes);
  p->pair[p->count][bytes] = '\0';
  p->count += 1;
}

/* Words that begin with '%', without it. */
static void pairs_parse(pairs *p, const char *text) {
  for (const char *at = strchr(text, '%'); at != NULL; at = strchr(at + 1, '%')) {
    pairs_add(p, at + 1, strcspn(at + 1, " "));
  }
}

/* The study's translation stands at its published scale; the scale in use may have its own. */
static const char *translate(const ms_plan *plan, const char *level) {
  const ms_scale *scale =
      plan->scale->n_published_case > 0 ? plan->scale : ms_study_scale_find(plan->study, "published");
  for (int i = 0; scale != NULL && i < scale->n_published_case; i++) {
    if (strcmp(scale->published_case[i].level, level) == 0) return scale->published_case[i].published;
  }
  return level;
}

static void pairs_of_case(const ms_plan *plan, int case_index, pairs *out) {
  for (int i = 0; i < plan->study->n_factors; i++) {
    const char *level = translate(plan, plan->cases[case_index].level[i]);
    char text[2 * MS_NAME_BYTES + 2];
    if (strchr(level, '=') != NULL) { /* the translation names its own pairs */
      snprintf(text, sizeof text, "%s%s", level[0] == '%' ? "" : "%", level);
      pairs_parse(out, text);
      continue;
    }
    int bytes = snprintf(text, sizeof text, "%s=%s", plan->study->factors[i].name, level);
    pairs_add(out, text, (size_t)bytes);
  }
}

/* How many pairs of a are missing in b. */
static int missing(const pairs *a, const pairs *b) {
  int count = 0;
  for (int i = 0; i < a->count; i++) {
    bool found = false;
    for (int k = 0; k < b->count; k++)
      found = found || strcmp(a->pair[i], b->pair[k]) == 0;
    count += !found;
  }
  return count;
}

static bool model_fits(const ms_plan *plan, const char *row_case) {
  const ms_scale *published = ms_study_scale_find(plan->study, "published");
  const char *const names[] = {plan->scale->model, published != NULL ? published->model : "", plan->study->id};
  size_t bytes = strcspn(row_case, " ");
  for (int i = 0; i < 3; i++) {
    if (strlen(names[i]) == bytes && strncmp(names[i], row_case, bytes) == 0) return true;
  }
  return false;
}

/* Pairs of the row that are not ours; -1 when the row does not fit. */
static int misfit(const ms_plan *plan, const pairs *ours, const char *row_case, const char *system) {
  pairs row = {.count = 0};
  if (!model_fits(plan, row_case)) return -1;
  pairs_parse(&row, row_case);
  int extra = missing(&row, ours), lacking = missing(ours, &row);
  if (lacking == 0) return extra;
  return strcmp(system, "any") == 0 && extra == 0 ? lacking : -1;
}

int ms_published_row(const ms_judgement *j, int case_index, const char *metric, bool *same_system) {
  const ms_plan *plan = j->run->plan;
  pairs ours = {.count = 0};
  int best = -1, best_misfit = 0;
  bool tie = false;
  *same_system = false;
  pairs_of_case(plan, case_index, &ours);
  for (int64_t row = 0; j->published != NULL && row < j->published->n_rows; row++) {
    if (strcmp(ms_csv_get(j->published, row, "metric"), metric) != 0) continue;
    int fit = misfit(plan, &ours, ms_csv_get(j->published, row, "case"), ms_csv_get(j->published, row, "system"));
    if (fit < 0 || (best >= 0 && fit > best_misfit)) continue;
    tie = best >= 0 && fit == best_misfit;
    best = (int)row;
    best_misfit = fit;
  }
  if (best < 0 || tie) return -1;
  const char *system = ms_csv_get(j->published, best, "system");
  *same_system = plan->scale->system[0] != '\0' && strcmp(system, plan->scale->system) == 0;
  return best;
}

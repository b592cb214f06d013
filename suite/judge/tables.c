/* The judgement as CSV files. */
#include <math.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "suite/judge/parts.h"
#include "suite/models/counts.h"
#include "suite/record/schema.h"

typedef struct number_cell {
  const char *column;
  double value;
} number_cell;

static mk_status numbers_set(mk_context *ctx, ms_csv *t, const number_cell *cells, size_t count) {
  for (size_t i = 0; i < count; i++)
    MK_TRY(ctx, ms_csv_set_number(ctx, t, cells[i].column, cells[i].value));
  return MK_OK;
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static mk_status summary_row(mk_context *ctx, const ms_judgement *j, const ms_metric_result *r, ms_csv *t) {
  const ms_plan *plan = j->run->plan;
  const ms_case *c = &plan->cases[r->case_index];
  const ms_case_result *of_case = &j->cases[r->case_index];
  const number_cell cells[] = {{"n", r->n},
                               {"n_failed", of_case->n_failed},
                               {"median", r->median},
                               {"ci_lo", r->ci_lo},
                               {"ci_hi", r->ci_hi},
                               {"ci_pct", r->ci_pct},
                               {"min", r->min},
                               {"max", r->max},
                               {"mad_pct", r->mad_pct},
                               {"predicted", r->predicted},
                               {"ref", r->ref},
                               {"ref_ratio", r->ref_ratio},
                               {"bound", r->bound},
                               {"bound_pct", r->bound_pct},
                               {"delta_pct", r->use->delta > 0 ? 100 * r->use->delta : NAN},
                               {"outliers", r->outliers}};
  MK_TRY(ctx, ms_schema_row_add(ctx, MS_CSV_SUMMARY, t));
  MK_TRY(ctx, ms_csv_set(ctx, t, "study", plan->study->id));
  MK_TRY(ctx, ms_csv_set(ctx, t, "case", c->name));
  MK_TRY(ctx, ms_csv_set(ctx, t, "metric", r->use->name));
  MK_TRY(ctx, ms_csv_set(ctx, t, "unit", r->use->unit));
  MK_TRY(ctx, ms_csv_set(ctx, t, "better", r->use->lower_is_better ? "lower" : "higher"));
  MK_TRY(ctx, ms_csv_set(ctx, t, "kind", ms_case_kind(c)));
  MK_TRY(ctx, ms_csv_set(ctx, t, "stat", plan->scale->measure.stat));
  MK_TRY(ctx, ms_csv_set(ctx, t, "ref_kind", r->ref_kind));
  MK_TRY(ctx, ms_csv_set(ctx, t, "verdict", r->verdict));
  MK_TRY(ctx, ms_csv_set(ctx, t, "gate", r->use->gate ? "yes" : "no"));
  MK_TRY(ctx, ms_csv_set(ctx, t, "reason", r->reason[0] != '\0' ? r->reason : of_case->reason));
  return numbers_set(ctx, t, cells, COUNT(cells));
}

static mk_status summary_fill(mk_context *ctx, const ms_judgement *j, ms_csv *t) {
  for (int i = 0; i < j->n_metrics; i++) {
    if (j->cases[j->metrics[i].case_index].verdict[0] == '\0') continue; /* not run */
    MK_TRY(ctx, summary_row(ctx, j, &j->metrics[i], t));
  }
  return MK_OK;
}

static mk_status contrasts_fill(mk_context *ctx, const ms_judgement *j, ms_csv *t) {
  const ms_plan *plan = j->run->plan;
  for (int i = 0; i < j->n_contrasts; i++) {
    const ms_contrast_result *r = &j->contrasts[i];
    const ms_metric_use *use = ms_study_metric_find(plan->study, r->contrast->metric);
    const number_cell cells[] = {{"n", r->n},         {"n_base", r->n_base}, {"ratio", r->ratio.value},
                                 {"lo", r->ratio.lo}, {"hi", r->ratio.hi},   {"published_ratio", r->published_ratio}};
    MK_TRY(ctx, ms_schema_row_add(ctx, MS_CSV_CONTRASTS, t));
    MK_TRY(ctx, ms_csv_set(ctx, t, "contrast", r->contrast->id));
    MK_TRY(ctx, ms_csv_set(ctx, t, "factor", r->contrast->factor));
    MK_TRY(ctx, ms_csv_set(ctx, t, "base", r->contrast->base));
    MK_TRY(ctx, ms_csv_set(ctx, t, "case", plan->cases[r->case_index].name));
    MK_TRY(ctx, ms_csv_set(ctx, t, "base_case", plan->cases[r->base_index].name));
    MK_TRY(ctx, ms_csv_set(ctx, t, "metric", r->contrast->metric));
    MK_TRY(ctx, ms_csv_set(ctx, t, "better", use != NULL && use->lower_is_better ? "lower" : "higher"));
    MK_TRY(ctx, ms_csv_set(ctx, t, "kind", ms_case_kind(&plan->cases[r->case_index])));
    MK_TRY(ctx, ms_csv_set(ctx, t, "label", r->label));
    MK_TRY(ctx, numbers_set(ctx, t, cells, COUNT(cells)));
  }
  return MK_OK;
}

static mk_status claims_fill(mk_context *ctx, const ms_judgement *j, ms_csv *t) {
  for (int i = 0; i < j->run->plan->study->n_claims; i++) {
    const ms_claim_result *r = &j->claims[i];
    char accept[64] = "", bound[40];
    const number_cell cells[] = {{"published", r->claim->published}, {"value", r->value}, {"lo", r->lo}, {"hi", r->hi},
                                 {"predicted", r->predicted},        {"n", r->n}};
    if (r->accept != NULL) {
      ms_number_print(r->accept->value, bound, sizeof bound);
      strcpy(accept, r->accept->op);
      strcat(strcat(accept, " "), bound);
    }
    MK_TRY(ctx, ms_schema_row_add(ctx, MS_CSV_CLAIMS, t));
    MK_TRY(ctx, ms_csv_set(ctx, t, "claim", r->claim->id));
    MK_TRY(ctx, ms_csv_set(ctx, t, "accept", accept));
    MK_TRY(ctx, ms_csv_set(ctx, t, "verdict", r->verdict));
    MK_TRY(ctx, ms_csv_set(ctx, t, "says", r->claim->says));
    MK_TRY(ctx, ms_csv_set(ctx, t, "reason", r->reason));
    MK_TRY(ctx, numbers_set(ctx, t, cells, COUNT(cells)));
  }
  return MK_OK;
}

/* MFU in every FLOP convention, so that a number of another suite finds its like. */
static mk_status flops_fill(mk_context *ctx, const ms_judgement *j, ms_csv *t) {
  const ms_plan *plan = j->run->plan;
  for (int i = 0; i < plan->n_cases; i++) {
    const ms_case *c = &plan->cases[i];
    if (c->peer[0] != '\0' || j->cases[i].verdict[0] == '\0') continue;
    double *tok_s = NULL, peak = NAN;
    int n = 0;
    MK_TRY(ctx, ms_judge_values(ctx, j, i, "tok_s", &tok_s, &n));
    double median = ms_median(tok_s, n);
    mk_heap_free(ctx, tok_s);
    for (int l = 0; l < j->run->n_launches; l++) {
      if (j->run->launches[l].case_index == i) peak = j->run->launches[l].peak_flops;
    }
    for (int f = 0; f < MS_FLOPS_COUNT; f++) {
      double flops = (double)ms_flops_token(&c->config, (ms_flops)f);
      MK_TRY(ctx, ms_schema_row_add(ctx, MS_CSV_FLOPS, t));
      MK_TRY(ctx, ms_csv_set(ctx, t, "case", c->name));
      MK_TRY(ctx, ms_csv_set(ctx, t, "convention", ms_flops_name((ms_flops)f)));
      MK_TRY(ctx, ms_csv_set_number(ctx, t, "flop_token", flops));
      MK_TRY(ctx, ms_csv_set_number(ctx, t, "mfu_pct", 100 * median * flops / peak));
    }
  }
  return MK_OK;
}

typedef mk_status (*fill_fn)(mk_context *ctx, const ms_judgement *j, ms_csv *t);

static const struct {
  const char *name;
  ms_csv_kind kind;
  fill_fn fill;
} TABLE[MS_JUDGE_TABLES] = {{"summary.csv", MS_CSV_SUMMARY, summary_fill},
                            {"contrasts.csv", MS_CSV_CONTRASTS, contrasts_fill},
                            {"claims.csv", MS_CSV_CLAIMS, claims_fill},
                            {"flops.csv", MS_CSV_FLOPS, flops_fill}};

static mk_status table_write(mk_context *ctx, const ms_judgement *j, int table, int64_t *rows) {
  mk_status st = MK_OK;
  ms_csv *t = NULL;
  char path[MS_PATH_BYTES];
  MK_TRY_GOTO(ctx, ms_path_join(ctx, j->run->folder, TABLE[table].name, path), out);
  MK_TRY_GOTO(ctx, ms_schema_table(ctx, TABLE[table].kind, NULL, 0, &t), out);
  MK_TRY_GOTO(ctx, TABLE[table].fill(ctx, j, t), out);
  MK_TRY_GOTO(ctx, ms_csv_write(ctx, path, t), out);
  *rows = t->n_rows;
out:
  ms_csv_destroy(ctx, t);
  return st;
}

mk_status ms_judge_write(mk_context *ctx, const ms_judgement *j) {
  ms_judge_rows rows[MS_JUDGE_TABLES];
  for (int i = 0; i < MS_JUDGE_TABLES; i++) {
    rows[i].name = TABLE[i].name;
    MK_TRY(ctx, table_write(ctx, j, i, &rows[i].rows));
  }
  return ms_verdict_write(ctx, j, rows);
}

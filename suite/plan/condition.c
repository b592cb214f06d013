/* Conditions on the levels of a case. */
#include <string.h>

#include "kernels/base/text.h"
#include "suite/plan/plan_private.h"

typedef struct subject {
  const ms_study *study;
  const ms_case *c;
} subject;

static bool compare(const void *user, const ms_expr *expr, int index) {
  const subject *s = user;
  const ms_comparison *cmp = &expr->compare[index];
  int factor = ms_study_factor_find(s->study, cmp->side.factor);
  if (factor < 0) return false; /* refused before evaluation */
  const char *level = s->c->level[factor];
  double a = 0, b = 0;
  if (s->study->factors[factor].type == MS_FACTOR_INT && mk_text_number(level, true, &a) &&
      mk_text_number(cmp->side.level, true, &b)) {
    return ms_order_holds(cmp->order, a, b);
  }
  bool same = strcmp(level, cmp->side.level) == 0;
  return cmp->order == MS_NE ? !same : same;
}

mk_status ms_condition_make(mk_context *ctx, const char *text, ms_condition *out) {
  MK_CHECK(ctx, strlen(text) < sizeof out->text, MK_ERR_CONFIG, "condition: longer than %zu bytes",
           sizeof out->text - 1);
  *out = (ms_condition){.place = {1, 1}};
  strcpy(out->text, text);
  return MK_OK;
}

static mk_status check_level(mk_context *ctx, const ms_study *study, const char *factor, const char *level) {
  const char *best = "";
  int distance = -1;
  for (int i = 0; i < study->n_level_defs; i++) {
    if (strcmp(study->levels[i].factor, factor) == 0) ms_nearest(level, study->levels[i].name, &best, &distance);
  }
  MK_CHECK(ctx, distance == 0, MK_ERR_CONFIG,
           "condition: factor '%s' of study '%s' has no level '%.60s'; the nearest is '%s'", factor, study->id, level,
           best);
  return MK_OK;
}

/* What the reader of a study checks in its conditions (study_check.c), for one from a command line. */
static mk_status check_comparison(mk_context *ctx, const ms_study *study, const ms_comparison *c) {
  double number = 0;
  const char *name = c->side.factor, *level = c->side.level;
  int factor = ms_study_factor_find(study, name);
  MK_CHECK(ctx, factor >= 0, MK_ERR_CONFIG, "condition: study '%s' has no factor '%.60s'", study->id, name);
  if (study->factors[factor].type != MS_FACTOR_INT) {
    MK_CHECK(ctx, c->order == MS_EQ || c->order == MS_NE, MK_ERR_CONFIG,
             "condition: levels of '%s' have no order; use == or !=", name);
    return check_level(ctx, study, name, level);
  }
  MK_CHECK(ctx, mk_text_number(level, true, &number), MK_ERR_CONFIG,
           "condition: factor '%s' is of type int, but '%.60s' is no whole number", name, level);
  return MK_OK;
}

mk_status ms_condition_eval(mk_context *ctx, const ms_study *study, const ms_condition *condition, const ms_case *c,
                            bool *out) {
  ms_expr *expr = NULL;
  ms_expr_fault fault;
  mk_status st = ms_expr_parse_condition(ctx, condition->text, &fault, &expr);
  MK_CHECK(ctx, st != MK_ERR_CONFIG, MK_ERR_CONFIG, "condition \"%.120s\", column %d: %s", condition->text,
           fault.offset + 1, fault.message);
  MK_TRY(ctx, st);
  for (int i = 0; i < expr->n_compares && st == MK_OK; i++) {
    st = check_comparison(ctx, study, &expr->compare[i]);
  }
  if (st == MK_OK) *out = ms_expr_holds(expr, compare, &(subject){.study = study, .c = c});
  ms_expr_destroy(ctx, expr);
  return st;
}

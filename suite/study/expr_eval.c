/* Values and truths of parsed expressions. Children come before their parents in node[], so recursion is bounded by the
 * length of the text. */
#include <math.h>

#include "suite/study/expr.h"

bool ms_order_holds(ms_order order, double a, double b) {
  switch (order) {
    case MS_EQ:
      return a == b;
    case MS_NE:
      return a != b;
    case MS_LT:
      return a < b;
    case MS_LE:
      return a <= b;
    case MS_GT:
      return a > b;
    default:
      return a >= b;
  }
}

static double pair_value(ms_expr_kind kind, double a, double b) {
  if (isnan(a) || isnan(b)) return NAN;
  switch (kind) {
    case MS_EXPR_ADD:
      return a + b;
    case MS_EXPR_SUBTRACT:
      return a - b;
    case MS_EXPR_MULTIPLY:
      return a * b;
    case MS_EXPR_DIVIDE:
      return b == 0 ? NAN : a / b;
    case MS_EXPR_MAX:
      return a > b ? a : b;
    case MS_EXPR_MIN:
      return a < b ? a : b;
    default:
      return NAN;
  }
}

static double value_at(const ms_expr *expr, int at, ms_metric_value_fn value, const void *user) {
  const ms_expr_node *n = &expr->node[at];
  switch (n->kind) {
    case MS_EXPR_NUMBER:
      return n->number;
    case MS_EXPR_METRIC:
      return value(user, expr, n->ref);
    case MS_EXPR_NEGATE:
      return -value_at(expr, n->first, value, user);
    default:
      return pair_value(n->kind, value_at(expr, n->first, value, user), value_at(expr, n->second, value, user));
  }
}

double ms_expr_value(const ms_expr *expr, ms_metric_value_fn value, const void *user) {
  return value_at(expr, expr->root, value, user);
}

static bool holds_at(const ms_expr *expr, int at, ms_compare_fn holds, const void *user) {
  const ms_expr_node *n = &expr->node[at];
  switch (n->kind) {
    case MS_EXPR_COMPARE:
      return holds(user, expr, n->ref);
    case MS_EXPR_NOT:
      return !holds_at(expr, n->first, holds, user);
    case MS_EXPR_AND:
      return holds_at(expr, n->first, holds, user) && holds_at(expr, n->second, holds, user);
    case MS_EXPR_OR:
      return holds_at(expr, n->first, holds, user) || holds_at(expr, n->second, holds, user);
    default:
      return false;
  }
}

bool ms_expr_holds(const ms_expr *expr, ms_compare_fn holds, const void *user) {
  return holds_at(expr, expr->root, holds, user);
}

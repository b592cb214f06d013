/* Conditions and claims: values, precedence, places of faults. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "suite/study/expr.h"
#include "tests/support/check_main.h"

/* a, b, c stand for 2, 3 and 4; anything else is missing. */
static double letter(const void *user, const ms_expr *expr, int index) {
  (void)user;
  const char *name = expr->metric[index].metric;
  return strlen(name) == 1 && name[0] >= 'a' && name[0] <= 'c' ? 2 + name[0] - 'a' : NAN;
}

static double claim(const char *text) {
  mk_context ctx = {0};
  ms_expr *expr = NULL;
  ms_expr_fault fault = {0};
  mk_status st = ms_expr_parse_claim(&ctx, text, &fault, &expr);
  ck_assert_msg(st == MK_OK, "\"%s\": byte %d: %s", text, fault.offset, fault.message);
  double value = ms_expr_value(expr, letter, NULL);
  ms_expr_destroy(&ctx, expr);
  ck_assert_int_eq(ctx.heap_live, 0);
  return value;
}

START_TEST(test_claim_values) {
  static const struct {
    const char *text;
    double value;
  } CASES[] = {{"a", 2},
               {"a + b * c", 14},
               {"(a + b) * c", 20},
               {"c - b - a", -1},
               {"c / a / a", 1},
               {"-a + -(-b)", 1},
               {"a[x=1,y=z-2.5] / b[x=1,y=w]", 2.0 / 3},
               {"max(a, b, c) / min(c, b, a)", 2},
               {"max(a)", 2},
               {"1.5e1 * a", 30},
               {"2e-1*a", 0.4},
               {".5*c", 2}};
  for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
    double got = claim(CASES[i].text);
    ck_assert_msg(fabs(got - CASES[i].value) < 1e-12, "\"%s\": got %.17g, expected %.17g", CASES[i].text, got,
                  CASES[i].value);
  }
  ck_assert(isnan(claim("a / (b - b)")));
  ck_assert(isnan(claim("a + missing")));
  ck_assert(isnan(claim("max(a, missing)")));
}
END_TEST

START_TEST(test_claim_names) {
  mk_context ctx = {0};
  ms_expr *expr = NULL;
  ms_expr_fault fault;
  ck_assert_int_eq(ms_expr_parse_claim(&ctx, "tok_s[experts=128, stack=dist_opt_ep] / 2", &fault, &expr), MK_OK);
  ck_assert_int_eq(expr->n_metrics, 1);
  ck_assert_str_eq(expr->metric[0].metric, "tok_s");
  ck_assert_int_eq(expr->metric[0].n_select, 2);
  ck_assert_str_eq(expr->metric[0].select[1].factor, "stack");
  ck_assert_str_eq(expr->metric[0].select[1].level, "dist_opt_ep");
  ck_assert_int_eq(expr->metric[0].select[1].offset, 19);
  ms_expr_destroy(&ctx, expr);
}
END_TEST

typedef mk_status (*parse_fn)(mk_context *, const char *, ms_expr_fault *, ms_expr **);

static void check_fault(parse_fn parse, const char *text, int offset, const char *message) {
  mk_context ctx = {0};
  ms_expr *expr = NULL;
  ms_expr_fault fault = {.offset = -1};
  ck_assert_msg(parse(&ctx, text, &fault, &expr) == MK_ERR_CONFIG, "\"%.60s\" was accepted", text);
  ck_assert_msg(fault.offset == offset && strstr(fault.message, message) != NULL, "\"%.60s\": byte %d: %s", text,
                fault.offset, fault.message);
  ck_assert_ptr_null(expr);
  ck_assert_int_eq(ctx.heap_live, 0);
  ck_assert_int_eq(ctx.error.status, MK_OK);
}

START_TEST(test_faults) {
  check_fault(ms_expr_parse_claim, "", 0, "a metric or a number expected, but the text ends");
  check_fault(ms_expr_parse_claim, "a +", 3, "expected, but the text ends");
  check_fault(ms_expr_parse_claim, "a b", 2, "nothing expected here");
  check_fault(ms_expr_parse_claim, "(a", 2, "')' expected");
  check_fault(ms_expr_parse_claim, "a[x]", 3, "'=' expected before ']'");
  check_fault(ms_expr_parse_claim, "a[x=]", 4, "a level expected");
  check_fault(ms_expr_parse_claim, "1.2.3", 0, "'1.2.3' is not a number");
  check_fault(ms_expr_parse_claim, "log(a)", 0, "unknown function 'log'");
  check_fault(ms_expr_parse_condition, "x", 1, "one of == != < <= > >= expected");
  check_fault(ms_expr_parse_condition, "x == ", 5, "a level expected, but the text ends");
  check_fault(ms_expr_parse_condition, "x == 1 and", 10, "a factor expected");
  check_fault(ms_expr_parse_condition, "x == 1 y == 2", 7, "nothing expected here");
  char deep[200] = "";
  memset(deep, '(', 150);
  check_fault(ms_expr_parse_claim, deep, 64, "nested too deeply");
  check_fault(ms_expr_parse_condition, deep, 64, "nested too deeply");
}
END_TEST

/* Comparison i holds when bit i of *user is set. */
static bool bit(const void *user, const ms_expr *expr, int index) {
  (void)expr;
  return (*(const int *)user >> index & 1) != 0;
}

START_TEST(test_condition_truth) {
  mk_context ctx = {0};
  ms_expr *expr = NULL;
  ms_expr_fault fault;
  const char *text = "p == 1 and not (q != android or r >= 3) or s == not_x";
  ck_assert_int_eq(ms_expr_parse_condition(&ctx, text, &fault, &expr), MK_OK);
  ck_assert_int_eq(expr->n_compares, 4);
  ck_assert_int_eq(expr->compare[2].order, MS_GE);
  ck_assert_str_eq(expr->compare[3].side.level, "not_x");
  for (int bits = 0; bits < 16; bits++) {
    bool p = bits & 1, q = bits & 2, r = bits & 4, s = bits & 8;
    ck_assert_msg(ms_expr_holds(expr, bit, &bits) == ((p && !(q || r)) || s), "truth of %d", bits);
  }
  ms_expr_destroy(&ctx, expr);
}
END_TEST

START_TEST(test_orders) {
  ck_assert(ms_order_holds(MS_EQ, 1, 1) && !ms_order_holds(MS_EQ, 1, 2));
  ck_assert(ms_order_holds(MS_NE, 1, 2) && !ms_order_holds(MS_NE, 1, 1));
  ck_assert(ms_order_holds(MS_LT, 1, 2) && !ms_order_holds(MS_LT, 2, 2));
  ck_assert(ms_order_holds(MS_LE, 2, 2) && !ms_order_holds(MS_LE, 3, 2));
  ck_assert(ms_order_holds(MS_GT, 3, 2) && !ms_order_holds(MS_GT, 2, 2));
  ck_assert(ms_order_holds(MS_GE, 2, 2) && !ms_order_holds(MS_GE, 1, 2));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("expr");
  TCase *tcase = tcase_create("languages");
  tcase_add_test(tcase, test_claim_values);
  tcase_add_test(tcase, test_claim_names);
  tcase_add_test(tcase, test_faults);
  tcase_add_test(tcase, test_condition_truth);
  tcase_add_test(tcase, test_orders);
  suite_add_tcase(suite, tcase);
  return test_main(suite);
}

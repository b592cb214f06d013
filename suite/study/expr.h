/* The two small languages of a study file, parsed once into one kind of tree.
 *
 * Conditions over factors (exclude, expect_fail, -E):
 *   experts >= 64 and (stack == dist_opt or not stack == fsdp)         == != < <= > >= and or not ( )
 *   Left of an operator stands a factor, right of it a level. Order needs a factor of type int.
 * Claims over metrics:
 *   tok_s[experts=128,stack=dist_opt_ep] / max(tok_s[experts=8,stack=dist_opt], 1.0)   + - * / ( ) max min
 *   A metric names a level of every factor, so that it means one case.
 * Reading is separate from meaning: whether names exist is checked by the study reader (study_check.c). */
#ifndef SUITE_STUDY_EXPR_H
#define SUITE_STUDY_EXPR_H

#include <stdint.h>

#include "kernels/base/status.h"

enum { MS_EXPR_NAME_BYTES = 64, MS_EXPR_MAX_SELECTORS = 8, MS_EXPR_MAX_DEPTH = 64 };

typedef enum ms_expr_kind {
  MS_EXPR_NUMBER,  /* number */
  MS_EXPR_METRIC,  /* metric[ref] */
  MS_EXPR_COMPARE, /* compare[ref] */
  MS_EXPR_NEGATE,  /* - first */
  MS_EXPR_NOT,
  MS_EXPR_ADD, /* first + second */
  MS_EXPR_SUBTRACT,
  MS_EXPR_MULTIPLY,
  MS_EXPR_DIVIDE,
  MS_EXPR_AND,
  MS_EXPR_OR,
  MS_EXPR_MAX, /* of first and second; longer lists are nested */
  MS_EXPR_MIN,
} ms_expr_kind;

typedef enum ms_order { MS_EQ, MS_NE, MS_LT, MS_LE, MS_GT, MS_GE } ms_order;

typedef struct ms_selector {
  char factor[MS_EXPR_NAME_BYTES], level[MS_EXPR_NAME_BYTES];
  int offset; /* byte in the text, for messages */
} ms_selector;

/* metric[factor=level,...] */
typedef struct ms_metric_ref {
  char metric[MS_EXPR_NAME_BYTES];
  int offset;
  ms_selector select[MS_EXPR_MAX_SELECTORS];
  int n_select;
} ms_metric_ref;

/* factor order level */
typedef struct ms_comparison {
  ms_selector side;
  ms_order order;
} ms_comparison;

typedef struct ms_expr_node {
  ms_expr_kind kind;
  double number;
  int ref;           /* index into metric[] or compare[] */
  int first, second; /* indices into node[] */
} ms_expr_node;

typedef struct ms_expr {
  ms_expr_node *node;
  int n_nodes, root;
  ms_metric_ref *metric;
  int n_metrics;
  ms_comparison *compare;
  int n_compares;
} ms_expr;

/* What is wrong and at which byte of the text (from 0). */
typedef struct ms_expr_fault {
  int offset;
  char message[256];
} ms_expr_fault;

/* Parses; on a wrong text MK_ERR_CONFIG with *fault filled and no error in ctx, so that the caller can go on. */
mk_status ms_expr_parse_condition(mk_context *ctx, const char *text, ms_expr_fault *fault, ms_expr **out);
mk_status ms_expr_parse_claim(mk_context *ctx, const char *text, ms_expr_fault *fault, ms_expr **out);
void ms_expr_destroy(mk_context *ctx, ms_expr *expr);

/* Value of metric `index`, NaN when there is none. */
typedef double (*ms_metric_value_fn)(const void *user, const ms_expr *expr, int index);

/* Truth of comparison `index`. */
typedef bool (*ms_compare_fn)(const void *user, const ms_expr *expr, int index);

/* Value of a claim; NaN spreads, and a division by 0 gives NaN. */
double ms_expr_value(const ms_expr *expr, ms_metric_value_fn value, const void *user);

/* Truth of a condition. */
bool ms_expr_holds(const ms_expr *expr, ms_compare_fn holds, const void *user);

/* "a order b" for numbers. */
bool ms_order_holds(ms_order order, double a, double b);

#endif

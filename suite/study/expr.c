/* Recursive descent over the bytes of one text; one level of the grammar per function. Depth is bounded, so a text of
 * parentheses cannot exhaust the stack. */
#include "suite/study/expr.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "kernels/base/text.h"

typedef struct parser {
  mk_context *ctx;
  const char *text;
  int at, depth;
  ms_expr_fault *fault;
  ms_expr *expr;
} parser;

static mk_status wrong(parser *p, int offset, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  vsnprintf(p->fault->message, sizeof p->fault->message, fmt, args);
  va_end(args);
  p->fault->offset = offset;
  return MK_ERR_CONFIG;
}

static void skip_spaces(parser *p) {
  while (isspace((unsigned char)p->text[p->at]))
    p->at++;
}

/* Takes `symbol` when it stands next. */
static bool take(parser *p, const char *symbol) {
  skip_spaces(p);
  size_t length = strlen(symbol);
  if (strncmp(p->text + p->at, symbol, length) != 0) return false;
  p->at += (int)length;
  return true;
}

static mk_status need(parser *p, const char *symbol) {
  if (take(p, symbol)) return MK_OK;
  const char *next = p->text + p->at;
  if (*next == '\0') return wrong(p, p->at, "'%s' expected, but the text ends", symbol);
  return wrong(p, p->at, "'%s' expected before '%.20s'", symbol, next);
}

/* Length of the word at the place, of letters, digits, '_' and the characters of `also`. */
static int word_length(const parser *p, const char *also) {
  int n = 0;
  for (const char *c = p->text + p->at; *c != '\0'; c++, n++) {
    if (!isalnum((unsigned char)*c) && *c != '_' && strchr(also, *c) == NULL) break;
  }
  return n;
}

static mk_status read_word(parser *p, const char *also, const char *what, char out[MS_EXPR_NAME_BYTES]) {
  skip_spaces(p);
  int length = word_length(p, also);
  if (length == 0 && p->text[p->at] == '\0') return wrong(p, p->at, "%s expected, but the text ends", what);
  if (length == 0) return wrong(p, p->at, "%s expected before '%.20s'", what, p->text + p->at);
  if (length >= MS_EXPR_NAME_BYTES) return wrong(p, p->at, "%s is longer than %d bytes", what, MS_EXPR_NAME_BYTES - 1);
  memcpy(out, p->text + p->at, (size_t)length);
  out[length] = '\0';
  p->at += length;
  return MK_OK;
}

/* Takes a keyword that is a whole word. */
static bool take_word(parser *p, const char *word) {
  skip_spaces(p);
  if (word_length(p, "-.") != (int)strlen(word) || strncmp(p->text + p->at, word, strlen(word)) != 0) return false;
  p->at += (int)strlen(word);
  return true;
}

static mk_status add_node(parser *p, ms_expr_node node, int *out) {
  ms_expr *e = p->expr;
  MK_TRY(p->ctx, mk_heap_resize(p->ctx, &e->node, ((size_t)e->n_nodes + 1) * sizeof *e->node));
  e->node[e->n_nodes] = node;
  *out = e->n_nodes++;
  return MK_OK;
}

static mk_status add_pair(parser *p, ms_expr_kind kind, int first, int second, int *out) {
  return add_node(p, (ms_expr_node){.kind = kind, .first = first, .second = second}, out);
}

static mk_status enter(parser *p) {
  p->depth += 1;
  return p->depth > MS_EXPR_MAX_DEPTH ? wrong(p, p->at, "nested too deeply") : MK_OK;
}

/* One `return` per level is enough here: a wrong text is no entry in the error record. */
#define STEP(call) \
  do { \
    mk_status step_st = (call); \
    if (step_st != MK_OK) return step_st; \
  } while (0)

/* ---- conditions ---- */

static mk_status parse_or(parser *p, int *out);

static mk_status read_order(parser *p, ms_order *out) {
  static const struct {
    const char *symbol;
    ms_order order;
  } ORDERS[] = {{"==", MS_EQ}, {"!=", MS_NE}, {"<=", MS_LE}, {">=", MS_GE}, {"<", MS_LT}, {">", MS_GT}};
  for (size_t i = 0; i < sizeof ORDERS / sizeof ORDERS[0]; i++) {
    if (!take(p, ORDERS[i].symbol)) continue;
    *out = ORDERS[i].order;
    return MK_OK;
  }
  return wrong(p, p->at, "one of == != < <= > >= expected");
}

static mk_status parse_comparison(parser *p, int *out) {
  ms_comparison c = {0};
  skip_spaces(p);
  c.side.offset = p->at;
  STEP(read_word(p, "", "a factor", c.side.factor));
  STEP(read_order(p, &c.order));
  STEP(read_word(p, "-.", "a level", c.side.level));
  ms_expr *e = p->expr;
  MK_TRY(p->ctx, mk_heap_resize(p->ctx, &e->compare, ((size_t)e->n_compares + 1) * sizeof *e->compare));
  e->compare[e->n_compares] = c;
  return add_node(p, (ms_expr_node){.kind = MS_EXPR_COMPARE, .ref = e->n_compares++}, out);
}

static mk_status parse_not(parser *p, int *out) {
  STEP(enter(p));
  if (take_word(p, "not")) {
    int inner = 0;
    STEP(parse_not(p, &inner));
    STEP(add_node(p, (ms_expr_node){.kind = MS_EXPR_NOT, .first = inner}, out));
  } else if (take(p, "(")) {
    STEP(parse_or(p, out));
    STEP(need(p, ")"));
  } else {
    STEP(parse_comparison(p, out));
  }
  p->depth -= 1;
  return MK_OK;
}

static mk_status parse_and(parser *p, int *out) {
  STEP(parse_not(p, out));
  while (take_word(p, "and")) {
    int second = 0;
    STEP(parse_not(p, &second));
    STEP(add_pair(p, MS_EXPR_AND, *out, second, out));
  }
  return MK_OK;
}

static mk_status parse_or(parser *p, int *out) {
  STEP(parse_and(p, out));
  while (take_word(p, "or")) {
    int second = 0;
    STEP(parse_and(p, &second));
    STEP(add_pair(p, MS_EXPR_OR, *out, second, out));
  }
  return MK_OK;
}

/* ---- claims ---- */

static mk_status parse_sum(parser *p, int *out);

static mk_status parse_number(parser *p, int *out) {
  char word[MS_EXPR_NAME_BYTES];
  int offset = p->at;
  double value = 0;
  STEP(read_word(p, ".", "a number", word));
  size_t length = strlen(word);
  bool exponent = word[length - 1] == 'e' || word[length - 1] == 'E';
  if (exponent && (p->text[p->at] == '-' || p->text[p->at] == '+') && length + 8 < sizeof word) {
    int digits = (int)strspn(p->text + p->at + 1, "0123456789");
    if (digits > 0 && digits < 6) {
      memcpy(word + length, p->text + p->at, (size_t)digits + 1);
      word[length + (size_t)digits + 1] = '\0';
      p->at += digits + 1;
    }
  }
  if (!mk_text_number(word, false, &value)) return wrong(p, offset, "'%s' is not a number", word);
  return add_node(p, (ms_expr_node){.kind = MS_EXPR_NUMBER, .number = value}, out);
}

static mk_status read_selectors(parser *p, ms_metric_ref *ref) {
  if (!take(p, "[")) return MK_OK;
  do {
    skip_spaces(p);
    if (ref->n_select == MS_EXPR_MAX_SELECTORS) return wrong(p, p->at, "more than %d factors", MS_EXPR_MAX_SELECTORS);
    ms_selector *s = &ref->select[ref->n_select++];
    s->offset = p->at;
    STEP(read_word(p, "", "a factor", s->factor));
    STEP(need(p, "="));
    STEP(read_word(p, "-.", "a level", s->level));
  } while (take(p, ","));
  return need(p, "]");
}

/* max(a, b, ...) and min: nested pairs. */
static mk_status parse_call(parser *p, const char *name, int offset, int *out) {
  bool largest = strcmp(name, "max") == 0;
  if (!largest && strcmp(name, "min") != 0)
    return wrong(p, offset, "unknown function '%s'; there are max and min", name);
  STEP(parse_sum(p, out));
  while (take(p, ",")) {
    int second = 0;
    STEP(parse_sum(p, &second));
    STEP(add_pair(p, largest ? MS_EXPR_MAX : MS_EXPR_MIN, *out, second, out));
  }
  return need(p, ")");
}

static mk_status parse_name(parser *p, int *out) {
  ms_metric_ref ref = {.offset = p->at};
  STEP(read_word(p, "", "a metric or a number", ref.metric));
  if (take(p, "(")) return parse_call(p, ref.metric, ref.offset, out);
  STEP(read_selectors(p, &ref));
  ms_expr *e = p->expr;
  MK_TRY(p->ctx, mk_heap_resize(p->ctx, &e->metric, ((size_t)e->n_metrics + 1) * sizeof *e->metric));
  e->metric[e->n_metrics] = ref;
  return add_node(p, (ms_expr_node){.kind = MS_EXPR_METRIC, .ref = e->n_metrics++}, out);
}

static mk_status parse_atom(parser *p, int *out) {
  STEP(enter(p));
  if (take(p, "-")) {
    int inner = 0;
    STEP(parse_atom(p, &inner));
    STEP(add_node(p, (ms_expr_node){.kind = MS_EXPR_NEGATE, .first = inner}, out));
  } else if (take(p, "(")) {
    STEP(parse_sum(p, out));
    STEP(need(p, ")"));
  } else if (isdigit((unsigned char)p->text[p->at]) || p->text[p->at] == '.') {
    STEP(parse_number(p, out));
  } else {
    STEP(parse_name(p, out));
  }
  p->depth -= 1;
  return MK_OK;
}

static mk_status parse_product(parser *p, int *out) {
  STEP(parse_atom(p, out));
  for (;;) {
    ms_expr_kind kind = MS_EXPR_MULTIPLY;
    if (!take(p, "*")) {
      if (!take(p, "/")) return MK_OK;
      kind = MS_EXPR_DIVIDE;
    }
    int second = 0;
    STEP(parse_atom(p, &second));
    STEP(add_pair(p, kind, *out, second, out));
  }
}

static mk_status parse_sum(parser *p, int *out) {
  STEP(parse_product(p, out));
  for (;;) {
    ms_expr_kind kind = MS_EXPR_ADD;
    if (!take(p, "+")) {
      if (!take(p, "-")) return MK_OK;
      kind = MS_EXPR_SUBTRACT;
    }
    int second = 0;
    STEP(parse_product(p, &second));
    STEP(add_pair(p, kind, *out, second, out));
  }
}

/* ---- both ---- */

static mk_status parse(mk_context *ctx, const char *text, mk_status (*start)(parser *, int *), ms_expr_fault *fault,
                       ms_expr **out) {
  parser p = {.ctx = ctx, .text = text, .fault = fault};
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *p.expr, &p.expr));
  mk_status st = start(&p, &p.expr->root);
  skip_spaces(&p);
  if (st == MK_OK && text[p.at] != '\0') st = wrong(&p, p.at, "nothing expected here, but '%.20s' stands", text + p.at);
  if (st != MK_OK) {
    ms_expr_destroy(ctx, p.expr);
    return st;
  }
  *out = p.expr;
  return MK_OK;
}

mk_status ms_expr_parse_condition(mk_context *ctx, const char *text, ms_expr_fault *fault, ms_expr **out) {
  return parse(ctx, text, parse_or, fault, out);
}

mk_status ms_expr_parse_claim(mk_context *ctx, const char *text, ms_expr_fault *fault, ms_expr **out) {
  return parse(ctx, text, parse_sum, fault, out);
}

void ms_expr_destroy(mk_context *ctx, ms_expr *expr) {
  if (expr == NULL) return;
  mk_heap_free(ctx, expr->node);
  mk_heap_free(ctx, expr->metric);
  mk_heap_free(ctx, expr->compare);
  mk_heap_free(ctx, expr);
}

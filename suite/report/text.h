/* Growing text, and numbers as people read them. */
#ifndef SUITE_REPORT_TEXT_H
#define SUITE_REPORT_TEXT_H

#include "suite/record/csv.h"

typedef struct ms_text {
  mk_context *ctx;
  char *text; /* owned; NULL while empty */
  size_t bytes, room;
  mk_status status; /* first failure; later calls do nothing */
} ms_text;

void ms_text_add(ms_text *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A table in Markdown; '|' in cells is escaped. */
void ms_text_table(ms_text *text, const ms_csv *table);

/* Four significant digits, whole numbers from 10,000 on; "" for NaN. */
void ms_pretty(double value, char *out, size_t bytes);

/* "0.954 [0.931, 0.972]", without brackets where there is no interval; "" for NaN. */
void ms_pretty_interval(double value, double lo, double hi, char *out, size_t bytes);

#endif

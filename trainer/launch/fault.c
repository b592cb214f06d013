/* See fault.h. */
#include "trainer/launch/fault.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/text.h"

/* Digits up to `end` as a whole number of at least `least`. */
static bool number(const char *text, size_t length, double least, int64_t *out) {
  char digits[24];
  double value = 0;
  if (length == 0 || length >= sizeof digits) return false;
  snprintf(digits, sizeof digits, "%.*s", (int)length, text);
  if (!mk_text_number(digits, true, &value) || value < least || value > 1e15) return false;
  *out = (int64_t)value;
  return true;
}

mk_status mt_fault_parse(mk_context *ctx, const char *text, mt_fault *out) {
  mt_fault fault = {.rank = -1};
  *out = fault;
  if (text[0] == '\0') return MK_OK;
  if (strncmp(text, "heap:", 5) == 0) fault.kind = MT_FAULT_HEAP;
  if (strncmp(text, "comm:", 5) == 0) fault.kind = MT_FAULT_COMM;
  bool good = fault.kind != MT_FAULT_NONE;
  const char *at = strchr(text, '@');
  size_t length = at != NULL ? (size_t)(at - text) : strlen(text);
  good = good && number(text + 5, length - 5, 1, &fault.at);
  if (at != NULL) good = good && number(at + 1, strlen(at + 1), 0, &fault.rank);
  MK_CHECK(ctx, good, MK_ERR_CONFIG, "fault: '%.100s' is not heap:N or comm:N, with @RANK for one rank only", text);
  *out = fault;
  return MK_OK;
}

bool mt_fault_hits(const mt_fault *fault, mt_fault_kind kind, int rank) {
  return fault->kind == kind && (fault->rank < 0 || fault->rank == rank);
}

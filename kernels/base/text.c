/* Edit distance with one row of the table; strict decimal numbers on top of strtod. */
#include "kernels/base/text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int mk_text_distance(const char *a, const char *b) {
  enum { LONGEST = 63 };
  int row[LONGEST + 1];
  int nb = (int)strnlen(b, LONGEST);
  for (int j = 0; j <= nb; j++)
    row[j] = j;
  for (int i = 1; i <= LONGEST && a[i - 1] != '\0'; i++) {
    int diagonal = row[0];
    row[0] = i;
    for (int j = 1; j <= nb; j++) {
      int cost = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      if (row[j] + 1 < cost) cost = row[j] + 1;
      if (row[j - 1] + 1 < cost) cost = row[j - 1] + 1;
      row[j] = cost;
    }
  }
  return row[nb];
}

void mk_text_printable(char *text) {
  for (; *text != '\0'; text++) {
    if (iscntrl((unsigned char)*text)) *text = '?';
  }
}

bool mk_text_number(const char *text, bool whole, double *out) {
  if (text[0] == '\0' || isspace((unsigned char)text[0])) return false;
  if (strspn(text, whole ? "+-0123456789" : "+-0123456789.eE") != strlen(text)) return false;
  char *end = NULL;
  errno = 0;
  double value = strtod(text, &end);
  if (end == text || *end != '\0' || errno == ERANGE || !isfinite(value)) return false;
  *out = value;
  return true;
}

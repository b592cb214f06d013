/* Small text helpers that every layer's readers share. */
#ifndef KERNELS_BASE_TEXT_H
#define KERNELS_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Levenshtein distance of two words, comparing at most 63 characters of each; for "the nearest known key is ...". */
int mk_text_distance(const char *a, const char *b);

/* A finite decimal number and nothing else: hex, inf, nan, spaces and trailing text are refused; with `whole` a
 * fraction or exponent is too. *out is set on success only. */
bool mk_text_number(const char *text, bool whole, double *out);

/* Control characters become '?', so that a quoted value cannot break a line or move a terminal's cursor. */
void mk_text_printable(char *text);

#ifdef __cplusplus
}
#endif

#endif

/* See npy_header.h. The dictionary is written by numpy with sorted keys; here each key is looked for by its name. */
#include "trainer/data/npy_header.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/text.h"

#define MAGIC "\x93NUMPY"

enum { MAGIC_BYTES = 6, TEXT_BYTES = MT_NPY_HEAD_BYTES };

bool mt_npy_header_is(const char *head, int64_t bytes) {
  return bytes >= MAGIC_BYTES && memcmp(head, MAGIC, MAGIC_BYTES) == 0;
}

/* Length of the dictionary and where it begins. */
static mk_status find_text(mk_context *ctx, const char *path, const char *head, int64_t bytes, int64_t *begin,
                           int64_t *length) {
  const unsigned char *u = (const unsigned char *)head;
  int version = bytes > MAGIC_BYTES ? u[MAGIC_BYTES] : 0;
  MK_CHECK(ctx, version >= 1 && version <= 3, MK_ERR_FORMAT, "data_path: %s: numpy format version %d is not read", path,
           version);
  *begin = MAGIC_BYTES + 2 + (version == 1 ? 2 : 4);
  MK_CHECK(ctx, bytes >= *begin, MK_ERR_FORMAT, "data_path: %s: the numpy header is cut short", path);
  *length = u[8] | u[9] << 8;
  if (version > 1) *length |= (int64_t)u[10] << 16 | (int64_t)u[11] << 24;
  MK_CHECK(ctx, *begin + *length <= bytes, MK_ERR_FORMAT,
           "data_path: %s: the numpy header of %lld bytes is cut short or no header of one dimension", path,
           (long long)*length);
  return MK_OK;
}

/* What follows "'key':", without blanks; NULL when the key is not there. */
static const char *value_of(const char *text, const char *key) {
  char quoted[32];
  snprintf(quoted, sizeof quoted, "'%s':", key);
  const char *at = strstr(text, quoted);
  return at == NULL ? NULL : at + strlen(quoted) + strspn(at + strlen(quoted), " ");
}

static int width_of(const char *descr) {
  static const char *const words[] = {"'|u1'", "'<u1'", "'<u2'", "'<u4'", "'<u8'"};
  static const int widths[] = {1, 1, 2, 4, 8};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (descr != NULL && strncmp(descr, words[i], strlen(words[i])) == 0) return widths[i];
  }
  return 0;
}

/* The N of "(N,)"; -1 for any other shape. */
static int64_t length_of(const char *shape) {
  char digits[24] = "";
  double value = -1;
  size_t n = shape != NULL && shape[0] == '(' ? strspn(shape + 1, "0123456789") : 0;
  if (n == 0 || n >= 16 || strncmp(shape + 1 + n, ",)", 2) != 0) return -1;
  memcpy(digits, shape + 1, n);
  return mk_text_number(digits, true, &value) ? (int64_t)value : -1;
}

mk_status mt_npy_header_parse(mk_context *ctx, const char *path, const char *head, int64_t bytes, mt_npy_header *out) {
  char text[TEXT_BYTES + 1];
  int64_t begin = 0, length = 0;
  MK_TRY(ctx, find_text(ctx, path, head, bytes, &begin, &length));
  memcpy(text, head + begin, (size_t)length);
  text[length] = '\0';
  const char *descr = value_of(text, "descr");
  mt_npy_header npy = {
      .begin_bytes = begin + length, .width = width_of(descr), .count = length_of(value_of(text, "shape"))};
  MK_CHECK(
      ctx, npy.width > 0, MK_ERR_FORMAT,
      "data_path: %s: the numpy header has descr %.12s, expected unsigned little-endian integers: <u1, <u2, <u4, <u8",
      path, descr == NULL ? "nowhere" : descr);
  MK_CHECK(ctx, npy.count >= 0, MK_ERR_FORMAT,
           "data_path: %s: the numpy header has shape %.24s, expected one dimension", path,
           value_of(text, "shape") == NULL ? "nowhere" : value_of(text, "shape"));
  *out = npy;
  return MK_OK;
}

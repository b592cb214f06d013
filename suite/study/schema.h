/* Reading a map of a YAML tree into a struct by a table of its keys. Every fault is collected: unknown key with the
 * nearest known one, wrong type, range, word, missing mandatory key. */
#ifndef SUITE_STUDY_SCHEMA_H
#define SUITE_STUDY_SCHEMA_H

#include <stdint.h>

#include "suite/study/yaml_tree.h"

typedef struct ms_reader {
  mk_context *ctx;
  const char *path;
  ms_diagnostics *diag;
  mk_status st; /* first failure that is no fault of the file: host memory */
} ms_reader;

typedef enum ms_field_type {
  MS_FIELD_TEXT,   /* char[bytes]: one line */
  MS_FIELD_NAME,   /* char[bytes]: letters, digits and _ - . only */
  MS_FIELD_WORD,   /* char[bytes]: one of `words` */
  MS_FIELD_NUMBER, /* double in [min, max] */
  MS_FIELD_INT,    /* int64_t in [min, max] */
  MS_FIELD_BOOL,   /* bool */
  MS_FIELD_CUSTOM, /* read(reader, node, struct) */
} ms_field_type;

typedef struct ms_field {
  const char *name;
  ms_field_type type;
  bool mandatory;
  size_t offset, bytes;
  double min, max;
  const char *const *words;
  void (*read)(ms_reader *reader, const ms_node *node, void *out);
} ms_field;

/* Table entries: struct type, member of the same name as the key. */
#define MS_MEMBER(type, member) offsetof(type, member), sizeof(((type *)0)->member)
#define MS_TEXT(type, member, must) \
  { #member, MS_FIELD_TEXT, must, MS_MEMBER(type, member), 0, 0, NULL, NULL }
#define MS_NAME(type, member, must) \
  { #member, MS_FIELD_NAME, must, MS_MEMBER(type, member), 0, 0, NULL, NULL }
#define MS_WORD(type, member, must, words) \
  { #member, MS_FIELD_WORD, must, MS_MEMBER(type, member), 0, 0, words, NULL }
#define MS_NUMBER(type, member, must, lo, hi) \
  { #member, MS_FIELD_NUMBER, must, MS_MEMBER(type, member), lo, hi, NULL, NULL }
#define MS_INT(type, member, must, lo, hi) \
  { #member, MS_FIELD_INT, must, MS_MEMBER(type, member), lo, hi, NULL, NULL }
#define MS_BOOL(type, member, must) \
  { #member, MS_FIELD_BOOL, must, MS_MEMBER(type, member), 0, 0, NULL, NULL }
#define MS_CUSTOM(key, must, fn) \
  { key, MS_FIELD_CUSTOM, must, 0, 0, 0, 0, NULL, fn }

/* Reads all children of `map` (which must be one) into the struct at out; `what` names it in messages. */
void ms_schema_read(ms_reader *reader, const ms_node *map, const char *what, const ms_field *fields, int n_fields,
                    void *out);

/* Adds a fault. */
void ms_fault(ms_reader *reader, ms_place place, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* True when the node has the kind; else adds a fault. */
bool ms_expect(ms_reader *reader, const ms_node *node, ms_node_kind kind, const char *what);

/* One text value; false after a fault. `text` is cut never: too long is a fault. */
bool ms_read_text(ms_reader *reader, const ms_node *node, const char *what, char *text, size_t bytes);
bool ms_read_name(ms_reader *reader, const ms_node *node, const char *what, char *text, size_t bytes);
bool ms_read_number(ms_reader *reader, const ms_node *node, const char *what, bool whole, double min, double max,
                    double *out);

/* True for letters, digits and _ - . with no dot in front: a part of a file name that leads nowhere else. */
bool ms_name_is_plain(const char *text);

/* Zeroed array for the children of a list or map; false when memory runs out (then reader->st is set) or it is empty.
 */
bool ms_read_array(ms_reader *reader, const ms_node *node, size_t size, void *out);

/* Keeps the best of several words in `best`: call with distance -1 first. */
void ms_nearest(const char *word, const char *candidate, const char **best, int *distance);

#endif

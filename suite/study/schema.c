/* One pass over the children of a map, one over the mandatory keys. */
#include "suite/study/schema.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "kernels/base/text.h"

void ms_fault(ms_reader *reader, ms_place place, const char *fmt, ...) {
  char text[MK_MESSAGE_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if (reader->st != MK_OK) return;
  reader->st = ms_diagnostics_add(reader->ctx, reader->diag, reader->path, place, "%s", text);
}

static const char *kind_name(ms_node_kind kind) {
  static const char *const NAMES[] = {"a text", "a list", "a map"};
  return NAMES[kind];
}

bool ms_expect(ms_reader *reader, const ms_node *node, ms_node_kind kind, const char *what) {
  if (node->bad) return false;
  if (node->kind == kind) return true;
  ms_fault(reader, node->place, "%s: must be %s, not %s", what, kind_name(kind), kind_name(node->kind));
  return false;
}

bool ms_read_text(ms_reader *reader, const ms_node *node, const char *what, char *text, size_t bytes) {
  if (!ms_expect(reader, node, MS_NODE_TEXT, what)) return false;
  size_t length = strlen(node->text);
  if (length == 0) {
    ms_fault(reader, node->place, "%s: is empty", what);
    return false;
  }
  if (strpbrk(node->text, "\n\r\t") != NULL) {
    ms_fault(reader, node->place, "%s: must be one line without tabs", what);
    return false;
  }
  if (length >= bytes) {
    ms_fault(reader, node->place, "%s: is longer than %zu bytes", what, bytes - 1);
    return false;
  }
  strcpy(text, node->text);
  return true;
}

bool ms_name_is_plain(const char *text) {
  for (const char *c = text; *c != '\0'; c++) {
    if (!isalnum((unsigned char)*c) && *c != '_' && *c != '-' && *c != '.') return false;
  }
  return text[0] != '\0' && text[0] != '.';
}

bool ms_read_name(ms_reader *reader, const ms_node *node, const char *what, char *text, size_t bytes) {
  if (!ms_read_text(reader, node, what, text, bytes)) return false;
  if (ms_name_is_plain(text)) return true;
  ms_fault(reader, node->place, "%s: '%.60s' may hold letters, digits, '_', '-' and, inside, '.' only", what, text);
  return false;
}

bool ms_read_number(ms_reader *reader, const ms_node *node, const char *what, bool whole, double min, double max,
                    double *out) {
  if (!ms_expect(reader, node, MS_NODE_TEXT, what)) return false;
  double value = 0;
  if (!mk_text_number(node->text, whole, &value)) {
    ms_fault(reader, node->place, "%s: '%.60s' is not a %s number", what, node->text, whole ? "whole" : "decimal");
    return false;
  }
  if (value < min || value > max) {
    ms_fault(reader, node->place, "%s: %.60s is out of range, allowed %.15g to %.15g", what, node->text, min, max);
    return false;
  }
  *out = value;
  return true;
}

bool ms_read_array(ms_reader *reader, const ms_node *node, size_t size, void *out) {
  if (reader->st != MK_OK || node->count == 0) return false;
  reader->st = mk_heap_array(reader->ctx, (size_t)node->count, size, out);
  return reader->st == MK_OK;
}

void ms_nearest(const char *word, const char *candidate, const char **best, int *distance) {
  int d = mk_text_distance(word, candidate);
  if (*distance >= 0 && d >= *distance) return;
  *best = candidate;
  *distance = d;
}

static void read_bool(ms_reader *reader, const ms_node *node, bool *out) {
  if (!ms_expect(reader, node, MS_NODE_TEXT, node->key)) return;
  bool yes = strcmp(node->text, "true") == 0;
  if (!yes && strcmp(node->text, "false") != 0) {
    ms_fault(reader, node->place, "%s: '%.60s' is not true or false", node->key, node->text);
    return;
  }
  *out = yes;
}

static void read_word(ms_reader *reader, const ms_node *node, const ms_field *field, char *out) {
  char word[64], legal[256] = "";
  if (!ms_read_text(reader, node, node->key, word, sizeof word)) return;
  size_t used = 0;
  for (int i = 0; field->words[i] != NULL; i++) {
    if (strcmp(field->words[i], word) == 0) {
      snprintf(out, field->bytes, "%s", word);
      return;
    }
    int put = snprintf(legal + used, sizeof legal - used, "%s%s", i == 0 ? "" : ", ", field->words[i]);
    if (put > 0 && used + (size_t)put < sizeof legal) used += (size_t)put;
  }
  ms_fault(reader, node->place, "%s: '%s' is not one of: %s", node->key, word, legal);
}

static void read_field(ms_reader *reader, const ms_node *node, const ms_field *field, void *out) {
  char *member = (char *)out + field->offset;
  double number = 0;
  switch (field->type) {
    case MS_FIELD_TEXT:
      ms_read_text(reader, node, node->key, member, field->bytes);
      break;
    case MS_FIELD_NAME:
      ms_read_name(reader, node, node->key, member, field->bytes);
      break;
    case MS_FIELD_WORD:
      read_word(reader, node, field, member);
      break;
    case MS_FIELD_BOOL:
      read_bool(reader, node, (bool *)member);
      break;
    case MS_FIELD_NUMBER:
      if (ms_read_number(reader, node, node->key, false, field->min, field->max, &number)) {
        *(double *)member = number;
      }
      break;
    case MS_FIELD_INT:
      if (ms_read_number(reader, node, node->key, true, field->min, field->max, &number)) {
        *(int64_t *)member = (int64_t)number;
      }
      break;
    default:
      field->read(reader, node, out);
      break;
  }
}

static void unknown_key(ms_reader *reader, const ms_node *node, const char *what, const ms_field *fields,
                        int n_fields) {
  const char *best = "";
  int distance = -1;
  for (int i = 0; i < n_fields; i++)
    ms_nearest(node->key, fields[i].name, &best, &distance);
  ms_fault(reader, node->key_place, "unknown key '%.60s' in %s; the nearest is '%s'", node->key, what, best);
}

void ms_schema_read(ms_reader *reader, const ms_node *map, const char *what, const ms_field *fields, int n_fields,
                    void *out) {
  if (!ms_expect(reader, map, MS_NODE_MAP, what)) return;
  for (const ms_node *node = map->first; node != NULL; node = node->next) {
    int i = 0;
    while (i < n_fields && strcmp(fields[i].name, node->key) != 0)
      i++;
    if (i == n_fields) {
      unknown_key(reader, node, what, fields, n_fields);
    } else if (!node->bad) {
      read_field(reader, node, &fields[i], out);
    }
  }
  for (int i = 0; i < n_fields; i++) {
    if (fields[i].mandatory && ms_yaml_child(map, fields[i].name) == NULL) {
      ms_fault(reader, map->place, "%s: mandatory key '%s' is missing", what, fields[i].name);
    }
  }
}

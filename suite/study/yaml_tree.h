/* A YAML file as a tree of maps, lists and texts with their places. The subset of moemark: no anchors, aliases, tags or
 * directives, one document, keys are texts, no key twice. Faults are collected, so that one reading reports them all;
 * only a syntax error ends the reading. */
#ifndef SUITE_STUDY_YAML_TREE_H
#define SUITE_STUDY_YAML_TREE_H

#include "suite/study/diagnostics.h"

typedef enum ms_node_kind { MS_NODE_TEXT, MS_NODE_LIST, MS_NODE_MAP } ms_node_kind;

typedef struct ms_node {
  ms_node_kind kind;
  char *key; /* inside a map: its key */
  ms_place key_place, place;
  char *text;          /* MS_NODE_TEXT */
  ms_place text_place; /* first character of the text, inside quotes */
  bool bad;            /* already reported (a key twice, an alias); readers skip it */
  struct ms_node *first, *last, *next;
  int count; /* children */
} ms_node;

/* Reads `path`. *out is NULL when nothing could be read (then diag says why), else the caller's. The result is MK_OK
 * whatever the file says; it fails only when host memory runs out. */
mk_status ms_yaml_read(mk_context *ctx, const char *path, ms_diagnostics *diag, ms_node **out);
void ms_yaml_destroy(mk_context *ctx, ms_node *root);

/* Child of a map, or NULL. */
const ms_node *ms_yaml_child(const ms_node *map, const char *key);

#endif

/* libyaml's events to a tree, with an explicit stack. The limits keep a hostile file from costing more than a moment:
 * finding a repeated key is quadratic in the keys of one map. */
#include "suite/study/yaml_tree.h"

#include <string.h>
#include <sys/stat.h>
#include <yaml.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"

enum { MAX_BYTES = 1 << 20, MAX_DEPTH = 32, MAX_CHILDREN = 4096, MAX_NODES = 100000 };

typedef struct builder {
  mk_context *ctx;
  const char *path;
  ms_diagnostics *diag;
  ms_node *root;
  ms_node *open[MAX_DEPTH];
  int depth;
  char *key; /* read, its value not yet */
  ms_place key_place;
  int n_nodes, n_documents;
  bool stop;
} builder;

static ms_place place_of(const yaml_mark_t *mark) { return (ms_place){(int)mark->line + 1, (int)mark->column + 1}; }

static mk_status stop_at(builder *b, ms_place place, const char *what) {
  b->stop = true;
  return ms_diagnostics_add(b->ctx, b->diag, b->path, place, "%s", what);
}

/* Anchors and tags are refused where they stand; reading goes on. */
static mk_status check_decoration(builder *b, const yaml_event_t *event, const yaml_char_t *anchor,
                                  const yaml_char_t *tag, bool *bad) {
  ms_place place = place_of(&event->start_mark);
  *bad = anchor != NULL || tag != NULL;
  if (anchor != NULL) {
    MK_TRY(b->ctx, ms_diagnostics_add(b->ctx, b->diag, b->path, place, "anchors (&%.60s) are not part of the format",
                                      (const char *)anchor));
  }
  if (tag != NULL) {
    MK_TRY(b->ctx, ms_diagnostics_add(b->ctx, b->diag, b->path, place, "tags (%.60s) are not part of the format",
                                      (const char *)tag));
  }
  return MK_OK;
}

static mk_status check_repeat(builder *b, const ms_node *map, bool *bad) {
  const ms_node *before = ms_yaml_child(map, b->key);
  if (before == NULL) return MK_OK;
  *bad = true;
  return ms_diagnostics_add(b->ctx, b->diag, b->path, b->key_place, "key '%.60s' stands twice; first in line %d",
                            b->key, before->key_place.line);
}

/* Appends to the open list or map, or makes the root. Takes over b->key. */
static mk_status attach(builder *b, ms_node *node) {
  ms_node *parent = b->depth > 0 ? b->open[b->depth - 1] : NULL;
  if (parent == NULL) {
    b->root = node;
    return MK_OK;
  }
  mk_status st = MK_OK;
  if (parent->kind == MS_NODE_MAP) {
    st = check_repeat(b, parent, &node->bad);
    node->key = b->key;
    node->key_place = b->key_place;
    b->key = NULL;
  }
  if (parent->last == NULL) {
    parent->first = node;
  } else {
    parent->last->next = node;
  }
  parent->last = node;
  parent->count += 1;
  return st;
}

static mk_status new_node(builder *b, ms_node_kind kind, ms_place place, bool bad, ms_node **out) {
  const ms_node *parent = b->depth > 0 ? b->open[b->depth - 1] : NULL;
  b->n_nodes += 1;
  if (b->n_nodes > MAX_NODES || (parent != NULL && parent->count >= MAX_CHILDREN)) {
    return stop_at(b, place, "too many entries for a study, model or system file");
  }
  ms_node *node = NULL;
  MK_TRY(b->ctx, mk_heap_alloc(b->ctx, sizeof *node, &node));
  *node = (ms_node){.kind = kind, .place = place, .text_place = place, .bad = bad};
  *out = node;
  mk_status st = attach(b, node);
  node->bad = node->bad || bad;
  return st;
}

static bool awaits_key(const builder *b) {
  return b->depth > 0 && b->open[b->depth - 1]->kind == MS_NODE_MAP && b->key == NULL;
}

static mk_status on_scalar(builder *b, const yaml_event_t *event) {
  bool bad = false;
  ms_place place = place_of(&event->start_mark);
  MK_TRY(b->ctx, check_decoration(b, event, event->data.scalar.anchor, event->data.scalar.tag, &bad));
  const char *text = (const char *)event->data.scalar.value;
  if (strlen(text) != event->data.scalar.length) return stop_at(b, place, "a text contains a NUL character");
  if (awaits_key(b)) {
    b->key_place = place;
    return mk_heap_strdup(b->ctx, text, &b->key);
  }
  ms_node *node = NULL;
  MK_TRY(b->ctx, new_node(b, MS_NODE_TEXT, place, bad, &node));
  if (node == NULL) return MK_OK;
  bool quoted = event->data.scalar.style == YAML_SINGLE_QUOTED_SCALAR_STYLE ||
                event->data.scalar.style == YAML_DOUBLE_QUOTED_SCALAR_STYLE;
  if (quoted) node->text_place.col += 1;
  return mk_heap_strdup(b->ctx, text, &node->text);
}

static mk_status on_open(builder *b, const yaml_event_t *event, ms_node_kind kind, const yaml_char_t *anchor,
                         const yaml_char_t *tag) {
  bool bad = false;
  ms_place place = place_of(&event->start_mark);
  MK_TRY(b->ctx, check_decoration(b, event, anchor, tag, &bad));
  if (awaits_key(b)) return stop_at(b, place, "a key must be a text, not a list or a map");
  if (b->depth == MAX_DEPTH) return stop_at(b, place, "nested too deeply");
  ms_node *node = NULL;
  MK_TRY(b->ctx, new_node(b, kind, place, bad, &node));
  if (node != NULL) b->open[b->depth++] = node;
  return MK_OK;
}

static mk_status on_alias(builder *b, const yaml_event_t *event) {
  ms_place place = place_of(&event->start_mark);
  MK_TRY(b->ctx, ms_diagnostics_add(b->ctx, b->diag, b->path, place, "aliases (*%.60s) are not part of the format",
                                    (const char *)event->data.alias.anchor));
  b->stop = awaits_key(b);
  ms_node *node = NULL;
  return b->stop ? MK_OK : new_node(b, MS_NODE_TEXT, place, true, &node);
}

static mk_status on_document(builder *b, const yaml_event_t *event) {
  ms_place place = place_of(&event->start_mark);
  b->n_documents += 1;
  if (b->n_documents > 1) return stop_at(b, place, "a second document begins here; a file has one");
  if (event->data.document_start.version_directive != NULL ||
      event->data.document_start.tag_directives.start != event->data.document_start.tag_directives.end) {
    return stop_at(b, place, "directives (%YAML, %TAG) are not part of the format");
  }
  return MK_OK;
}

static mk_status on_event(builder *b, const yaml_event_t *event) {
  switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
      return on_document(b, event);
    case YAML_ALIAS_EVENT:
      return on_alias(b, event);
    case YAML_SCALAR_EVENT:
      return on_scalar(b, event);
    case YAML_SEQUENCE_START_EVENT:
      return on_open(b, event, MS_NODE_LIST, event->data.sequence_start.anchor, event->data.sequence_start.tag);
    case YAML_MAPPING_START_EVENT:
      return on_open(b, event, MS_NODE_MAP, event->data.mapping_start.anchor, event->data.mapping_start.tag);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
      b->depth -= 1;
      return MK_OK;
    case YAML_STREAM_END_EVENT:
      b->stop = true;
      return MK_OK;
    default:
      return MK_OK;
  }
}

/* Errors of libyaml's byte reader carry an offset, the others a mark. */
static mk_status syntax_error(builder *b, const yaml_parser_t *parser, const char *data) {
  ms_place place = place_of(&parser->problem_mark);
  if (parser->error == YAML_READER_ERROR) {
    place = (ms_place){1, 1};
    for (size_t i = 0; i < parser->problem_offset && data[i] != '\0'; i++) {
      place = data[i] == '\n' ? (ms_place){place.line + 1, 1} : (ms_place){place.line, place.col + 1};
    }
  }
  const char *problem = parser->problem != NULL ? parser->problem : "out of memory";
  bool context = parser->context != NULL;
  return ms_diagnostics_add(b->ctx, b->diag, b->path, place, "not YAML: %s%s%s", context ? parser->context : "",
                            context ? ": " : "", problem);
}

static mk_status parse(builder *b, const char *data, size_t bytes) {
  mk_status st = MK_OK;
  yaml_parser_t parser;
  MK_CHECK(b->ctx, yaml_parser_initialize(&parser) != 0, MK_ERR_MEMORY, "%s: out of host memory", b->path);
  yaml_parser_set_input_string(&parser, (const unsigned char *)data, bytes);
  while (!b->stop && st == MK_OK) {
    yaml_event_t event;
    if (yaml_parser_parse(&parser, &event) == 0) {
      b->stop = true;
      st = syntax_error(b, &parser, data);
      break;
    }
    st = on_event(b, &event);
    yaml_event_delete(&event);
  }
  yaml_parser_delete(&parser);
  return st;
}

/* One clear fault for a file that cannot be a study at all; *out stays NULL. */
static mk_status read_bytes(builder *b, char **out, size_t *bytes) {
  const ms_place start = {1, 1};
  struct stat info;
  if (stat(b->path, &info) == 0 && info.st_size > MAX_BYTES) {
    return ms_diagnostics_add(b->ctx, b->diag, b->path, start,
                              "the file has %lld bytes, more than the %d of any such file", (long long)info.st_size,
                              MAX_BYTES);
  }
  char *data = NULL;
  mk_status st = mk_file_read(b->ctx, b->path, &data, bytes);
  if (st == MK_ERR_MEMORY) return st;
  if (st != MK_OK) {
    char message[MK_MESSAGE_BYTES];
    size_t skip = strncmp(b->ctx->error.message, b->path, strlen(b->path)) == 0 ? strlen(b->path) + 2 : 0;
    strcpy(message, b->ctx->error.message + skip);
    mk_error_clear(b->ctx);
    return ms_diagnostics_add(b->ctx, b->diag, b->path, start, "%s", message);
  }
  const char *zero = memchr(data, '\0', *bytes);
  if (*bytes == 0 || zero != NULL) {
    st = *bytes == 0 ? ms_diagnostics_add(b->ctx, b->diag, b->path, start, "the file is empty")
                     : ms_diagnostics_add(b->ctx, b->diag, b->path, start, "not a text file: byte %lld is 0",
                                          (long long)(zero - data));
    mk_heap_free(b->ctx, data);
    return st;
  }
  *out = data;
  return MK_OK;
}

mk_status ms_yaml_read(mk_context *ctx, const char *path, ms_diagnostics *diag, ms_node **out) {
  builder b = {.ctx = ctx, .path = path, .diag = diag};
  int before = diag->count;
  char *data = NULL;
  size_t bytes = 0;
  *out = NULL;
  mk_status st = read_bytes(&b, &data, &bytes);
  if (st == MK_OK && data != NULL) st = parse(&b, data, bytes);
  if (st == MK_OK && data != NULL && b.root == NULL && diag->count == before) {
    st = ms_diagnostics_add(ctx, diag, path, (ms_place){1, 1}, "the file holds nothing but comments");
  }
  mk_heap_free(ctx, b.key);
  mk_heap_free(ctx, data);
  bool whole = b.depth == 0 && b.n_documents == 1;
  if (st != MK_OK || !whole) {
    ms_yaml_destroy(ctx, b.root);
    return st;
  }
  *out = b.root;
  return MK_OK;
}

/* Depth is bounded by MAX_DEPTH, so recursion is too; siblings are a loop. */
void ms_yaml_destroy(mk_context *ctx, ms_node *root) {
  while (root != NULL) {
    ms_node *next = root->next;
    ms_yaml_destroy(ctx, root->first);
    mk_heap_free(ctx, root->key);
    mk_heap_free(ctx, root->text);
    mk_heap_free(ctx, root);
    root = next;
  }
}

const ms_node *ms_yaml_child(const ms_node *map, const char *key) {
  for (const ms_node *child = map->first; child != NULL; child = child->next) {
    if (child->key != NULL && strcmp(child->key, key) == 0) return child;
  }
  return NULL;
}

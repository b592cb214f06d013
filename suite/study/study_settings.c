/* Trainer keys inside `set:` and `define:`, and what a level of a factor sets. */
#include <string.h>

#include "kernels/base/heap.h"
#include "suite/study/study_read.h"

void ms_read_items(ms_reader *reader, const ms_node *node, ms_node_kind kind, const char *what, size_t size,
                   ms_item_fn read_item, void *array, int *count) {
  char *items = NULL;
  if (*count != 0 || !ms_expect(reader, node, kind, what) || !ms_read_array(reader, node, size, &items)) return;
  memcpy(array, &items, sizeof items);
  for (const ms_node *child = node->first; child != NULL; child = child->next) {
    char *item = items + (size_t)*count * size;
    if (!child->bad && read_item(reader, child, item)) {
      *count += 1;
    } else {
      memset(item, 0, size);
    }
  }
}

bool ms_read_setting(ms_reader *reader, const ms_node *node, ms_setting *out) {
  mt_config scratch = mt_config_default();
  out->place = node->place;
  if (!ms_expect(reader, node, MS_NODE_TEXT, node->key)) return false;
  mk_context *ctx = reader->ctx;
  if (mt_config_set(ctx, &scratch, node->key, node->text) != MK_OK) {
    bool unknown = mt_config_key_find(node->key) == NULL;
    ms_fault(reader, unknown ? node->key_place : node->place, "%s", ctx->error.message);
    mk_error_clear(ctx);
    return false;
  }
  if (strcmp(node->key, "resume") == 0 && strcmp(scratch.resume, "none") != 0) {
    ms_fault(reader, node->key_place, "resume: a launch measures from its start; leave the key out");
    return false;
  }
  strcpy(out->key, node->key); /* a known key fits */
  strcpy(out->value, node->text);
  return true;
}

/* What a level sets lies in `level->set`; its array has room for every child of the map. */
static void read_level_key(ms_reader *reader, const ms_node *node, ms_level *level) {
  if (strcmp(node->key, "peer") == 0) {
    ms_read_name(reader, node, "peer", level->peer, sizeof level->peer);
  } else if (strcmp(node->key, "args") == 0) {
    ms_read_text(reader, node, "args", level->args, sizeof level->args);
  } else if (ms_read_setting(reader, node, &level->set.item[level->set.count])) {
    level->set.count += 1;
  }
}

static void read_level(ms_reader *reader, const ms_node *node, ms_level *level) {
  if (!ms_expect(reader, node, MS_NODE_MAP, node->key)) return;
  if (!ms_read_array(reader, node, sizeof *level->set.item, &level->set.item)) return;
  for (const ms_node *child = node->first; child != NULL; child = child->next) {
    if (!child->bad) read_level_key(reader, child, level);
  }
  if (level->args[0] != '\0' && level->peer[0] == '\0') {
    ms_fault(reader, node->place, "level '%s' has args but no peer", level->name);
  }
}

static int count_levels(const ms_node *node) {
  int count = 0;
  for (const ms_node *factor = node->first; factor != NULL; factor = factor->next)
    count += factor->count;
  return count;
}

static void read_factor_levels(ms_reader *reader, const ms_node *factor, const char *scale, ms_study *study) {
  if (!ms_expect(reader, factor, MS_NODE_MAP, factor->key)) return;
  for (const ms_node *node = factor->first; node != NULL; node = node->next) {
    ms_level *level = &study->levels[study->n_level_defs];
    if (node->bad) continue;
    if (!ms_name_is_plain(node->key) || strlen(node->key) >= MS_NAME_BYTES || strlen(factor->key) >= MS_NAME_BYTES) {
      ms_fault(reader, node->key_place, "'%.60s' is no name of a level (letters, digits, '_', '-' and, inside, '.')",
               node->key);
      continue;
    }
    strcpy(level->name, node->key);
    strcpy(level->factor, factor->key);
    strcpy(level->scale, scale);
    level->place = node->key_place;
    study->n_level_defs += 1;
    read_level(reader, node, level);
  }
}

void ms_read_define_of(ms_reader *reader, const ms_node *node, const char *scale, ms_study *study) {
  if (!ms_expect(reader, node, MS_NODE_MAP, "define") || reader->st != MK_OK) return;
  size_t old = (size_t)study->n_level_defs, added = (size_t)count_levels(node);
  reader->st = mk_heap_resize(reader->ctx, &study->levels, (old + added) * sizeof *study->levels);
  if (reader->st != MK_OK) return;
  memset(study->levels + old, 0, added * sizeof *study->levels);
  for (const ms_node *factor = node->first; factor != NULL; factor = factor->next) {
    if (!factor->bad) read_factor_levels(reader, factor, scale, study);
  }
}

void ms_read_define(ms_reader *reader, const ms_node *node, void *out) { ms_read_define_of(reader, node, "", out); }

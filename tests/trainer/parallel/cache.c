/* See cache.h. */
#include "tests/trainer/parallel/cache.h"

#include <string.h>

const outcome *cache_find(const cache *c, const mt_config *cfg) {
  char key[ROW_KEY_BYTES];
  row_key(cfg, key, sizeof key);
  for (int i = 0; i < CACHE_SLOTS; i++) {
    if (c->slot[i].value != NULL && strcmp(c->slot[i].key, key) == 0) return c->slot[i].value;
  }
  return NULL;
}

const outcome *cache_add(cache *c, const mt_config *cfg, outcome *value) {
  int i = c->next;
  c->next = (i + 1) % CACHE_SLOTS;
  outcome_free(c->slot[i].value);
  row_key(cfg, c->slot[i].key, sizeof c->slot[i].key);
  c->slot[i].value = value;
  return value;
}

void cache_clear(cache *c) {
  for (int i = 0; i < CACHE_SLOTS; i++)
    outcome_free(c->slot[i].value);
  *c = (cache){0};
}

/* The outcomes of the last few configurations: rows that lie beside each other share their twins. */
#ifndef TESTS_TRAINER_PARALLEL_CACHE_H
#define TESTS_TRAINER_PARALLEL_CACHE_H

#include "tests/trainer/parallel/outcome.h"
#include "tests/trainer/parallel/row.h"

enum { CACHE_SLOTS = 6 };

typedef struct cache {
  struct {
    char key[ROW_KEY_BYTES];
    outcome *value;
  } slot[CACHE_SLOTS];
  int next;
} cache;

/* The outcome of this configuration, or NULL. It lives until CACHE_SLOTS others have been added. */
const outcome *cache_find(const cache *c, const mt_config *cfg);

/* Takes the outcome over and returns it. */
const outcome *cache_add(cache *c, const mt_config *cfg, outcome *value);

void cache_clear(cache *c);

#endif

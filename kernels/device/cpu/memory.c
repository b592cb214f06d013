/* Blocks are page mappings. Guard mode keeps a list of them and changes their protection when the first thread enters
 * and the last one leaves: one mprotect a block, which only a test pays. */
#include "kernels/device/cpu/memory.h"

#include <pthread.h>

#include "kernels/base/heap.h"
#include "kernels/base/pages.h"

typedef struct block {
  void *data;
  size_t bytes;
  struct block *next;
} block;

struct mk_cpu_memory {
  bool guard;
  pthread_mutex_t lock; /* of all below */
  int inside;           /* threads between enter and leave */
  block *blocks;        /* guard mode only */
};

mk_status mk_cpu_memory_create(mk_context *ctx, bool guard, mk_cpu_memory **out) {
  mk_cpu_memory *memory = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *memory, &memory));
  memory->guard = guard;
  pthread_mutex_init(&memory->lock, NULL);
  *out = memory;
  return MK_OK;
}

void mk_cpu_memory_destroy(mk_context *ctx, mk_cpu_memory *memory) {
  if (memory == NULL) return;
  while (memory->blocks != NULL) {
    block *next = memory->blocks->next;
    mk_heap_free(ctx, memory->blocks);
    memory->blocks = next;
  }
  pthread_mutex_destroy(&memory->lock);
  mk_heap_free(ctx, memory);
}

static mk_status guard_block(mk_context *ctx, mk_cpu_memory *memory, void *data, size_t bytes) {
  block *entry = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *entry, &entry));
  entry->data = data;
  entry->bytes = bytes;
  pthread_mutex_lock(&memory->lock);
  entry->next = memory->blocks;
  memory->blocks = entry;
  mk_status st = memory->inside == 0 ? mk_pages_protect(ctx, data, bytes, false) : MK_OK;
  pthread_mutex_unlock(&memory->lock);
  return st;
}

static void unguard_block(mk_context *ctx, mk_cpu_memory *memory, const void *data) {
  block *entry = NULL;
  pthread_mutex_lock(&memory->lock);
  for (block **link = &memory->blocks; *link != NULL; link = &(*link)->next) {
    if ((*link)->data != data) continue;
    entry = *link;
    *link = entry->next;
    break;
  }
  pthread_mutex_unlock(&memory->lock);
  mk_heap_free(ctx, entry);
}

mk_status mk_cpu_memory_alloc(mk_context *ctx, mk_cpu_memory *memory, size_t bytes, void **out) {
  void *data = NULL;
  MK_TRY(ctx, mk_pages_alloc(ctx, bytes, &data));
  if (memory->guard) {
    mk_status st = guard_block(ctx, memory, data, bytes);
    if (st != MK_OK) {
      unguard_block(ctx, memory, data);
      mk_pages_free(ctx, data, bytes);
      return mk_trace(ctx, st, __FILE__, __LINE__);
    }
  }
  *out = data;
  return MK_OK;
}

void mk_cpu_memory_free(mk_context *ctx, mk_cpu_memory *memory, void *data, size_t bytes) {
  if (memory->guard) unguard_block(ctx, memory, data);
  mk_pages_free(ctx, data, bytes);
}

static mk_status protect_all(mk_context *ctx, mk_cpu_memory *memory, bool accessible) {
  for (block *entry = memory->blocks; entry != NULL; entry = entry->next) {
    MK_TRY(ctx, mk_pages_protect(ctx, entry->data, entry->bytes, accessible));
  }
  return MK_OK;
}

mk_status mk_cpu_memory_enter(mk_context *ctx, mk_cpu_memory *memory) {
  if (!memory->guard) return MK_OK;
  pthread_mutex_lock(&memory->lock);
  mk_status st = memory->inside == 0 ? protect_all(ctx, memory, true) : MK_OK;
  memory->inside += 1;
  pthread_mutex_unlock(&memory->lock);
  return st;
}

mk_status mk_cpu_memory_leave(mk_context *ctx, mk_cpu_memory *memory) {
  if (!memory->guard) return MK_OK;
  pthread_mutex_lock(&memory->lock);
  memory->inside -= 1;
  mk_status st = memory->inside == 0 ? protect_all(ctx, memory, false) : MK_OK;
  pthread_mutex_unlock(&memory->lock);
  return st;
}

/* Two-pass arenas: see arena.h. */
#include "kernels/device/arena.h"

/* Place of what follows `bytes` at `used`; a sum beyond all addresses stays the largest size, which no device gives. */
static size_t advance(size_t used, size_t bytes) {
  const size_t unit = MK_ARENA_ALIGN_BYTES, last = SIZE_MAX / unit * unit;
  if (bytes > last - used) return last;
  return used + (bytes + unit - 1) / unit * unit;
}

mk_arena mk_arena_make(mk_device *dev, mk_memory category) { return (mk_arena){.dev = dev, .category = category}; }

void mk_arena_place(mk_arena *arena, mk_tensor *t) {
  if (!mk_tensor_present(t)) return;
  t->data = arena->base != NULL ? arena->base + arena->used_bytes : NULL;
  arena->used_bytes = advance(arena->used_bytes, mk_tensor_bytes(t));
  if (!arena->committed && arena->used_bytes > arena->peak_bytes) arena->peak_bytes = arena->used_bytes;
}

size_t mk_arena_mark(const mk_arena *arena) { return arena->used_bytes; }

void mk_arena_reset(mk_arena *arena, size_t mark) { arena->used_bytes = mark; }

mk_status mk_arena_commit(mk_arena *arena) {
  void *base = NULL;
  MK_TRY(arena->dev->ctx, mk_device_alloc(arena->dev, arena->category, arena->peak_bytes, &base));
  arena->base = base;
  arena->used_bytes = 0;
  arena->committed = true;
  return MK_OK;
}

void mk_arena_lend(mk_arena *arena, void *base) {
  arena->base = base;
  arena->used_bytes = 0;
  arena->committed = true;
  arena->lent = true;
}

void mk_arena_release(mk_arena *arena) {
  if (!arena->committed) return;
  if (!arena->lent) mk_device_free(arena->dev, arena->category, arena->base, arena->peak_bytes);
  arena->base = NULL;
  arena->committed = false;
  arena->lent = false;
  arena->used_bytes = 0;
  arena->peak_bytes = 0;
}

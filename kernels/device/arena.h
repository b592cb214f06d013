/* Arenas: one device block of one category, laid out in two passes over the same code.
 *
 *   mk_arena arena = mk_arena_make(dev, MK_MEM_ACTIVATIONS);
 *   layout(&arena, &buffers);             first pass: tensors get shapes, no memory; the arena sums bytes
 *   MK_TRY(ctx, mk_arena_commit(&arena)); one allocation
 *   layout(&arena, &buffers);             second pass: the same tensors get their addresses
 *
 * so that planned bytes and allocated bytes are one number. In simulation the second pass leaves data NULL. */
#ifndef KERNELS_DEVICE_ARENA_H
#define KERNELS_DEVICE_ARENA_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MK_ARENA_ALIGN_BYTES = 64 }; /* what a tensor is placed on, and what formulas add for each */

typedef struct mk_arena {
  mk_device *dev;
  mk_memory category;
  char *base;        /* NULL until committed */
  size_t used_bytes; /* of the running pass */
  size_t peak_bytes; /* highest use of the first pass, what commit allocates */
  bool committed;
  bool lent; /* the memory belongs to someone else */
} mk_arena;

mk_arena mk_arena_make(mk_device *dev, mk_memory category);

/* What a tensor of `bytes` takes of an arena, in bytes. */
static inline int64_t mk_arena_bytes(int64_t bytes) {
  return (bytes + MK_ARENA_ALIGN_BYTES - 1) / MK_ARENA_ALIGN_BYTES * MK_ARENA_ALIGN_BYTES;
}

/* Gives `t` (shape set) its place, aligned to MK_ARENA_ALIGN_BYTES. Absent tensors are left alone. */
void mk_arena_place(mk_arena *arena, mk_tensor *t);

/* Current position, and going back to it: tensors placed after a mark are dead after the reset (scratch). */
size_t mk_arena_mark(const mk_arena *arena);
void mk_arena_reset(mk_arena *arena, size_t mark);

/* Ends the first pass: allocates peak_bytes and starts the second pass at 0. */
mk_status mk_arena_commit(mk_arena *arena);

/* As commit, over memory of at least peak_bytes that someone else owns and has counted (a window of a communicator). */
void mk_arena_lend(mk_arena *arena, void *base);

/* Returns the memory; the arena may be laid out again. Legal on a zeroed or uncommitted arena. */
void mk_arena_release(mk_arena *arena);

#ifdef __cplusplus
}
#endif

#endif

/* Host heap: the only home of malloc. Counts calls and live blocks per context and can fail the n-th call. */
#ifndef KERNELS_BASE_HEAP_H
#define KERNELS_BASE_HEAP_H

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zeroed block of `bytes` (at least 1) into *out. MK_ERR_MEMORY when the machine refuses or a fault is injected. */
mk_status mk_heap_alloc(mk_context *ctx, size_t bytes, void *out);

/* `count * size` bytes, zeroed; refuses overflow. */
mk_status mk_heap_array(mk_context *ctx, size_t count, size_t size, void *out);

/* Grows or shrinks *block (may point at NULL) to `bytes`; the new tail is not cleared. *block is unchanged on failure.
 */
mk_status mk_heap_resize(mk_context *ctx, void *block, size_t bytes);

/* Copy of a NUL-terminated text. */
mk_status mk_heap_strdup(mk_context *ctx, const char *text, char **out);

/* printf into a fresh block. */
mk_status mk_heap_printf(mk_context *ctx, char **out, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Frees a block of this heap; NULL is legal. */
void mk_heap_free(mk_context *ctx, void *block);

#ifdef __cplusplus
}
#endif

#endif

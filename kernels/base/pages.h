/* Page-granular memory for devices: zeroed, resident before use (no page fault later) and protectable.
 * Blocks of 2 MiB and more are aligned for and offered to transparent huge pages. */
#ifndef KERNELS_BASE_PAGES_H
#define KERNELS_BASE_PAGES_H

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zeroed, resident block of at least `bytes` (> 0), page-aligned. Counts as one call and one live block of the host
 * heap, so that leak checks and fault injection see it. MK_ERR_MEMORY when the machine refuses. */
mk_status mk_pages_alloc(mk_context *ctx, size_t bytes, void **out);

/* Returns a block; `bytes` as given to mk_pages_alloc. NULL is legal. */
void mk_pages_free(mk_context *ctx, void *block, size_t bytes);

/* Makes a block accessible or not (PROT_NONE): any access to it then ends the process. */
mk_status mk_pages_protect(mk_context *ctx, void *block, size_t bytes, bool accessible);

#ifdef __cplusplus
}
#endif

#endif

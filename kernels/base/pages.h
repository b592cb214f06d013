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

/* Bytes of the whole pages that `bytes` take. */
size_t mk_pages_round(size_t bytes);

/* Makes the pages of a writable mapping of someone else's resident. False where there is no memory for them, which a
 * write would tell by SIGBUS; kernels before Linux 5.14 are asked nothing, there the pages are written to. */
bool mk_pages_populate(void *block, size_t bytes);

/* Where the kernel says what memory is left; files that are not there bound nothing. */
typedef struct mk_memory_files {
  const char *machine; /* /proc/meminfo */
  const char *limit;   /* of the container (cgroup 2): memory.max, memory.current, memory.stat */
  const char *used;
  const char *parts;
} mk_memory_files;

/* What can be made resident before the kernel must end a process to get memory: of the machine, and of the container,
 * whose use counts files that were read and could be dropped at once. Infinite where the kernel does not tell. */
double mk_memory_available(const mk_memory_files *files);

/* Makes a block accessible or not (PROT_NONE): any access to it then ends the process. */
mk_status mk_pages_protect(mk_context *ctx, void *block, size_t bytes, bool accessible);

#ifdef __cplusplus
}
#endif

#endif

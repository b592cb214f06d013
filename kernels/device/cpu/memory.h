/* Device memory of the cpu backends. In guard mode every block is unreadable except between enter and leave, which ops,
 * copies, fills and calls hold; several threads may be inside at once. */
#ifndef KERNELS_DEVICE_CPU_MEMORY_H
#define KERNELS_DEVICE_CPU_MEMORY_H

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_cpu_memory mk_cpu_memory;

mk_status mk_cpu_memory_create(mk_context *ctx, bool guard, mk_cpu_memory **out);
void mk_cpu_memory_destroy(mk_context *ctx, mk_cpu_memory *memory);

/* Host thread of the device only. */
mk_status mk_cpu_memory_alloc(mk_context *ctx, mk_cpu_memory *memory, size_t bytes, void **out);
void mk_cpu_memory_free(mk_context *ctx, mk_cpu_memory *memory, void *block, size_t bytes);

/* Any thread. Free of cost without guard. */
mk_status mk_cpu_memory_enter(mk_context *ctx, mk_cpu_memory *memory);
mk_status mk_cpu_memory_leave(mk_context *ctx, mk_cpu_memory *memory);

#ifdef __cplusplus
}
#endif

#endif

/* Private to kernels/device: what a backend implements beside its table. A backend embeds mk_device as the first member
 * of its own struct, fills it with mk_device_init in its create function and is listed in registry.c. */
#ifndef KERNELS_DEVICE_BACKENDS_H
#define KERNELS_DEVICE_BACKENDS_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a device from its config. *out is set on success only. */
typedef mk_status (*mk_device_create_fn)(mk_context *ctx, const mk_device_config *config, mk_device **out);

mk_status mk_device_cpu_create(mk_context *ctx, const mk_device_config *config, mk_device **out);
mk_status mk_device_ref_create(mk_context *ctx, const mk_device_config *config, mk_device **out);
mk_status mk_device_cpu_async_create(mk_context *ctx, const mk_device_config *config, mk_device **out);
mk_status mk_device_ref_async_create(mk_context *ctx, const mk_device_config *config, mk_device **out);
mk_status mk_device_cuda_create(mk_context *ctx, const mk_device_config *config, mk_device **out);
mk_status mk_device_sim_create(mk_context *ctx, const mk_device_config *config, mk_device **out);

typedef struct mk_backend {
  const char *name; /* what mk_device_config.name selects */
  mk_device_create_fn create;
  bool threaded; /* stream calls run on other threads than the caller's */
} mk_backend;

/* The backend called `name`, or NULL. */
const mk_backend *mk_backend_find(const char *name);

/* Writes "cpu, cpu_async, ..." into text; returns text. */
const char *mk_backend_names(char *text, size_t bytes);

/* Fills the base of a zeroed device. */
void mk_device_init(mk_device *dev, mk_context *ctx, const mk_device_config *config, const mk_device_ops *ops,
                    const mk_op_fn *table);

/* Profile mode: adds the work of a call that has run to the op's counters. With host_reads the host can address device
 * memory now, and reads from it how many rows there were. */
void mk_device_count_work(mk_device *dev, mk_op_id op, const void *args, bool host_reads);

/* Writes the names of the last launches, newest first, e.g. "swiglu_fwd, linear_fwd"; returns text. For the messages of
 * backends that learn of a fault after the launch. */
const char *mk_device_recent_ops(const mk_device *dev, int count, char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif

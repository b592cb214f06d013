/* The memory ledger: every byte of a device under one category, with peaks, and the budget that stands for the size of
 * a device. Charged memory (owned elsewhere) and allocated memory fail alike. */
#include <stdio.h>

#include "kernels/device/device.h"

const char *mk_memory_name(mk_memory category) {
  static const char *const names[MK_MEM_COUNT] = {"params", "grads", "optim", "activations", "comm", "workspace"};
  return category >= 0 && category < MK_MEM_COUNT ? names[category] : "?";
}

static size_t used_total(const mk_device *dev) {
  size_t total = 0;
  for (int i = 0; i < MK_MEM_COUNT; i++)
    total += dev->used_bytes[i];
  return total;
}

static const char *describe_use(const mk_device *dev, char *text, size_t bytes) {
  size_t used = 0;
  text[0] = '\0';
  for (int i = 0; i < MK_MEM_COUNT && used < bytes; i++) {
    if (dev->used_bytes[i] == 0) continue;
    int wrote =
        snprintf(text + used, bytes - used, "%s%s %zu", used == 0 ? "" : ", ", mk_memory_name(i), dev->used_bytes[i]);
    used += wrote > 0 ? (size_t)wrote : 0;
  }
  return used > 0 ? text : "nothing yet";
}

/* May `bytes` more be taken? */
static mk_status admit(mk_device *dev, mk_memory category, size_t bytes) {
  char use[256];
  size_t total = used_total(dev);
  size_t budget = dev->config.budget_bytes;
  MK_CHECK(dev->ctx, category >= 0 && category < MK_MEM_COUNT, MK_ERR_ARG, "unknown memory category %d", (int)category);
  MK_CHECK(dev->ctx, budget == 0 || (total <= budget && bytes <= budget - total), MK_ERR_MEMORY,
           "out of device memory: %s needs %zu bytes, but %zu of the budget of %zu are in use (%s); "
           "lower the batch, shard more, or raise the budget",
           mk_memory_name(category), bytes, total, budget, describe_use(dev, use, sizeof use));
  return MK_OK;
}

static void take(mk_device *dev, mk_memory category, size_t bytes) {
  dev->used_bytes[category] += bytes;
  size_t total = used_total(dev);
  if (dev->used_bytes[category] > dev->peak_bytes[category]) dev->peak_bytes[category] = dev->used_bytes[category];
  if (total > dev->peak_total_bytes) dev->peak_total_bytes = total;
}

mk_status mk_device_charge(mk_device *dev, mk_memory category, size_t bytes) {
  MK_TRY(dev->ctx, admit(dev, category, bytes));
  take(dev, category, bytes);
  return MK_OK;
}

void mk_device_discharge(mk_device *dev, mk_memory category, size_t bytes) {
  if (bytes > dev->used_bytes[category]) {
    MK_FAIL(dev->ctx, MK_ERR_ARG, "%s: %zu bytes given back, only %zu were taken", mk_memory_name(category), bytes,
            dev->used_bytes[category]);
    bytes = dev->used_bytes[category];
  }
  dev->used_bytes[category] -= bytes;
}

mk_status mk_device_alloc(mk_device *dev, mk_memory category, size_t bytes, void **out) {
  void *block = NULL;
  MK_TRY(dev->ctx, admit(dev, category, bytes));
  if (bytes > 0) {
    bool first = dev->ctx->error.status == MK_OK;
    mk_status st = dev->ops->alloc(dev, bytes, &block);
    if (st != MK_OK && first) mk_error_prefix(dev->ctx, mk_memory_name(category));
    MK_TRY(dev->ctx, st);
    dev->alloc_calls += 1;
  }
  take(dev, category, bytes);
  *out = block;
  return MK_OK;
}

void mk_device_free(mk_device *dev, mk_memory category, void *block, size_t bytes) {
  mk_device_discharge(dev, category, bytes);
  if (block != NULL) dev->ops->free(dev, block, bytes);
}

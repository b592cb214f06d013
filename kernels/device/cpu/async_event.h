/* Events of cpu_async: a counter of records issued by the host and one of records passed by a stream. A wait remembers
 * the count issued when it was put on its stream, as a CUDA stream does, so that a later record cannot delay it. */
#ifndef KERNELS_DEVICE_CPU_ASYNC_EVENT_H
#define KERNELS_DEVICE_CPU_ASYNC_EVENT_H

#include <pthread.h>

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_async_event {
  mk_event base;
  int64_t issued;       /* records put on streams; host thread only */
  pthread_mutex_t lock; /* of all below */
  pthread_cond_t changed;
  int64_t passed; /* highest record that a stream has reached */
  double at_s;    /* when */
} mk_async_event;

mk_status mk_async_event_create(mk_device *dev, mk_event **out);
void mk_async_event_destroy(mk_event *event);

/* A stream has reached record `count` at time `at_s`. */
void mk_async_event_pass(mk_async_event *event, int64_t count, double at_s);

/* Blocks until record `count` has been passed; 0 returns at once. */
void mk_async_event_await(mk_async_event *event, int64_t count);

/* Host waits. */
mk_status mk_async_event_sync(mk_event *event);
mk_status mk_async_event_elapsed_s(mk_event *begin, mk_event *end, double *out);

#ifdef __cplusplus
}
#endif

#endif

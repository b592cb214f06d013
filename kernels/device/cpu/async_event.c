/* See async_event.h. */
#include "kernels/device/cpu/async_event.h"

#include "kernels/base/heap.h"

mk_status mk_async_event_create(mk_device *dev, mk_event **out) {
  mk_async_event *event = NULL;
  MK_TRY(dev->ctx, mk_heap_alloc(dev->ctx, sizeof *event, &event));
  event->base.dev = dev;
  pthread_mutex_init(&event->lock, NULL);
  pthread_cond_init(&event->changed, NULL);
  *out = &event->base;
  return MK_OK;
}

void mk_async_event_destroy(mk_event *base) {
  mk_async_event *event = (mk_async_event *)base;
  pthread_cond_destroy(&event->changed);
  pthread_mutex_destroy(&event->lock);
  mk_heap_free(base->dev->ctx, event);
}

void mk_async_event_pass(mk_async_event *event, int64_t count, double at_s) {
  pthread_mutex_lock(&event->lock);
  if (count > event->passed) {
    event->passed = count;
    event->at_s = at_s;
  }
  pthread_cond_broadcast(&event->changed);
  pthread_mutex_unlock(&event->lock);
}

void mk_async_event_await(mk_async_event *event, int64_t count) {
  pthread_mutex_lock(&event->lock);
  while (event->passed < count)
    pthread_cond_wait(&event->changed, &event->lock);
  pthread_mutex_unlock(&event->lock);
}

mk_status mk_async_event_sync(mk_event *base) {
  mk_async_event *event = (mk_async_event *)base;
  mk_async_event_await(event, event->issued);
  return MK_OK;
}

mk_status mk_async_event_elapsed_s(mk_event *begin, mk_event *end, double *out) {
  mk_async_event *first = (mk_async_event *)begin, *last = (mk_async_event *)end;
  MK_CHECK(begin->dev->ctx, first->issued > 0 && last->issued > 0, MK_ERR_ARG,
           "elapsed time between events that were not recorded");
  mk_async_event_await(first, first->issued);
  mk_async_event_await(last, last->issued);
  *out = last->at_s - first->at_s;
  return MK_OK;
}

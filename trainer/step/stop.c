/* A blocked signal waits in the kernel until it is taken here: no handler, no global. */
#include "trainer/step/stop.h"

#include <signal.h>

const char *mt_stop_name(int signal) {
  switch (signal) {
    case 0:
      return "a signal to another rank";
    case SIGINT:
      return "SIGINT";
    case SIGUSR1:
      return "SIGUSR1";
    default:
      return "SIGTERM";
  }
}

mk_status mt_stop_check(mk_context *ctx, mt_stop *stop, const char *done, int64_t number) {
  sigset_t set;
  struct timespec none = {0};
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);
  int got = sigtimedwait(&set, NULL, &none);
  if (got < 0) return MK_OK;
  stop->signal = got;
  MK_CHECK(ctx, stop->saves, MK_ERR_INTERRUPTED, "interrupted by %s after %s %lld", mt_stop_name(got), done,
           (long long)number);
  return MK_OK;
}

/* A blocked signal waits in the kernel until it is taken here: no handler, no global. */
#include "trainer/step/stop.h"

#include <signal.h>

mk_status mt_stop_check(mk_context *ctx, const char *done, int64_t number) {
  sigset_t set;
  struct timespec none = {0};
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  int got = sigtimedwait(&set, NULL, &none);
  MK_CHECK(ctx, got < 0, MK_ERR_INTERRUPTED, "interrupted by %s after %s %lld", got == SIGINT ? "SIGINT" : "SIGTERM",
           done, (long long)number);
  return MK_OK;
}

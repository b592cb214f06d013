/* Wrappers: communicators that look at each call and forward it to the one they wrap. What is split from a wrapper is
 * wrapped alike and shares its state; windows are the inner communicator's own. */
#ifndef TRAINER_COMM_COMM_WRAP_H
#define TRAINER_COMM_COMM_WRAP_H

#include "trainer/comm/comm.h"

typedef struct mt_comm_wrap mt_comm_wrap;

/* What a kind of wrapper does. Members after `before` may be NULL. */
typedef struct mt_wrap_hooks {
  /* Before each exchange: its name and its `send` (of all_to_all_v the rows sent; of broadcast, send and recv the
   * buffer; of a barrier NULL). A status that is not MK_OK becomes the call's own, and nothing is forwarded. */
  mk_status (*before)(mt_comm_wrap *wrap, const char *call, const mk_tensor *t);
  mk_status (*before_setup)(mt_comm_wrap *wrap, const char *call); /* the same for split and window_create */
  mk_status (*poll)(mt_comm_wrap *wrap);                           /* before the inner poll */
  void (*abort)(mt_comm_wrap *wrap);                               /* before the inner abort */
  void (*retain)(void *state);                                     /* one wrapper more */
  void (*release)(void *state);                                    /* one wrapper less */
} mt_wrap_hooks;

struct mt_comm_wrap {
  mt_comm base;
  mt_comm *inner;
  const mt_wrap_hooks *hooks;
  void *state;
};

/* Owns `inner` from then on; on failure the caller still does. */
mk_status mt_comm_wrap_create(mt_comm *inner, const mt_wrap_hooks *hooks, void *state, mt_comm **out);

#endif

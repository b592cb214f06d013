/* A plan as text: for tests, for --schedule, for a reader. */
#include <stdarg.h>
#include <stdio.h>

#include "trainer/parallel/pp_schedule.h"

typedef struct text {
  char *at;
  size_t bytes, used;
} text;

static void put(text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void put(text *t, const char *fmt, ...) {
  va_list args;
  size_t left = t->used < t->bytes ? t->bytes - t->used : 0;
  va_start(args, fmt);
  t->used += (size_t)vsnprintf(left > 0 ? t->at + t->used : NULL, left, fmt, args);
  va_end(args);
}

static void put_pass(text *t, const mt_pp_action *a, const char *mark) {
  put(t, "%d%c%s%lld", a->stage, a->backward ? 'B' : 'F', mark, (long long)a->microbatch);
}

size_t mt_pp_slots_text(const mt_pp_plan *plan, int rank, char *out, size_t bytes) {
  const mt_pp_list *list = &plan->rank[rank];
  text t = {.at = out, .bytes = bytes};
  int64_t now = 0;
  for (int64_t i = 0; i < list->count; i++) {
    const mt_pp_action *a = &list->action[i];
    if (a->op != MT_PP_COMPUTE && a->op != MT_PP_STEP) continue;
    for (; now < a->start; now++)
      put(&t, "%s..", now > 0 ? " " : "");
    if (a->op == MT_PP_STEP) continue;
    if (now > 0) put(&t, " ");
    put_pass(&t, a, "");
    now += 1;
    if (!a->backward) continue;
    put(&t, " ");
    put_pass(&t, a, "_");
    now += 1;
  }
  return t.used;
}

size_t mt_pp_list_text(const mt_pp_plan *plan, int rank, char *out, size_t bytes) {
  const mt_pp_list *list = &plan->rank[rank];
  text t = {.at = out, .bytes = bytes};
  for (int64_t i = 0; i < list->count; i++) {
    const mt_pp_action *a = &list->action[i];
    if (i > 0) put(&t, " ");
    if (a->op == MT_PP_STEP) {
      put(&t, "step");
      continue;
    }
    put_pass(&t, a, "");
    if (a->op != MT_PP_COMPUTE) put(&t, "%c%d", a->op == MT_PP_SEND ? '>' : '<', a->peer);
  }
  return t.used;
}

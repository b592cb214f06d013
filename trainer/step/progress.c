/* See progress.h. */
#include "trainer/step/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "kernels/base/log.h"

mt_progress mt_progress_begin(const mk_context *ctx, const mt_config *cfg, bool on) {
  return (mt_progress){.ctx = ctx, .cfg = cfg, .on = on, .terminal = isatty(STDERR_FILENO) == 1};
}

void mt_progress_step(mt_progress *p, const mk_step_log *log, double step_s, int64_t last_step) {
  enum { PLAIN_EVERY_S = 10 };
  p->trained_s += step_s;
  p->steps += 1;
  if (!p->on) return;
  bool last = log->step == last_step;
  double left_s = (double)(last_step - log->step) * p->trained_s / (double)p->steps;
  double tokens_per_s = step_s > 0 ? (double)p->cfg->global_tokens / step_s : 0;
  char line[256];
  snprintf(line, sizeof line, "step %lld/%lld  ce %.4f  norm %.3g  lr %.3g  %.0f token/s  %.0f s left",
           (long long)log->step, (long long)last_step, log->sum[MK_SUM_CE], log->grad_norm, log->lr, tokens_per_s,
           left_s);
  if (p->terminal) {
    mk_log_status(p->ctx, line);
  } else if (p->steps == 1 || last || p->trained_s - p->told_s >= PLAIN_EVERY_S) {
    mk_log(p->ctx, "%s", line);
    p->told_s = p->trained_s;
  }
}

void mt_progress_eval(mt_progress *p, int64_t step, double loss) {
  if (!p->on) return;
  mt_progress_end(p);
  mk_log(p->ctx, "step %lld  held-out loss %.4f nat/token", (long long)step, loss);
}

void mt_progress_end(mt_progress *p) {
  if (p->on && p->terminal) mk_log_status(p->ctx, "");
}

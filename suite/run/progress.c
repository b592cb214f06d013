/* The terminal's line is one write; its width is asked for each time. */
#include "suite/run/progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "kernels/base/log.h"
#include "suite/run/supervisor.h"

ms_progress ms_progress_begin(const ms_run *run, bool quiet) {
  return (ms_progress){.run = run, .terminal = !quiet && isatty(STDERR_FILENO) == 1, .quiet = quiet};
}

static bool waits(const ms_launch *l) { return strcmp(l->status, "pending") == 0; }

/* Mean wall time of the ended launches of a case (-1: of all); NaN if none. */
static double mean_s(const ms_run *run, int case_index) {
  double sum = 0;
  int count = 0;
  for (int i = 0; i < run->n_launches; i++) {
    const ms_launch *l = &run->launches[i];
    if (l->wall_s <= 0 || (case_index >= 0 && l->case_index != case_index)) continue;
    sum += l->wall_s;
    count += 1;
  }
  return count > 0 ? sum / count : NAN;
}

static double expected_s(const ms_run *run, int case_index) {
  double own = mean_s(run, case_index);
  return isnan(own) ? mean_s(run, -1) : own;
}

double ms_progress_left_s(const ms_progress *p) {
  double left = 0;
  for (int i = 0; i < p->run->n_launches; i++) {
    if (waits(&p->run->launches[i])) left += expected_s(p->run, p->run->launches[i].case_index);
  }
  if (p->current == NULL) return left;
  double rest = expected_s(p->run, p->current->case_index) - (ms_wall_now_s() - p->started_s);
  return isnan(rest) ? NAN : left + (rest > 0 ? rest : 0);
}

static void left_print(double left_s, char *out, size_t bytes) {
  if (isnan(left_s)) {
    snprintf(out, bytes, "time left unknown");
  } else if (left_s < 90) {
    snprintf(out, bytes, "%.0f s left", left_s);
  } else {
    snprintf(out, bytes, "%.0f min left", left_s / 60);
  }
}

static void line_write(const char *text) {
  struct winsize size;
  int width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 10 ? size.ws_col - 1 : 79;
  char line[1024];
  int used = snprintf(line, sizeof line, "\r\033[K%.*s", width, text);
  ssize_t written = write(STDERR_FILENO, line, (size_t)used);
  (void)written; /* progress is a convenience */
}

void ms_progress_start(ms_progress *p, const ms_launch *launch) {
  p->current = launch;
  p->started_s = ms_wall_now_s();
  ms_progress_show(p, NULL);
}

void ms_progress_show(const ms_progress *p, const ms_records *records) {
  if (!p->terminal) return;
  char left[64], rate[64] = "", text[900];
  const ms_case *c = &p->run->plan->cases[p->current->case_index];
  left_print(ms_progress_left_s(p), left, sizeof left);
  if (records != NULL && records->n_steps > 0) {
    const ms_step *s = &records->steps[records->n_steps - 1];
    snprintf(rate, sizeof rate, "  step %lld/%lld  %.0f token/s", (long long)s->step,
             (long long)(c->config.warmup_steps + c->config.steps), s->time_s > 0 ? s->tokens / s->time_s : 0.0);
  }
  snprintf(text, sizeof text, "%d/%d done  %s  launch %d%s  %s", p->done, p->run->n_launches, c->name,
           p->current->number, rate, left);
  line_write(text);
}

void ms_progress_end(mk_context *ctx, ms_progress *p, const ms_launch *l) {
  const char *name = p->run->plan->cases[l->case_index].name;
  double tok_s = l->value[ms_metric_index("tok_s")];
  bool ok = strcmp(l->status, "ok") == 0;
  char left[64];
  p->done += 1;
  p->failed += !ok;
  p->current = NULL;
  left_print(ms_progress_left_s(p), left, sizeof left);
  if (p->terminal) line_write("");
  if (p->quiet) return;
  if (ok) {
    char rate[32] = "no rate"; /* emulated arithmetic has none */
    if (!isnan(tok_s)) snprintf(rate, sizeof rate, "%.0f token/s", tok_s);
    mk_log(ctx, "%d/%d  %s  launch %d  ok  %s  %.1f s  (%s)", p->done, p->run->n_launches, name, l->number, rate,
           l->wall_s, left);
  } else if (ms_run_is_failure(p->run, l)) {
    mk_log(ctx, "error: %d/%d  %s  launch %d  %s: %s (logs: %s/%s)", p->done, p->run->n_launches, name, l->number,
           l->status, l->message, p->run->folder, l->folder);
  } else {
    mk_log(ctx, "%d/%d  %s  launch %d  %s: %s", p->done, p->run->n_launches, name, l->number, l->status, l->message);
  }
}

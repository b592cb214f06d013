/* The last record decides, unless it contradicts the process: an "ok" from a process that failed is a crash, and only
 * what this program was told to stop is "interrupted". */
#include "suite/run/classify.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/text.h"

static void set(ms_launch *launch, const char *status, const char *message) {
  snprintf(launch->status, sizeof launch->status, "%s", status);
  snprintf(launch->message, sizeof launch->message, "%s", message);
  mk_text_printable(launch->message); /* it came from outside */
}

/* What makes the records of a launch that ended well useless; false: nothing does. */
static bool is_unsound(const ms_records *records, ms_launch *launch) {
  char text[MK_MESSAGE_BYTES];
  if (records->resumed_step != 0) {
    snprintf(text, sizeof text, "went on from step %lld of an earlier run; a launch measures from its start",
             (long long)records->resumed_step);
    set(launch, "config", text);
  } else if (isfinite(records->steps_done) && records->steps_done != (double)records->n_steps) {
    snprintf(text, sizeof text, "records.jsonl holds %lld steps, its last line says %.0f: lines are lost",
             (long long)records->n_steps, records->steps_done);
    set(launch, "format", text);
  } else {
    return false;
  }
  return true;
}

/* A process that says nothing about its end. mpirun returns 128 + the signal that ended a rank. */
static void without_end_record(const ms_child_end *end, const char *hint, ms_launch *launch) {
  char text[MK_MESSAGE_BYTES];
  int signal = end->signal != 0 ? end->signal : (end->code > 128 && end->code < 160 ? end->code - 128 : 0);
  if (signal == SIGKILL) {
    set(launch, "killed", "killed by signal 9 from outside (the kernel's out-of-memory killer? see dmesg)");
    return;
  }
  const char *sep = hint[0] == '\0' ? "" : ": ";
  if (signal != 0) {
    snprintf(text, sizeof text, "ended by signal %d (%s)%s%.600s", signal, strsignal(signal), sep, hint);
  } else if (end->code == 127) {
    snprintf(text, sizeof text, "could not be started (exit code 127)%s%.600s", sep, hint);
  } else if (end->code == 0) {
    snprintf(text, sizeof text, "exit code 0, but no end record%s%.600s", sep, hint);
  } else {
    snprintf(text, sizeof text, "exit code %d without an end record%s%.600s", end->code, sep, hint);
  }
  set(launch, "crash", text);
}

void ms_launch_classify(const ms_child_end *end, const char *hint, ms_launch *launch) {
  const ms_records *records = launch->records;
  char text[MK_MESSAGE_BYTES];
  launch->code = end->code;
  launch->wall_s = end->wall_s;
  bool ended = records != NULL && records->has_end;
  if (end->interrupted) {
    set(launch, "interrupted", "stopped on request");
  } else if (end->timed_out) {
    snprintf(text, sizeof text, "no new record for %.3g s: killed with all its processes", end->limit_s);
    set(launch, "timeout", text);
  } else if (!ended) {
    without_end_record(end, hint, launch);
  } else if (strcmp(records->end_status, "interrupted") == 0) { /* by a signal, but not one of ours */
    if (end->signal != 0) {
      without_end_record(end, hint, launch);
    } else {
      snprintf(text, sizeof text, "from outside: %.900s", records->end_message);
      set(launch, "killed", text);
    }
  } else if (strcmp(records->end_status, "ok") != 0) {
    set(launch, records->end_status[0] == '\0' ? "error" : records->end_status, records->end_message);
  } else if (end->code != 0) {
    snprintf(text, sizeof text, "exit code %d after a complete record%s%.600s", end->code, hint[0] == '\0' ? "" : ": ",
             hint);
    set(launch, "crash", text);
  } else if (!is_unsound(records, launch)) {
    set(launch, "ok", "");
    if (end->strays > 0) {
      snprintf(launch->message, sizeof launch->message, "left %d processes behind; they were killed", end->strays);
    }
  }
}

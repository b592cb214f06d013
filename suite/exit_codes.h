/* Exit codes of moemark and the numbers in verdict.json. When several apply: 2, 5, 3, 1, 4. */
#ifndef SUITE_EXIT_CODES_H
#define SUITE_EXIT_CODES_H

typedef enum ms_exit {
  MS_EXIT_OK = 0,            /* everything asked for held */
  MS_EXIT_JUDGED = 1,        /* a judgement failed: REGRESSED, BELOW, claim not met, XPASS */
  MS_EXIT_USAGE = 2,         /* the command or a file is wrong; nothing was started */
  MS_EXIT_RUN = 3,           /* a run failed: crash, timeout, sanity, non-finite loss, undeclared oom */
  MS_EXIT_UNDECIDED = 4,     /* no judgement possible; only with --strict */
  MS_EXIT_REFUSED = 5,       /* sets not comparable, wrong system, over budget, results not writable */
  MS_EXIT_INTERRUPTED = 130, /* interrupted; partial results are kept */
} ms_exit;

#endif

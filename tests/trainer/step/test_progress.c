/* What is said of the time left: a resumed run knows the time of its own steps only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/check_main.h"
#include "tests/support/files.h"
#include "trainer/step/progress.h"

/* The lines of steps first .. last of a run to step 110, 10 s each. */
static void told(int64_t first, int64_t last, char *text, size_t bytes) {
  mk_context ctx = {0};
  mt_config c = mt_config_default();
  char name[] = "/tmp/moemark-progress-XXXXXX";
  int file = mkstemp(name), kept = dup(STDERR_FILENO);
  ck_assert(file >= 0 && dup2(file, STDERR_FILENO) >= 0);
  mt_progress p = mt_progress_begin(&ctx, &c, true);
  for (int64_t n = first; n <= last; n++)
    mt_progress_step(&p, &(mk_step_log){.step = n}, 10, 110);
  mt_progress_end(&p);
  fflush(stderr);
  dup2(kept, STDERR_FILENO);
  close(kept);
  ssize_t n = pread(file, text, bytes - 1, 0);
  text[n > 0 ? n : 0] = '\0';
  close(file);
  unlink(name);
}

START_TEST(the_time_left_is_that_of_the_own_steps) {
  char text[1024];
  told(1, 1, text, sizeof text);
  ck_assert_msg(strstr(text, "step 1/110 ") != NULL && strstr(text, " 1090 s left") != NULL, "said: %s", text);
  told(101, 102, text, sizeof text);
  ck_assert_msg(strstr(text, "step 101/110 ") != NULL && strstr(text, " 90 s left") != NULL, "said: %s", text);
  ck_assert_msg(strstr(text, "step 102/110 ") != NULL && strstr(text, " 80 s left") != NULL, "said: %s", text);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("progress");
  TCase *tcase = test_case(suite, "lines", 10);
  tcase_add_test(tcase, the_time_left_is_that_of_the_own_steps);
  return test_main(suite);
}

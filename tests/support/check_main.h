/* main() of a test program of one suite. */
#ifndef TESTS_SUPPORT_CHECK_MAIN_H
#define TESTS_SUPPORT_CHECK_MAIN_H

#include <check.h>

/* A test case of the suite, for tests to be added to. */
static inline TCase *test_case(Suite *suite, const char *name, double limit_s) {
  TCase *tcase = tcase_create(name);
  tcase_set_timeout(tcase, limit_s);
  suite_add_tcase(suite, tcase);
  return tcase;
}

/* Runs the suite and returns the exit status. Tests fork (CK_FORK=no in the environment prevents it). */
static inline int test_main(Suite *suite) {
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? 0 : 1;
}

#endif

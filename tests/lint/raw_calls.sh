#!/usr/bin/env bash
# Memory, standard output and the end of the process belong to kernels/base (heap.h, log.h, out.h) and, for the lines of
# the program moemark, to suite/cli/out.c. A program ends by returning from main.
source "$(dirname "$0")/lint.sh"

lint_check() {
  local calls='malloc|calloc|realloc|reallocarray|free|aligned_alloc|posix_memalign|memalign|valloc|strdup|strndup|asprintf|vasprintf'
  calls+='|getline|getdelim|printf|vprintf|dprintf|puts|putchar|perror|err|errx|warn|warnx|assert|exit|_exit|_Exit|quick_exit|abort'
  lint_code_grep "(^|[^A-Za-z0-9_.>])($calls)[ ]*[(]|(^|[^A-Za-z0-9_])(stdout|stderr|STDOUT_FILENO|STDERR_FILENO)([^A-Za-z0-9_]|\$)" \
    '^(kernels|trainer|suite)/.*\.(c|h|cu|cuh)$' | awk -F: '$1 !~ /^kernels\/base\//' |
    sed -E 's/^([^:]*:[0-9]+:)/\1 belongs to kernels\/base: /'
}

lint_self_test() {
  plant kernels/base/heap.c 'void *f(void) { return malloc(3); }'
  plant tests/a.c 'int main(void) { printf("x"); free(p); exit(1); }'
  plant trainer/ok.c '/* free(p) */' 'dev->ops->free(dev, p);' 'ops.abort(c);' 'mk_free(ctx, p);' 'fprintf(file, "printf(");' \
    'void my_exit(int stdout_log);'
  expect_clean
  plant trainer/bad.c 'p = malloc(3);' 'x(calloc (1, 2));' 'fprintf(stderr, "a");' 'fputs("a", stdout);' '  exit(1);' 's = strdup(t);'
  plant suite/bad.h 'static inline void f(void) { abort(); }'
  expect_found trainer/bad.c:1: trainer/bad.c:2: trainer/bad.c:3: trainer/bad.c:4: trainer/bad.c:5: trainer/bad.c:6: suite/bad.h:1:
}

lint_main "$@"

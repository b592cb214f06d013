#!/usr/bin/env bash
# Every source is built: its name stands in a CMakeLists.txt or .cmake file of its folder or one above, or it belongs to an op
# (mk_add_op of kernels/ops/CMakeLists.txt takes <op>.c and its _work, _ref, _cpu and _cuda files by name).
source "$(dirname "$0")/lint.sh"

lint_check() {
  local file base folder found op
  lint_files '\.(c|cu)$' | while IFS= read -r file; do
    base=${file##*/}
    folder=${file%/*}
    found=no
    op=${folder##*/}
    case $file in
      "kernels/ops/$op/$op".c | "kernels/ops/$op/$op"_work.c | "kernels/ops/$op/$op"_ref.c | "kernels/ops/$op/$op"_cpu.c | \
        "kernels/ops/$op/$op"_cuda.cu)
        ! grep -qE "^mk_add_op\(${op}[ )]" kernels/ops/CMakeLists.txt || found=yes ;;
      tests/*/test_*.c)
        base=${base#test_}
        base=${base%.c} ;;
    esac
    while [ $found = no ]; do
      ! grep -qF -- "$base" "$folder"/CMakeLists.txt "$folder"/*.cmake 2> /dev/null || found=yes
      [ "$folder" != "${folder%/*}" ] || break
      folder=${folder%/*}
    done
    [ $found = yes ] || echo "$file:1: in no CMakeLists.txt, so it is not built"
  done
}

lint_self_test() {
  plant kernels/CMakeLists.txt 'add_library(mk base/a.c)'
  plant kernels/base/a.c ''
  plant kernels/ops/CMakeLists.txt 'mk_add_op(add)'
  plant kernels/ops/add/add.c '' && plant kernels/ops/add/add_ref.c ''
  plant tests/kernels/CMakeLists.txt 'mm_add_test(kernels add)'
  plant tests/kernels/test_add.c ''
  expect_clean
  plant kernels/base/b.c '' && plant kernels/ops/cast/cast.c '' && plant tests/kernels/test_cast.c ''
  expect_found kernels/base/b.c:1: kernels/ops/cast/cast.c:1: tests/kernels/test_cast.c:1:
}

lint_main "$@"

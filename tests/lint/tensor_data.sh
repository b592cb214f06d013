#!/usr/bin/env bash
# tensor->data is the device's: only op backends, devices, tensor.c and communication backends touch it. Everything else
# must run where there is no host memory behind a tensor.
source "$(dirname "$0")/lint.sh"

lint_check() {
  lint_code_grep '(->|[.])data([^A-Za-z0-9_]|$)' '^(kernels|trainer)/.*\.(c|h|cu|cuh)$' | awk -F: '
    $1 ~ /^kernels\/ops\/[a-z0-9_]+\/[a-z0-9_]+_(cpu|ref)[a-z_]*\.c$/ || $1 ~ /^kernels\/(ops|device)\/.*\.cuh?$/ { next }
    $1 ~ /^kernels\/device\// || $1 == "kernels/base/tensor.c" { next }
    $1 ~ /^trainer\/comm\/comm_(self|mpi|nccl|sim)[a-z_]*\.c$/ { next }
    { at = $1 ":" $2; code = $0; sub(/^[^:]*:[0-9]+:/, "", code); print at ": touches device memory:" code }'
}

lint_self_test() {
  plant kernels/ops/add/add_cpu.c 'float *y = a->y.data;'
  plant kernels/ops/add/add_cpu_bwd.c 'float *y = a->y.data;'
  plant kernels/ops/add/add_ref.c 'float *y = t->data;'
  plant kernels/ops/mxfp8/mxfp8_ref.c 'float *y = t->data;'
  plant kernels/ops/add/add_cuda.cu 'float *y = t->data;'
  plant kernels/device/cpu/memory.c 'void *p = t->data;'
  plant trainer/comm/comm_mpi_x.c 'void *p = t->data;'
  plant trainer/ok.c '/* t->data */ int x = t->data_type + t.dataset;'
  expect_clean
  plant kernels/ops/add/add.c 'if (a->y.data == NULL) return;'
  plant kernels/ops/add/add_work.c '' 'x = t->data;'
  plant trainer/step/x.h 'y = t.data'
  expect_found kernels/ops/add/add.c:1: kernels/ops/add/add_work.c:2: trainer/step/x.h:1:
}

lint_main "$@"

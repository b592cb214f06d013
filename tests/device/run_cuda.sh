#!/usr/bin/env bash
# Tests of the cuda device, its kernels and NCCL on a GPU; under ten minutes. Ends with "N passed, N failed".
#
# It has not been run on a GPU yet: the code is compiled and linked in every build with CUDA, NCCL is tested over a mock.
# What it finds on the first GPU is news.
#
#   bash tests/device/run_cuda.sh
# Environment: BUILD (default build/cuda), JOBS (default: number of cores), SANITIZE=no leaves compute-sanitizer out.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-build/cuda}
jobs=${JOBS:-$(nproc)}
export MOEMARK_TEST_DEVICE=cuda CK_FORK=no OMP_WAIT_POLICY=passive

command -v nvidia-smi > /dev/null || { echo "no nvidia-smi: this needs an NVIDIA GPU and its driver" >&2; exit 2; }
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
topics=(cuda swiglu rmsnorm linear)
programs=()
for topic in "${topics[@]}"; do
  programs+=("test_kernels_$topic")
done
echo "== build in $build"
cmake --preset cuda -B "$build" > /dev/null
cmake --build "$build" -j "$jobs" --target "${programs[@]}" comm_nccl_gpu moemark-trainer -- --quiet

passed=0
failed=0
check() { # name, command...
  local name=$1 log
  shift
  log=$(mktemp)
  if timeout 300 "$@" > "$log" 2>&1; then
    passed=$((passed + 1))
    echo "ok    $name ($(tail -1 "$log"))"
  else
    failed=$((failed + 1))
    echo "FAIL  $name"
    tail -20 "$log"
  fi
  rm -f "$log"
}

for topic in "${topics[@]}"; do
  check "$topic" "$build/tests/kernels/test_kernels_$topic"
done
check "nccl, one rank" "$build/tests/trainer/comm/comm_nccl_gpu"
gpus=$(nvidia-smi --list-gpus | wc -l)
if [ "$gpus" -gt 1 ]; then
  check "nccl, $gpus ranks" mpirun --allow-run-as-root --oversubscribe --bind-to none -np "$gpus" \
    "$build/tests/trainer/comm/comm_nccl_gpu"
fi

if [ "${SANITIZE:-yes}" = yes ] && command -v compute-sanitizer > /dev/null; then
  for topic in cuda swiglu rmsnorm; do
    check "$topic, memory" compute-sanitizer --tool memcheck --error-exitcode 1 "$build/tests/kernels/test_kernels_$topic"
  done
  check "rmsnorm, races" compute-sanitizer --tool racecheck --error-exitcode 1 "$build/tests/kernels/test_kernels_rmsnorm"
  check "rmsnorm, barriers" compute-sanitizer --tool synccheck --error-exitcode 1 "$build/tests/kernels/test_kernels_rmsnorm"
else
  echo "compute-sanitizer left out"
fi

# An op without a kernel is refused by name, not by a crash.
if message=$("$build/bin/moemark-trainer" --set device=cuda 2>&1); then
  failed=$((failed + 1))
  echo "FAIL  the trainer ran on a device that lacks kernels"
elif [[ $message == *"the cuda device has no kernel for this op yet"* ]]; then
  passed=$((passed + 1))
  echo "ok    trainer: $message"
else
  failed=$((failed + 1))
  echo "FAIL  trainer: $message"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]

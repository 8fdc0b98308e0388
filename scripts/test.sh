#!/usr/bin/env bash
# Runs the tests in stages: scripts/test.sh [--all] [STAGE...]
#   lint release asan tsan cuda      `make test`: about 18 minutes on two cores, 25 from cold
#   arm64 fuzz long                  with --all, which also widens the stages above
#   fast                             `make test-fast`: lint, unit tests, a few whole runs
# CONTRIBUTING.md lists which checks run only with --all. The time of each stage is printed at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
all=
[ "${1:-}" = --all ] && { all=yes; shift; }
jobs=$(nproc)
export REIGEN_TEST_ALL=$all  # tests/cli/harness.py runs its long tests when this is set
times=()

lint() {
  scripts/lint.sh --fast
}

release() {
  cmake --preset release -DREIGEN_TESTS=ON >/dev/null
  cmake --build build/release --target all ${all:+benchmarks}
  # Many of these wait for each other's processes more than they compute.
  ctest --test-dir build/release --output-on-failure -j $((jobs + 2))
}

fast() {
  lint
  cmake --preset release -DREIGEN_TESTS=ON >/dev/null
  cmake --build build/release
  ctest --test-dir build/release --output-on-failure -j "$((jobs + 2))" -E '^(cli|processes|protocol|recipes)\.'
  ctest --test-dir build/release --output-on-failure -j "$jobs" -R '^cli\.(help|package|translate)$'
}

asan() {
  # The code that reads files and the code that computes with pointers. The other folders are built on
  # these and take twice as long to compile as all of them together: with --all only.
  local folders=(base data tensor ops)
  [ -n "$all" ] && folders+=(config text corpus model optim dist observe decode eval report plan train doctor)
  scripts/build.sh asan "${folders[@]/%/_tests}" fuzz_targets
  ctest --test-dir build/asan --output-on-failure -j "$jobs" -R "^($(IFS='|'; echo "${folders[*]}|fuzz"))\\."
}

tsan() {
  local tests=(thread_tests)
  [ -n "$all" ] && tests+=(train_tests)  # needs the whole engine built once more
  scripts/build.sh tsan "${tests[@]}"
  # The vocabulary is trained in a child; its own threads are SentencePiece's.
  TSAN_OPTIONS="die_after_fork=0 suppressions=$PWD/tests/tsan.supp" \
    ctest --test-dir build/tsan --output-on-failure -j "$jobs" -R '^threads\.|^train\..*CheckpointWriter'
}

cuda() {
  if ! command -v nvcc >/dev/null; then
    echo "no nvcc here: CUDA sources not compiled (1 stage skipped)"
    return
  fi
  if [ -n "$all" ]; then
    cmake --preset cuda -DREIGEN_CUDA_ARCHITECTURES=90 >/dev/null
    cmake --build build/cuda --target all benchmarks  # the program with the backend in it
  else
    # Nothing runs here, so device code is compiled without optimisation and only to PTX, which is much
    # faster. With --all the assembler checks it, too.
    cmake --preset cuda-library -B build/cuda-check -DREIGEN_CUDA_ARCHITECTURES=90-virtual \
      -DREIGEN_TESTS=OFF -DCMAKE_CUDA_FLAGS="-Xcicc -O0" >/dev/null
    cmake --build build/cuda-check --target reigen reigen_cuda
    # The program finds all symbols of the library, and the library all of its own: "13.0, no driver found".
    build/cuda-check/reigen --version | tee /dev/stderr | grep -qE 'cuda +[0-9]+\.[0-9]+,'
  fi
}

arm64() {
  local folders=(base config text data tensor ops model optim decode eval)
  if ! scripts/setup.sh --arm64 || ! scripts/arm64_root.sh; then
    echo "compiler, libraries or qemu for arm64 cannot be installed here: nothing built for it (1 stage skipped)"
    return
  fi
  scripts/build.sh release reigen  # what the other is compared with
  cmake --preset arm64 -DREIGEN_TESTS=ON >/dev/null
  cmake --build build/arm64 --target reigen reigen_launcher "${folders[@]/%/_tests}"
  ctest --test-dir build/arm64 --output-on-failure -j "$jobs" -R "^($(IFS='|'; echo "${folders[*]}"))\\.|^cli\\.arm64$"
  # Processors without I8MM, and without dot products.
  for processor in cortex-a76 cortex-a72; do
    QEMU_CPU=$processor ctest --test-dir build/arm64 --output-on-failure -j "$jobs" -R '^ops\..*Int8'
  done
}

fuzz() {
  scripts/build.sh fuzz
  if [ -n "${MINUTES:-}" ]; then
    tests/fuzz/run.sh build/fuzz minutes "$MINUTES"
  else
    tests/fuzz/run.sh build/fuzz runs 500000
  fi
}

long() {
  scripts/lint.sh  # clang-tidy
  tests/long/five_million.sh build/release/reigen
}

stages=("$@")
if [ ${#stages[@]} -eq 0 ]; then
  stages=(lint release asan tsan cuda)
  [ -n "$all" ] && stages+=(arm64 fuzz long)
fi
for stage in "${stages[@]}"; do
  printf '\n== %s ==\n' "$stage"
  start=$SECONDS
  "$stage"
  times+=("$stage $((SECONDS - start)) s")
done
printf '\nall passed:'
printf ' %s,' "${times[@]}"
printf ' %s s in all\n' "$SECONDS"

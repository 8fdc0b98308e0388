#!/usr/bin/env bash
# Runs every test; with --all also the long ones. The last line of each stage names what ran.
set -euo pipefail
cd "$(dirname "$0")/.."
all=${1:-}
jobs=$(nproc)

stage() { printf '\n== %s ==\n' "$*"; }

stage "lint"
scripts/lint.sh --fast

stage "unit tests and whole runs (release)"
# Many of these wait for each other's processes more than they compute.
ctest --test-dir build/release --output-on-failure -j $((jobs + 1))

stage "unit tests under the address and undefined-behaviour sanitizers"
# What reads files and what computes with pointers. The rest is built on these, takes twice as long to
# compile as all of them together, and has its turn with --all.
folders=(base data tensor ops)
[ "$all" = --all ] && folders+=(config text model optim dist observe decode eval train)
scripts/build.sh asan "${folders[@]/%/_tests}"
# Finite differences with dropout draw every mask thousands of times: 70 s each here, 14 in release.
ctest --test-dir build/asan --output-on-failure -j "$jobs" \
  -R "^($(IFS='|'; echo "${folders[*]}"))\\." -E 'ResidualNorm.*with_dropout|Ops.*/1_threads'

stage "threads under the thread sanitizer"
threaded=(base_tests data_tests dist_tests)
[ "$all" = --all ] && threaded+=(train_tests)  # needs the whole engine built once more
scripts/build.sh tsan "${threaded[@]}"
# The vocabulary is trained in a child; its own threads are SentencePiece's.
TSAN_OPTIONS="die_after_fork=0 suppressions=$PWD/tests/tsan.supp" ctest --test-dir build/tsan --output-on-failure -j "$jobs" \
  -R '^(base|data|train)\..*(Pipeline|Prepare|Progress|AppendFile|LogCopy|Prefetch|CheckpointWriter)|^dist\.(Group|Rendezvous|Membership|BucketReducer)'

stage "fuzzing"
scripts/build.sh fuzz
if [ "$all" = --all ]; then runs=500000; else runs=8000; fi
tests/fuzz/run.sh build/fuzz "$runs"

if command -v nvcc >/dev/null; then
  stage "the CUDA build compiles and links"
  cmake --preset cuda -DREIGEN_CUDA_ARCHITECTURES=90 >/dev/null
  cmake --build build/cuda --target reigen op_check step_time
else
  stage "no nvcc here: CUDA sources not compiled (1 stage skipped)"
fi

if [ "$all" = --all ]; then
  stage "clang-tidy"
  scripts/lint.sh
  stage "five million lines in bounded memory"
  tests/long/five_million.sh build/release/reigen
fi

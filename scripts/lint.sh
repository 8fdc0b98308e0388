#!/usr/bin/env bash
# Checks that need no reviewer: format, layers, scripts, list of tests, generated tables, names in
# documents, and clang-tidy's allow-list. With --fast, all but clang-tidy.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "format"
git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format --dry-run -Werror

echo "layers"
scripts/check_layers.sh

echo "scripts"
git ls-files '*.sh' '.ci/run' | xargs shellcheck -x

echo "list of tests"
python3 scripts/check_tests.py

echo "tables of benchmarks"
bench/results/tables.py --check

echo "names in documents"
python3 scripts/check_docs.py

[ "${1:-}" = --fast ] && exit 0

echo "clang-tidy"
# Each source of a CPU build with its own flags: a unity build has flags for groups of files only.
cmake --preset release -B build/tidy -DCMAKE_UNITY_BUILD=OFF -DREIGEN_TESTS=OFF >/dev/null
run-clang-tidy -quiet -j "$(nproc)" -p build/tidy \
  -extra-arg=-Wno-unknown-warning-option -extra-arg=-Wno-unused-command-line-argument "$PWD/src/" 2>/dev/null |
  { grep -vE '^clang-tidy|^$' || true; }

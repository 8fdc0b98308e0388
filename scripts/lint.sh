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
[ -f build/release/compile_commands.json ] || cmake --preset release >/dev/null
# Sources that need the CUDA toolkit are not part of the release build.
git ls-files 'src/*.cpp' | grep -vE '/(cuda|nccl)/' | xargs -P "$(nproc)" -n 4 clang-tidy -quiet -p build/release \
  --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-unused-command-line-argument 2>/dev/null

#!/usr/bin/env bash
# Runs every fuzz target from its seeds: tests/fuzz/run.sh BUILD_DIR [RUNS]
# The seed is fixed, so that a failure can be repeated. New inputs and crashes are written to a temporary
# directory; a crash is printed as base64 and can be replayed by passing that file to the target.
set -uo pipefail
if [ $# -lt 1 ]; then
  echo "usage: tests/fuzz/run.sh BUILD_DIR [RUNS]" >&2
  exit 2
fi
build=$1
runs=${2:-20000}
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

passed=0
failed=0
for seeds in "$here"/seeds/*/; do
  name=$(basename "$seeds")
  cp -r "$seeds" "$scratch/$name"
  mkdir "$scratch/$name.crashes"
  start=$SECONDS
  if "$build/tests/fuzz/fuzz_$name" -seed=1 -runs="$runs" -max_len=4096 -rss_limit_mb=2048 \
      -timeout=10 -print_final_stats=1 -artifact_prefix="$scratch/$name.crashes/" \
      "$scratch/$name" >"$scratch/$name.log" 2>&1; then
    echo "fuzz_$name: $runs runs in $((SECONDS - start)) s"
    passed=$((passed + 1))
  else
    echo "fuzz_$name: FAILED after $((SECONDS - start)) s"
    tail -n 60 "$scratch/$name.log"
    for crash in "$scratch/$name.crashes"/*; do
      [ -e "$crash" ] || continue
      echo "fuzz_$name: $(basename "$crash"), as base64:"
      base64 "$crash"
    done
    failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]

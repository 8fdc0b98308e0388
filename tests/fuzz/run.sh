#!/usr/bin/env bash
# Runs every fuzz target from its seeds: tests/fuzz/run.sh BUILD_DIR runs COUNT | minutes COUNT [TARGET...]
#   runs 500000   that many inputs per target; the random seed is fixed, so that a failure can be repeated
#   minutes 60    an hour in all, shared by the targets; JOBS of them run at a time (all cores unless set)
# Inputs that reached new code are kept in BUILD_DIR/corpus and are the start of the next run. A crash is printed
# as base64 and can be replayed by passing that file to the target.
set -uo pipefail
if [ $# -lt 3 ]; then
  echo "usage: tests/fuzz/run.sh BUILD_DIR runs|minutes COUNT [TARGET...]" >&2
  exit 2
fi
build=$1
unit=$2
count=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export build here scratch
names=("$@")
[ ${#names[@]} -gt 0 ] || mapfile -t names < <(ls "$here/seeds")
jobs=${JOBS:-$(nproc)}
if [ "$unit" = runs ]; then
  export limit="-seed=1 -runs=$count" slow_limit="-seed=1 -runs=$((count / 100))"
else
  seconds=$((count * 60 * jobs / ${#names[@]}))
  limit="-max_total_time=$((seconds > 0 ? seconds : 1))"
  export limit slow_limit=$limit
fi

fuzz_one() {
  local name=$1 log=$scratch/$1.log crashes=$scratch/$1.crashes corpus=$build/corpus/$1
  [ "$name" = frame ] && limit=$slow_limit  # each input opens connections
  mkdir -p "$crashes" "$corpus"
  [[ $limit == *-runs=* ]] && corpus=$scratch/$name && mkdir -p "$corpus"
  # shellcheck disable=SC2086 # the limit is several words
  if "$build/tests/fuzz/fuzz_$name" $limit -max_len=4096 -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
      -artifact_prefix="$crashes/" "$corpus" "$here/seeds/$name" >"$log" 2>&1; then
    echo "fuzz_$name: passed, $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
    return
  fi
  echo "fuzz_$name: FAILED after $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
  tail -n 60 "$log"
  for crash in "$crashes"/*; do
    [ -e "$crash" ] || continue
    echo "fuzz_$name: $(basename "$crash"), as base64:"
    base64 "$crash"
  done
}
export -f fuzz_one

printf '%s\n' "${names[@]}" | xargs -P "$jobs" -I{} bash -c 'fuzz_one {}' | tee "$scratch/all"
passed=$(grep -c '^fuzz_[a-z_]*: passed' "$scratch/all")
inputs=$(sed -n 's/^fuzz_[a-z_]*: .* \([0-9]*\) inputs$/\1/p' "$scratch/all" |
  awk '{ sum += $1 } END { printf "%d", sum }')
echo "$passed of ${#names[@]} targets passed; $inputs inputs in all"
[ "$passed" -eq ${#names[@]} ]

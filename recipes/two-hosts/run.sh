#!/usr/bin/env bash
# Trains the same run on two hosts joined by links of known speed, with and without compression.
#
# Why: the most expensive mistake of the runs this project grew out of was a port capped at 100 Mbit/s.
# Two network namespaces and a shaped veth pair act as two hosts and such a port on one machine.
# Invariants: nothing outside the two namespaces is changed, and they are removed at the end, also after an
# error. Each host gets half of this machine's cores.
set -euo pipefail
export LC_ALL=C

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../common.sh
source "$here/../common.sh"

usage() {
  cat <<'EOF'
usage: run.sh --data DIR [--output DIR] [--reigen PATH] [--rates LIST] [--methods LIST] [--seconds N]
              [-- OPTION...]

  --data DIR      dataset, written by reigen prepare
  --output DIR    folder for runs, table and chart (default: runs/two-hosts)
  --reigen PATH   the reigen program (default: build/release/reigen here, else the one in PATH)
  --rates LIST    link speeds for tc (default: 100mbit,1gbit,unshaped)
  --methods LIST  values of --compress (default: none,auto)
  --seconds N     approximate duration of reigen doctor (default: 8)
  OPTION...       options of reigen train, which override the default --preset small --recipe classic --max-steps 300. With
                  --config the defaults are not used

Needs root, ip and tc. Exit codes: 1 failed, 2 wrong arguments, 3 a program or a permission is missing.
EOF
}

data=
output=runs/two-hosts
reigen=
reigen_given=
rates=100mbit,1gbit,unshaped
methods=none,auto
seconds=8
while [[ $# -gt 0 ]]; do
  case $1 in
    --data | --output | --reigen | --rates | --methods | --seconds)
      [[ $# -ge 2 && -n $2 ]] || die "$EXIT_USAGE" "$1 needs a value"
      case $1 in
        --data) data=$2 ;;
        --output) output=$2 ;;
        --reigen) reigen_given=$2 ;;
        --rates) rates=$2 ;;
        --methods) methods=$2 ;;
        --seconds) seconds=$2 ;;
      esac
      shift 2
      ;;
    --)
      shift
      break
      ;;
    --help | -h)
      usage
      exit 0
      ;;
    *)
      usage >&2
      die "$EXIT_USAGE" "unknown argument $1"
      ;;
  esac
done
[[ -n $data ]] || die "$EXIT_USAGE" "--data is required"
options=(--preset small --recipe classic --max-steps 300 "$@")
# Options on the command line would override the file of --config.
case " $* " in *" --config"[\ =]*) options=("$@") ;; esac
need ip tc awk python3
find_reigen "$reigen_given"

a=rg$$a
b=rg$$b
cleanup() {
  ip netns del "$a" 2>/dev/null || true
  ip netns del "$b" 2>/dev/null || true
}
trap cleanup EXIT
ip netns add "$a" 2>/dev/null ||
  die "$EXIT_MISSING" "network namespaces are not permitted here" "Run it as root."
ip netns add "$b"
ip -n "$a" link add eth0 type veth peer name eth0 netns "$b"
for host in "$a 1" "$b 2"; do
  read -r name last <<<"$host"
  ip -n "$name" addr add "10.78.0.$last/24" dev eth0
  ip -n "$name" link set eth0 up
  ip -n "$name" link set lo up
done

# burst RATE: bytes that pass without delay, for tc. At most 1/50 of a second of the rate: a larger
# burst would make a slow link fast for small messages.
burst() {
  local bits=${1//[^0-9.]/}
  case ${1,,} in
    *kbit) bits=${bits}e3 ;;
    *mbit) bits=${bits}e6 ;;
    *gbit) bits=${bits}e9 ;;
  esac
  awk -v bits="$bits" 'BEGIN { b = bits / 8 / 50; print int(b < 16e3 ? 16e3 : b > 262144 ? 262144 : b) }'
}
shape() { # RATE
  local name
  for name in "$a" "$b"; do
    ip netns exec "$name" tc qdisc del dev eth0 root 2>/dev/null || true
    [[ $1 == unshaped ]] ||
      ip netns exec "$name" tc qdisc add dev eth0 root tbf rate "$1" burst "$(burst "$1")" latency 50ms
  done
}

# The cores this process may use, which need not start at 0 or be all.
mapfile -t cpus < <(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)), sep="\n")')
threads=$((${#cpus[@]} > 1 ? ${#cpus[@]} / 2 : 1))
# Workers on several hosts need a secret.
REIGEN_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export REIGEN_TOKEN
# on HOST RANK ARGUMENT...: runs reigen as one of two workers, on half of the cores.
on() {
  local name=$1 rank=$2 mine
  shift 2
  mine=$(IFS=, && echo "${cpus[*]:rank * threads:threads}")
  RANK=$rank WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.78.0.1 MASTER_PORT=29700 \
    ip netns exec "$name" taskset -c "${mine:-${cpus[0]}}" "$reigen" "$@"
}
# both LOG ARGUMENT...: runs reigen on both hosts; prints the stdout of rank 0.
both() {
  local log=$1 other status=0
  shift
  on "$b" 1 "$@" >/dev/null 2>"$log.1" &
  other=$!
  on "$a" 0 "$@" 2>"$log.0" || status=$?
  wait "$other" || status=$?
  [[ $status -eq 0 ]] || die "$EXIT_ERROR" "reigen $1 failed:" "$(tail -n 3 "$log.0")"
}

# expected FILE: the prediction of reigen doctor, as text.
expected() {
  python3 -c 'import json, sys
found = json.load(open(sys.argv[1]))
total = ", %.1f minutes in total" % (60 * found["hours"]) if found["hours"] else ""
print("predicted: %.2f s per step%s" % (found["forecast"]["step_seconds"], total))' "$1"
}

mkdir -p "$output"
for rate in ${rates//,/ }; do
  shape "$rate"
  for method in ${methods//,/ }; do
    name=$rate-${method//:/-}
    say "$rate, --compress $method"
    rm -rf "${output:?}/$name"
    both "$output/$name.doctor" doctor --json --seconds "$seconds" --data "$data" --threads "$threads" --compress "$method" \
      "${options[@]}" >"$output/$name.json"
    say "  $(expected "$output/$name.json"); log: $output/$name.log.0"
    both "$output/$name.log" train --data "$data" --run "$output/$name" --threads "$threads" \
      --compress "$method" "${options[@]}"
    "$reigen" report "$output/$name" --doctor "$output/$name.json" >/dev/null
  done
done
python3 "$here/compare.py" "$output" "$rates" "$methods"

#!/bin/bash
# hunt.sh ROOT: looks for the rare launch failure on a GPU machine, in under 8 minutes (OUT is set, as
# for c.sh; `sweep` lies beside this script, and in front of it head.sh and the pack).
#  1 (0..200 s) sweep: every candidate of cuBLASLt on every row count of its kind, guards around
#    outputs and workspaces; beside it compute-sanitizer on few steps of base and small
#  2 (200..460 s) rounds of 10 trainings side by side, the command of the fault; each writes a small
#    GPU core dump on a fault, which names the kernel
H=$(cd $(dirname $0) && pwd); . $H/head.sh
prepare; note prepared; cd $W
CS=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer /opt/nvidia/nsight-compute/*/host/*/sanitizer/compute-sanitizer /usr/local/cuda*/compute-sanitizer/compute-sanitizer 2>/dev/null | head -1)
note "sanitizer: $CS $($CS --version 2>/dev/null | grep -i version | head -1); debugger: $(command -v cuda-gdb || ls /usr/local/cuda*/bin/cuda-gdb 2>/dev/null | head -1); MPS: $(pgrep -fc nvidia-cuda-mps)"
nvidia-smi --query-gpu=name,driver_version,compute_mode,ecc.errors.uncorrected.volatile.total --format=csv,noheader | tee -a $L/summary
# The filter of kernel names was called --kernel-regex before; names of this project's kernels end so.
own=--kernel-name; $CS --help 2>/dev/null | grep -q -- '--kernel-name' || own=--kernel-regex
sanitize() { # NAME TOOL FILTER(or -) ARGUMENTS of train...
  local n=$1 t=$2 f=$3; shift 3; [ "$f" = - ] && f= || f="$own kns=_kernel"
  timeout 175 $CS --tool $t $f --error-exitcode 9 --print-limit 10 --log-file $L/$n.sanitizer \
    $R train --run $n --memory 12GB --eval.every 0 --no-eval.bleu --device cuda:0 --log-every 1 "$@" > $L/$n.log 2>&1
  note "$n rc $? (124: time over) $(grep -c '^step' $L/$n.log) steps: $(grep 'SUMMARY' $L/$n.sanitizer 2>/dev/null | tail -1)"
}
sweep() { # MODE PRODUCT
  local from=0 out=$L/sweep-$1-$2
  while :; do
    CUDA_ENABLE_COREDUMP_ON_EXCEPTION=0 timeout 60 $H/sweep $1 $2 $from > $out.$from 2>&1; local rc=$?
    [ $rc -eq 3 ] || break
    note "FAULT $(grep FAULT $out.$from)"
    from=$(( $(grep FAULT $out.$from | grep -oE 'candidate [0-9]+' | grep -oE '[0-9]+') + 1 ))
  done
  [ $rc -eq 0 ] && ! grep -q WRITES $out.* || note "sweep $1 $2 rc $rc $(grep -h WRITES $out.* | head -3)"
  tail -1 $out.$from >> $L/sweep.txt
}
if [ -n "$CS" ]; then
  sanitize memcheck-base memcheck own --preset base --data ep --seed 2 --max-steps 60 &
  sanitize memcheck-small memcheck - --preset small --data m30 --seed 2 --max-steps 12 --batch.target-tokens 2000 &
  sanitize racecheck-base racecheck own --preset base --data ep --seed 2 --max-steps 12 --batch.target-tokens 3000 &
  sanitize synccheck-base synccheck own --preset base --data ep --seed 2 --max-steps 12 --batch.target-tokens 3000 &
fi
( for i in $(seq 0 23); do [ $SECONDS -lt $((S+190)) ] && sweep rows $i; done ) &
( for n in 1 2 3; do [ $SECONDS -lt $((S+190)) ] && sweep muon 0; done ) &
while [ $SECONDS -lt $((S+200)) ] && [ $(jobs -rp | wc -l) -gt 0 ]; do sleep 2; done
jobs -rp | xargs -r kill 2>/dev/null; wait; cat $L/sweep.txt | tee -a $L/summary; save
# ---- 10 trainings side by side ----
faults=0; all=0; round=0
# Coredumps of a few KiB: the kernel, its registers and the exception, without memory.
export CUDA_ENABLE_LIGHTWEIGHT_COREDUMP=1 CUDA_COREDUMP_SHOW_PROGRESS=0
while [ $SECONDS -lt $((S+360)) ]; do
  round=$((round+1)); pids=()
  for i in 0 1 2 3 4 5 6 7 8 9; do
    n=r$round-$i; dump=$([ $((i%2)) = 0 ] && echo 1 || echo 0)
    case $i in # eight of the command of the fault, two with two workers as its neighbours
      8|9) (CUDA_ENABLE_COREDUMP_ON_EXCEPTION=$dump CUDA_COREDUMP_FILE=$L/$n.%p.nvcudmp CUDA_LOG_FILE=$L/$n.cuda timeout 100 taskset -c $((i+2)) $R train --preset small --data m30 --run $n --seed $i --memory 12GB --workers 2 --device cuda:0 --compress int4 --eval.every 0 --no-eval.bleu --max-steps 60 > $L/$n.log 2>&1) & ;;
      *) (CUDA_ENABLE_COREDUMP_ON_EXCEPTION=$dump CUDA_COREDUMP_FILE=$L/$n.%p.nvcudmp CUDA_LOG_FILE=$L/$n.cuda; export CUDA_ENABLE_COREDUMP_ON_EXCEPTION CUDA_COREDUMP_FILE CUDA_LOG_FILE
          timeout 100 taskset -c $i $R train --preset base --data ep --run $n --seed 2 --memory 12GB --device cuda:0 --eval.every 0 --no-eval.bleu --max-steps 200 --log-every 10 > $L/$n.log 2>&1) & ;;
    esac
    pids+=($!)
  done
  for p in ${pids[@]}; do wait $p; done
  for i in 0 1 2 3 4 5 6 7 8 9; do
    n=r$round-$i; all=$((all+1)); rm -rf $n
    if grep -qE 'error: CUDA|cuBLASLt could not' $L/$n.log; then faults=$((faults+1)); note "FAULT $n: $(grep -E '^step' $L/$n.log | tail -1 | cut -c1-30) $(grep error: $L/$n.log | head -1 | cut -c1-160)"
    elif ! grep -q '^done' $L/$n.log; then note "not completed: $n $(tail -1 $L/$n.log | cut -c1-160)"
    else [ -s $L/$n.cuda ] || rm -f $L/$n.cuda; rm -f $L/$n.log; fi
  done
  note "round $round: $all runs, $faults faults"
done
for d in $(ls $L/*.nvcudmp 2>/dev/null | head -2); do
  G=$(command -v cuda-gdb || ls /usr/local/cuda*/bin/cuda-gdb 2>/dev/null | head -1)
  if [ -n "$G" ]; then timeout 15 $G -batch -ex "target cudacore $d" -ex "info cuda kernels" -ex "info cuda exception" -ex "x/3i \$pc" > $d.txt 2>&1
  else strings -n 8 $d | grep -E '_Z|nvjet|cutlass|xmma|kernel' | sort | uniq -c | sort -rn | head -20 > $d.txt; fi
  note "dump $d: $(head -c 600 $d.txt)"
done
(dmesg 2>/dev/null; cat /var/log/kern.log 2>/dev/null) | grep -iE 'xid|nvrm' | tail -5 | tee -a $L/summary
save; cat $L/summary

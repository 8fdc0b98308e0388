#!/usr/bin/env bash
# Counting checks, for the recipe tests that source this file. They read `checks` and `failures`.

failures=0
checks=0
ok() {
  checks=$((checks + 1))
  if [[ $1 -eq 0 ]]; then
    printf 'ok    %s\n' "$2"
  else
    failures=$((failures + 1))
    printf 'FAIL  %s\n' "$2"
  fi
}
# equal WHAT EXPECTED GOT
equal() {
  if [[ $2 == "$3" ]]; then
    ok 0 "$1"
  else
    ok 1 "$1"
    printf '      expected: %s\n      got:      %s\n' "$2" "$3"
  fi
}
# holds WHAT COMMAND...
holds() {
  local what=$1 status=0
  shift
  "$@" >/dev/null 2>&1 || status=$?
  ok "$status" "$what"
}

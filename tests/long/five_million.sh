#!/usr/bin/env bash
# Preparing 5 million lines must stay under 1.5 GB resident. Takes about a minute on two cores.
set -euo pipefail
reigen=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$reigen" corpus --pairs 5000000 --output "$work/text"
/usr/bin/time -f '%M %e' -o "$work/usage" "$reigen" prepare --source en --target de \
  --train "$work/text/train.en" "$work/text/train.de" --valid "$work/text/valid.en" \
  "$work/text/valid.de" --vocab-size 8000 --output "$work/data"
read -r kilobytes seconds <"$work/usage"
echo "peak resident $((kilobytes / 1000)) MB in $seconds s (limit 1500 MB)"
if [ "$kilobytes" -gt 1500000 ]; then
  echo "0 passed, 1 failed"
  exit 1
fi
echo "1 passed, 0 failed"

#!/usr/bin/env bash
# Runs every benchmark that needs no GPU. Arguments go to the data benchmark: real text and a
# vocabulary give realistic numbers (see bench/data/prepare_bench.py).
set -euo pipefail
cd "$(dirname "$0")"
python3 data/prepare_bench.py "$@"
../build/release/bench/product_bench 4096
../build/release/bench/step_bench small 8000 4096
../build/release/bench/decode_bench small 8000 256 4
../build/release/bench/decode_bench base 32000 96 4 0 1
python3 dist/link_bench.py
python3 dist/link_bench.py --on-each 2 --rates 100mbit 1gbit
../build/release/bench/sampler_bench
python3 observe/open_run.py
python3 observe/overhead.py

#!/usr/bin/env bash
# Configures and builds one preset: scripts/build.sh PRESET [targets...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
cmake --preset "$preset" >/dev/null
cmake --build "build/$preset" --target "${@:-all}"

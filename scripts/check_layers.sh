#!/usr/bin/env bash
# The layers of src/: a folder uses only itself and folders above it in this list, by include or by
# forward declaration, and each outside library is included by few, known files.
set -euo pipefail
cd "$(dirname "$0")/../src"
exec python3 ../scripts/check_layers.py

#!/usr/bin/env bash
# A folder of src/ includes only folders above it, and each outside library has few, known doors.
set -euo pipefail
cd "$(dirname "$0")/../src"

layers=(base config text data device tensor ops model optim dist observe decode eval train cli)
failed=0

declare -A rank
for i in "${!layers[@]}"; do rank[${layers[$i]}]=$i; done
for folder in */; do
  folder=${folder%/}
  if [ -z "${rank[$folder]:-}" ]; then
    echo "src/$folder is not in the list of layers (scripts/check_layers.sh)" >&2
    failed=1
    continue
  fi
  while IFS=: read -r file line text; do
    other=$(sed -E 's/.*"([a-z]+)\/.*/\1/' <<<"$text")
    if [ -z "${rank[$other]:-}" ] || [ "${rank[$other]}" -gt "${rank[$folder]}" ]; then
      echo "src/$file:$line: $folder must not include $other" >&2
      failed=1
    fi
  done < <(grep -rnE '^#include "[a-z]+/' "$folder" || true)
done

# library header -> the only files that may include it
doors() {
  local pattern=$1 allowed=$2
  local found
  found=$(grep -rlE "^#include <($pattern)" . | sed 's/^\.\///' | grep -vE "^($allowed)$" || true)
  if [ -n "$found" ]; then
    echo "these files may not include <$pattern>: $found" >&2
    failed=1
  fi
}
doors 'fmt/' 'base/format\.h'
doors 'nlohmann/' 'base/json\.h'
doors 'openssl/|xxhash' 'base/hash\.cpp'
doors 'yaml-cpp/' 'config/yaml\.cpp'
doors 'unicode/' 'text/(unicode|demo_[a-z]+)\.cpp'
doors 'sentencepiece' 'text/(vocabulary|vocab_trainer)\.cpp'
doors 'zlib|zstd|lzma' 'data/byte_source\.cpp'
doors 'expat' 'data/tmx_reader\.cpp'
doors 'omp\.h' 'device/device\.cpp'
doors 'dnnl' 'ops/cpu/matmul\.cpp'
doors 'hwy/' 'ops/cpu/(vector_inl\.h|row_kernels\.cpp|attention_kernels\.cpp|decode_kernels\.cpp)'
doors 'cuda' 'device/cuda/.*'
doors 'gloo/' 'dist/gloo_mesh\.cpp'
doors 'httplib' 'observe/live_server\.cpp'
doors 'simdjson' 'observe/record_parser\.cpp'
doors 'pmix' 'dist/pmix\.cpp'
doors 'nccl' 'dist/nccl/library\.h'
doors 'cublas' 'ops/cuda/matmul\.cpp'
exit $failed

#!/usr/bin/env bash
# Installs the Debian 12 packages that Reigen builds with; with --unit also those of lint and unit tests,
# with --test those of all tests and benchmarks. Does nothing when all are there, so it needs root (or
# sudo) only once.
set -euo pipefail

packages=(
  build-essential cmake ninja-build pkg-config git
  libfmt-dev nlohmann-json3-dev libyaml-cpp-dev libxxhash-dev libssl-dev
  libicu-dev libsentencepiece-dev libexpat1-dev zlib1g-dev libzstd-dev liblzma-dev
  libdnnl-dev libhwy-dev libpmix-dev
  libsimdjson-dev libjs-chart.js
)
unit_packages=(
  ccache python3 libgtest-dev libgmock-dev clang-format shellcheck gettext gzip zstd xz-utils
)
test_packages=(
  "${unit_packages[@]}"
  clang libclang-rt-14-dev clang-tidy
  sentencepiece time curl
  openmpi-bin slurmctld slurmd slurm-client iproute2 faketime chromium spin python3-yaml
)
[ "${1:-}" = --unit ] && packages+=("${unit_packages[@]}")
[ "${1:-}" = --test ] && packages+=("${test_packages[@]}")

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
    missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "error: apt-get not found; install these packages by hand: ${missing[*]}" >&2
  exit 1
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "error: not root and no sudo; as root run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  sudo=(sudo)
fi
echo "installing ${#missing[@]} packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null

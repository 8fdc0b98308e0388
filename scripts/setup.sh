#!/usr/bin/env bash
# Installs the Debian 12 packages that Reigen builds with; with --unit also those of lint and unit tests,
# with --test those of all tests and benchmarks, with --arm64 those that build for arm64 and run the
# result. Does nothing when all are there, so it needs root (or sudo) only once. With --list after these
# it prints the packages instead.
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
arm64_packages=(g++-aarch64-linux-gnu mmdebstrap qemu-user-static)
list=
arm64=
for option in "$@"; do
  case $option in
    --unit) packages+=("${unit_packages[@]}") ;;
    --test) packages+=("${test_packages[@]}") ;;
    --arm64) arm64=yes packages+=("${arm64_packages[@]}") ;;
    --list) list=yes ;;
    *)
      echo "usage: scripts/setup.sh [--unit | --test] [--arm64] [--list]" >&2
      exit 2
      ;;
  esac
done
if [ -n "$list" ]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi

# Lets the kernel start arm64 programs by qemu, where this is root and the kernel can. Under systemd that
# is done already.
start_by_qemu() {
  local folder=/proc/sys/fs/binfmt_misc
  [ -n "$arm64" ] && [ ! -e $folder/qemu-aarch64 ] && [ "$(id -u)" -eq 0 ] || return 0
  [ -e $folder/register ] || mount -t binfmt_misc binfmt_misc $folder 2>/dev/null || return 0
  cat /usr/lib/binfmt.d/qemu-aarch64.conf > $folder/register || return 0
}

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
    missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  start_by_qemu
  exit 0
fi
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
start_by_qemu

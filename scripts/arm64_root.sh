#!/usr/bin/env bash
# Makes build/arm64-root, against which the preset arm64 builds: the libraries of scripts/setup.sh, and
# what they depend on, for arm64. Several of them cannot be installed beside their amd64 twins. The
# packages are only unpacked, so no arm64 program has to run. A root with the same packages is kept.
#   MIRROR names a different Debian archive than deb.debian.org.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD/build/arm64-root

# record ROOT: which package each file is from, in the form that dpkg-query and dpkg-shlibdeps read with
# --admindir. Names of files are those that programs of this machine see.
record() {
  local info=$1/packages/info deb name
  mkdir -p "$info"
  echo 1 > "$info/format"
  for deb in "$1"/var/cache/apt/archives/*.deb; do
    name=$(dpkg-deb --field "$deb" Package)
    [ "$(dpkg-deb --field "$deb" Multi-Arch)" = same ] && name+=:arm64
    dpkg-deb --control "$deb" "$1/control"
    for file in symbols shlibs; do
      [ -e "$1/control/$file" ] && mv "$1/control/$file" "$info/$name.$file"
    done
    rm -r "$1/control"
    dpkg-deb --fsys-tarfile "$deb" | tar -t | sed "s|^\.|$root|; s|/$||" > "$info/$name.list"
    dpkg-deb --field "$deb" Package Version Architecture Multi-Arch Maintainer
    printf 'Status: install ok installed\nDescription: in %s\n\n' "$root"
  done > "$1/packages/status"
}
if [ "${1:-}" = --record ]; then  # from below, within mmdebstrap
  record "$2"
  exit 0
fi

# Of the programs in the list those of the machine itself are used.
packages=$(scripts/setup.sh --unit --list | grep -E '^lib|-dev$' | sort | paste -sd,)
made_of="$root $packages"
[ "$(cat "$root/packages/made-of" 2>/dev/null)" = "$made_of" ] && exit 0
if ! command -v mmdebstrap >/dev/null; then
  echo "error: mmdebstrap not found; scripts/setup.sh --arm64 installs it" >&2
  exit 1
fi

echo "making $root"
rm -rf "$root" "$root.partial"
mkdir -p "$root.partial"
# By way of an archive, so that the files are the caller's own also where mmdebstrap runs in a user
# namespace.
mmdebstrap --quiet --variant=extract --architectures=arm64 --include="$packages" \
  --extract-hook="scripts/arm64_root.sh --record \"\$1\"" \
  bookworm - ${MIRROR:+"$MIRROR"} | tar -x --no-same-owner --exclude='./dev/*' -C "$root.partial"
# Links from the root become relative: the linker would follow them to this machine's libraries.
find "$root.partial" -type l -lname '/*' -printf '%p\t%l\n' | while IFS=$'\t' read -r link target; do
  ln -sfnr "$root.partial$target" "$link"
done
echo "$made_of" > "$root.partial/packages/made-of"
mv "$root.partial" "$root"

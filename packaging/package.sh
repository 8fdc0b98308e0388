#!/usr/bin/env bash
# Writes packages of the release build, the same bytes for the same commit and versions of Debian packages:
#   packaging/package.sh               build/package/reigen-VERSION-linux-ARCH.tar.xz and .deb
#   packaging/package.sh deb           only the .deb
#   packaging/package.sh tree FOLDER   only the content of the archive, as a folder (for tests)
#   packaging/package.sh cuda          the CUDA part, reigen-VERSION-cuda-ARCH.tar.xz, from the preset
#                                      cuda-library
#   packaging/package.sh --arm64 ...   the first three for arm64, from the preset arm64 and its root
# BUILD names a different build folder than build/release, or build/arm64.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
umask 022

version=$(sed -n 's/^project(reigen VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
out=build/package
if [ "${1:-}" = --arm64 ]; then
  shift
  machine=aarch64 architecture=arm64 build=${BUILD:-build/arm64}
  root=$PWD/build/arm64-root  # where the libraries are
  run=(qemu-aarch64-static)
  export QEMU_LD_PREFIX=$root
  strip=aarch64-linux-gnu-strip
  installed=(--admindir="$root/packages")
  libraries=(-l"$root/lib/aarch64-linux-gnu" -l"$root/usr/lib/aarch64-linux-gnu")
  export DEB_HOST_ARCH=arm64
else
  machine=$(uname -m) architecture=$(dpkg --print-architecture) build=${BUILD:-build/release}
  root=
  run=()
  strip="strip"
  installed=()
  libraries=()
fi
name=reigen-$version-linux-$machine
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH

# put MODE FROM TO: one file, with the folders above it.
put() {
  install -D -m "$1" "$2" "$3"
}

# The texts that the program generates about itself.
pages() {
  local share=$1 zsh=$2
  reigen() { "${run[@]}" "$build/reigen" "$@"; }
  mkdir -p "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/$zsh" \
    "$share/fish/vendor_completions.d" "$share/doc/reigen"
  reigen help --man > "$share/man/man1/reigen.1"
  reigen help --completion bash > "$share/bash-completion/completions/reigen"
  reigen help --completion zsh > "$share/zsh/$zsh/_reigen"
  reigen help --completion fish > "$share/fish/vendor_completions.d/reigen.fish"
}

# The licence of the package that a library comes from.
licence() {
  local library=$1 folder=$2 owner
  # Where /lib is a link to /usr/lib, dpkg knows some files by one of the names and some by the other.
  owner=$(dpkg-query "${installed[@]}" -S "$library" 2>/dev/null ||
    dpkg-query "${installed[@]}" -S "${library#/usr}")
  owner=${owner%%:*}
  put 644 "$root/usr/share/doc/$owner/copyright" "$folder/$owner"
}

# The loader's list of the libraries of the program, and the loader itself.
loaded() {
  LD_TRACE_LOADED_OBJECTS=1 "${run[@]}" "$build/reigen"
}

tree() {
  local folder=$1 name path
  rm -rf "$folder"
  put 755 "$build/reigen_launcher" "$folder/bin/reigen"
  put 755 "$build/reigen" "$folder/lib/reigen/reigen"
  "$strip" "$folder/bin/reigen" "$folder/lib/reigen/reigen"
  local licences=$folder/share/doc/reigen/licenses
  while read -r name path; do
    put 644 "$root$path" "$folder/lib/reigen/$name"
    licence "$(realpath "$root$path")" "$licences"
  done < <(loaded | sed -n 's/^\t\(\S*\) => \(\S*\) .*/\1 \2/p')
  for name in nlohmann-json3-dev libjs-chart.js; do  # inside the program
    put 644 "$root/usr/share/doc/$name/copyright" "$licences/$name"
  done
  put 755 "$root$(loaded | sed -n 's/^\t\(\/\S*\) (.*/\1/p')" "$folder/lib/reigen/ld.so"
  (cd "$licences" && printf '%s\n' *) |
    xargs dpkg-query "${installed[@]}" -W > "$folder/share/doc/reigen/libraries"
  pages "$folder/share" site-functions
  put 644 README.md "$folder/share/doc/reigen/README.md"
  put 644 LICENSE "$folder/share/doc/reigen/LICENSE"
}

# archive FOLDER: FOLDER.tar.xz, without owner and times of this machine. Two threads or more compress
# the same blocks, so the number of cores does not change a byte.
archive() {
  tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
    -C "$(dirname "$1")" -cf - "$(basename "$1")" |
    xz -9 -T2 --block-size=48MiB > "$1.tar.xz"
}

# The program with the libraries of this Debian release.
deb() {
  local folder=$out/deb depends
  rm -rf "$folder"
  put 755 "$build/reigen" "$folder/usr/bin/reigen"
  "$strip" "$folder/usr/bin/reigen"
  pages "$folder/usr/share" vendor-completions
  gzip -9n "$folder/usr/share/man/man1/reigen.1"
  put 644 CHANGELOG.md "$folder/usr/share/doc/reigen/changelog"
  gzip -9n "$folder/usr/share/doc/reigen/changelog"
  # The program, and what it has inside of it.
  cat LICENSE "$root"/usr/share/doc/{nlohmann-json3-dev,libjs-chart.js}/copyright > "$folder/usr/share/doc/reigen/copyright"
  mkdir -p "$folder/debian" "$folder/DEBIAN"
  printf 'Source: reigen\n\nPackage: reigen\nArchitecture: any\n' > "$folder/debian/control"
  depends=$(cd "$folder" && dpkg-shlibdeps "${installed[@]}" "${libraries[@]}" -O -eusr/bin/reigen |
    sed -n 's/^shlibs:Depends=//p')
  rm -r "$folder/debian"
  sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" \
    -e "s/@SIZE@/$(du -sk --apparent-size "$folder/usr" | cut -f1)/" -e "s/@DEPENDS@/$depends/" \
    packaging/control.in > "$folder/DEBIAN/control"
  find "$folder" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  dpkg-deb --root-owner-group -Zxz --build "$folder" "$out/reigen_${version}_$architecture.deb" >/dev/null
  rm -r "$folder"
}

case ${1:-all} in
  tree) tree "$2" ;;
  deb) mkdir -p "$out" && deb && ls -l "$out" ;;
  cuda)
    put 644 build/cuda-library/libreigen_cuda.so "$out/cuda/$name/lib/reigen/libreigen_cuda.so"
    strip --strip-unneeded "$out/cuda/$name/lib/reigen/libreigen_cuda.so"
    archive "$out/cuda/$name"
    mv "$out/cuda/$name.tar.xz" "$out/reigen-$version-cuda-$machine.tar.xz"
    rm -r "$out/cuda"
    ls -l "$out"
    ;;
  all)
    [ -n "$root" ] || rm -rf "$out"  # packages for arm64 are added to those of this machine
    mkdir -p "$out"
    tree "$out/$name"
    archive "$out/$name"
    rm -r "${out:?}/$name"
    deb
    (cd "$out" && sha256sum reigen* > SHA256SUMS && ls -l . && cat SHA256SUMS)
    ;;
  *)
    echo "usage: packaging/package.sh [--arm64] [deb | tree FOLDER | cuda]" >&2
    exit 2
    ;;
esac

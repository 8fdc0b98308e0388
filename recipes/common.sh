# Shared by all recipes: messages, exit codes, and the path of the reigen program. Sourced, not run.
#
# shellcheck shell=bash

# Exit codes, the same in every recipe.
readonly EXIT_ERROR=1       # any other failure; the message names it
readonly EXIT_USAGE=2       # wrong arguments
readonly EXIT_MISSING=3     # a program this recipe needs is not installed
readonly EXIT_UNREACHABLE=4 # a server did not answer or did not have the file
readonly EXIT_CHECKSUM=5    # a file is not the one expected
readonly EXIT_DISK=6        # not enough free space
export EXIT_ERROR EXIT_USAGE EXIT_MISSING EXIT_UNREACHABLE EXIT_CHECKSUM EXIT_DISK

say() { printf '%s\n' "$*"; }
warn() { printf 'warning: %s\n' "$*" >&2; }

# die CODE MESSAGE...: prints each argument on its own line and exits.
die() {
  local code=$1
  shift
  printf 'error: %s\n' "$1" >&2
  shift
  local line
  for line in "$@"; do printf '       %s\n' "$line" >&2; done
  exit "$code"
}

# need PROGRAM...: exits with a message that names every program that is not installed.
need() {
  local program missing=()
  for program in "$@"; do
    command -v "$program" >/dev/null 2>&1 || missing+=("$program")
  done
  [[ ${#missing[@]} -eq 0 ]] || die "$EXIT_MISSING" "not installed: ${missing[*]}" \
    "Install them with your package manager and run again."
}

# find_reigen PATH: sets `reigen` to the given path, else to the release build of this repository,
# else to the program in $PATH.
# shellcheck disable=SC2034  # the recipe reads it
find_reigen() {
  local given=$1 root
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  if [[ -n $given ]]; then
    [[ -f $given && -x $given ]] || die "$EXIT_MISSING" "no program at $given (--reigen)"
    reigen=$given
  elif [[ -x $root/build/release/reigen ]]; then
    reigen=$root/build/release/reigen
  elif command -v reigen >/dev/null 2>&1; then
    reigen=$(command -v reigen)
  else
    die "$EXIT_MISSING" "no reigen program in $root/build/release or in PATH" \
      "Build it:  cd $root && make build" \
      "Or stop after the text:  --text-only"
  fi
}

# print_counts FILE: prints "name<TAB>number" lines as a table.
print_counts() {
  local name number
  while IFS=$'\t' read -r name number; do printf '  %-76s %10s\n' "$name" "$number"; done <"$1"
}

# put_in_place NEW OLD: renames NEW to OLD; both are on one file system, so OLD is complete or absent.
put_in_place() {
  if [[ -e $2 ]]; then
    mv -- "$2" "$1.replaced"
    mv -- "$1" "$2"
    rm -rf -- "$1.replaced"
  else
    mv -- "$1" "$2"
  fi
}

# take_lock FOLDER: locks FOLDER for the life of this process, or exits if another process has it.
take_lock() {
  command -v flock >/dev/null 2>&1 || return 0
  exec {lock_fd}>"$1/.lock"
  flock -n "$lock_fd" || die "$EXIT_ERROR" "another run is working in $1" \
    "Wait for it, or choose a different --output."
}

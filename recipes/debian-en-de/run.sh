#!/usr/bin/env bash
# English-German text from the package descriptions of a Debian machine, and shards from it.
#
# Why: a real corpus of 47,000 pairs that any Debian 12 machine can fetch in seconds through apt,
# with no account and no licence to click, large enough to train something that translates.
# Invariants: the machine's own apt state is never changed; the same index gives the same bytes;
# DIR/text and DIR/shards are complete or absent; everything that is left out is counted.
set -euo pipefail
export LC_ALL=C

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../common.sh
source "$here/../common.sh"

usage() {
  cat <<'EOF'
usage: run.sh [--output DIR] [--reigen PATH] [--text-only] [--lists DIR] [--fresh]

  --output DIR    folder for text and shards (default: data/debian-en-de)
  --reigen PATH   the reigen program (default: build/release/reigen here, else the one in PATH)
  --text-only     stop after DIR/text
  --lists DIR     store apt's index files in this folder, and use them from there the next time
  --fresh         download and make everything again, also existing files

Environment: VOCAB_SIZE (default 8000), THREADS (default: all cores).
Exit codes: 1 failed, 2 wrong arguments, 3 a program is missing, 4 the archive cannot be reached.
EOF
}

output=data/debian-en-de
reigen=
reigen_given=
text_only=false
lists=
fresh=false
while [[ $# -gt 0 ]]; do
  case $1 in
    --output | --reigen | --lists)
      [[ $# -ge 2 && -n $2 ]] || die "$EXIT_USAGE" "$1 needs a value"
      case $1 in
        --output) output=$2 ;;
        --reigen) reigen_given=$2 ;;
        --lists) lists=$2 ;;
      esac
      shift 2
      ;;
    --text-only) text_only=true && shift ;;
    --fresh) fresh=true && shift ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && die "$EXIT_USAGE" "unknown argument: $1" ;;
  esac
done
vocab_size=${VOCAB_SIZE:-8000}
[[ $vocab_size =~ ^[1-9][0-9]*$ ]] ||
  die "$EXIT_USAGE" "VOCAB_SIZE is '$vocab_size', not a positive number"
threads=${THREADS:-$(nproc 2>/dev/null || echo 1)}
[[ $threads =~ ^[1-9][0-9]*$ ]] ||
  die "$EXIT_USAGE" "THREADS is '$threads', not a positive number"

# The share of the packages, in thousandths, for valid and for test: about 1,000 pairs each.
readonly HELD_OUT_SHARE=26
# Debian 12 gives 46,349 pairs; far fewer mean a broken index.
readonly FEWEST_PAIRS=1000

need awk sort mktemp
$text_only || find_reigen "$reigen_given"
mkdir -p -- "$output" || die "$EXIT_ERROR" "cannot make the folder $output"
output=$(cd "$output" && pwd)
if [[ -n $lists ]]; then
  mkdir -p -- "$(dirname -- "$lists")"
  lists=$(cd "$(dirname -- "$lists")" && pwd)/$(basename -- "$lists")
fi
take_lock "$output"
rm -rf -- "$output"/.work.* # of a killed run: under the lock, no other process uses it
work=$(mktemp -d "$output/.work.XXXXXX")
chmod 755 "$work" # apt downloads as user _apt, which needs access
trap 'rm -rf -- "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Fills the folder $1 with the index files of the machine's own sources, in English and German.
# The configuration is read after the machine's: its sources, keys and proxies stay, its hooks and
# its choice of languages (containers often say "none") do not.
download_lists() {
  local into=$1
  command -v apt-get >/dev/null 2>&1 ||
    die "$EXIT_MISSING" "no apt-get: this recipe needs Debian or a derived system" \
      "Elsewhere, copy a text/ folder that was made on Debian into $output."
  mkdir -p "$into/partial" "$work/state" "$work/cache/archives/partial"
  cat >"$work/apt.conf" <<EOF
#clear Acquire::Languages;
Acquire::Languages { "en"; "de"; };
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Dir::State "$work/state";
Dir::State::lists "$into";
Dir::Cache "$work/cache";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Acquire::Retries "2";
Acquire::http::Timeout "30";
Acquire::https::Timeout "30";
EOF
  # Some machines also download sources, file lists, icons and the like: not here.
  apt-config dump | sed -n 's/^\(Acquire::IndexTargets::deb[^:]*::[^:]*\)::MetaKey .*/\1/p' |
    grep -vE '::deb::(Packages|Translations)$' |
    sed 's/$/::DefaultEnabled "false";/' >>"$work/apt.conf" || true
  say "Downloading the package indexes through apt (about 18 MB for Debian 12)..."
  local status=0
  apt-get -q -c "$work/apt.conf" update >"$work/apt.log" 2>&1 || status=$?
  # apt reports an unreachable server as a warning and exits with 0: check the downloaded files.
  grep -E '^(E|W|Err):?' "$work/apt.log" >"$work/apt.complaints" || true
  if ! has_index "$into" InRelease && ! has_index "$into" Release; then
    tail -n 15 "$work/apt.log" >&2
    die "$EXIT_UNREACHABLE" \
      "apt could not reach its archive (exit $status); its messages are above" \
      "Check the network and the sources: 'apt-get update' should work on this machine."
  fi
  if [[ -s $work/apt.complaints ]]; then
    warn "apt could not reach all sources; its messages:"
    cat "$work/apt.complaints" >&2
  fi
  rm -rf -- "$into/partial" "$into/auxfiles" "$into/lock"
}

# has_index FOLDER SUFFIX: whether a file name ends with it, compressed or not.
has_index() { [[ -n $(index_files "$1" "$2") ]]; }

index_files() {
  find "$1" -maxdepth 1 -type f \( -name "*_$2" -o -name "*_$2.lz4" -o -name "*_$2.xz" \
    -o -name "*_$2.gz" -o -name "*_$2.bz2" -o -name "*_$2.zst" -o -name "*_$2.lzma" \) | sort
}

# Prints all index files of one kind; an empty line ends the last entry of each.
read_index() {
  local file helper=/usr/lib/apt/apt-helper
  while IFS= read -r file; do
    case $file in
      *.lz4 | *.xz | *.gz | *.bz2 | *.zst | *.lzma)
        [[ -x $helper ]] || die "$EXIT_MISSING" "no $helper to read $file with"
        "$helper" cat-file "$file"
        ;;
      *) cat -- "$file" ;;
    esac
    echo
  done < <(index_files "$1" "$2")
}

make_text() {
  local from=$lists
  if [[ -n $lists && -d $lists ]] && ! $fresh; then
    say "Using the index files in $lists."
  else
    mkdir "$work/lists"
    download_lists "$work/lists"
    from=$work/lists
  fi
  local kind
  for kind in Translation-en Translation-de Packages; do
    has_index "$from" "$kind" || die "$EXIT_UNREACHABLE" "the archive sent no $kind index" \
      "Every Debian mirror has one for main; a source that is not Debian's may not." \
      "$(find "$from" -maxdepth 1 -type f | wc -l) index files were downloaded; apt's messages, if any, are above."
  done
  if [[ -n $lists && $from != "$lists" ]]; then
    rm -rf -- "$lists.new"
    cp -r -- "$from" "$lists.new"
    put_in_place "$lists.new" "$lists"
  fi

  say "Pairing descriptions..."
  read_index "$from" Packages | grep -E '^(Package|Source): ' >"$work/packages"
  read_index "$from" Translation-de >"$work/german"
  read_index "$from" Translation-en >"$work/english"
  awk -v packages="$work/packages" -v german="$work/german" -v english="$work/english" \
    -v counts="$work/counts.pair" -f "$here/pair.awk" >"$work/pairs"
  sort -t $'\t' -k 1,1 -k 2,2 -k 3,3n "$work/pairs" >"$work/sorted"
  mkdir "$work/text"
  awk -v out="$work/text" -v share="$HELD_OUT_SHARE" -v counts="$work/counts.split" \
    -f "$here/split.awk" "$work/sorted" "$work/sorted"
  cat "$work/counts.pair" "$work/counts.split" >"$work/text/counts.tsv"
  print_counts "$work/text/counts.tsv"

  local split en de
  for split in train valid test; do
    en=$(wc -l <"$work/text/$split.en")
    de=$(wc -l <"$work/text/$split.de")
    [[ $en -eq $de && $en -gt 0 ]] ||
      die "$EXIT_ERROR" "$split has $en English and $de German lines"
  done
  [[ $(cat "$work"/text/*.en | wc -l) -ge $FEWEST_PAIRS ]] ||
    die "$EXIT_ERROR" "fewer than $FEWEST_PAIRS pairs: the German index is incomplete or has a different format"
  put_in_place "$work/text" "$output/text"
  say "Text is in $output/text."
}

if [[ -d $output/text ]] && ! $fresh; then
  say "Text is already in $output/text (--fresh makes it again)."
else
  make_text
fi
$text_only && exit 0

if [[ -e $output/shards ]] && ! $fresh; then
  say "Shards are already in $output/shards (remove that folder to make them again)."
  exit 0
fi
replace=()
$fresh && replace=(--overwrite)
"$reigen" prepare --source en --target de \
  --train "$output/text/train.en" "$output/text/train.de" name=debian \
  --valid "$output/text/valid.en" "$output/text/valid.de" \
  --test "$output/text/test.en" "$output/text/test.de" \
  --vocab-size "$vocab_size" --threads "$threads" --output "$output/shards" "${replace[@]}"
say "Shards are in $output/shards. Inspect them:  $reigen inspect $output/shards"

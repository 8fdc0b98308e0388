#!/usr/bin/env bash
# The corpus of the original Transformer-base runs, WMT16 English-German, from nothing to shards.
#
# Why: 4,524,868 pairs, filtered as those runs filtered them, so that step times, losses and BLEU
# can be compared with theirs. README.md lists the differences.
# Invariants: an interrupted download is resumed; no archive is used before its checksum is verified;
# DIR/text and DIR/shards are complete or absent.
set -euo pipefail
export LC_ALL=C

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../common.sh
source "$here/../common.sh"

usage() {
  cat <<'EOF'
usage: run.sh [--output DIR] [--reigen PATH] [--text-only] [--extra-tests] [--fresh]

  --output DIR    folder for downloads, text and shards (default: data/wmt16-en-de); needs 8 GB
  --reigen PATH   the reigen program (default: build/release/reigen here, else the one in PATH)
  --text-only     stop after DIR/text
  --extra-tests   also make newstest2015 and newstest2016, in DIR/extra
  --fresh         make text and shards again from the downloaded archives

Environment: VOCAB_SIZE (default 32768), MAX_PIECES (default 54), THREADS (default: all cores),
WMT_BASE_URL (a mirror that has the paths of both statmt.org servers), WMT_CHECKSUMS (a folder whose
checksums.sha256 and checksums.md5 replace the recipe's), WMT_RETRIES (5), WMT_RETRY_SECONDS (5),
WMT_NEED_MB (required free disk space, 8000).
Exit codes: 1 failed, 2 wrong arguments, 3 a program is missing, 4 a server cannot be reached or
lacks a file, 5 wrong checksum, 6 not enough disk.
EOF
}

output=data/wmt16-en-de
reigen=
reigen_given=
text_only=false
extra_tests=false
fresh=false
while [[ $# -gt 0 ]]; do
  case $1 in
    --output | --reigen)
      [[ $# -ge 2 && -n $2 ]] || die "$EXIT_USAGE" "$1 needs a value"
      case $1 in
        --output) output=$2 ;;
        --reigen) reigen_given=$2 ;;
      esac
      shift 2
      ;;
    --text-only) text_only=true && shift ;;
    --extra-tests) extra_tests=true && shift ;;
    --fresh) fresh=true && shift ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && die "$EXIT_USAGE" "unknown argument: $1" ;;
  esac
done

# number NAME VALUE: VALUE if it is a whole number.
number() {
  [[ $2 =~ ^[0-9]+$ ]] || die "$EXIT_USAGE" "$1 is '$2', not a number"
  printf '%s' "$2"
}
vocab_size=$(number VOCAB_SIZE "${VOCAB_SIZE:-32768}")
max_pieces=$(number MAX_PIECES "${MAX_PIECES:-54}")
threads=$(number THREADS "${THREADS:-$(nproc 2>/dev/null || echo 1)}")
retries=$(number WMT_RETRIES "${WMT_RETRIES:-5}")
retry_seconds=$(number WMT_RETRY_SECONDS "${WMT_RETRY_SECONDS:-5}")
need_mb=$(number WMT_NEED_MB "${WMT_NEED_MB:-8000}")
checksums=${WMT_CHECKSUMS:-$here}
readonly checksums retries retry_seconds need_mb

# Corpus, archive, its two files, and their number of lines.
readonly CORPORA='
europarl-v7         wmt13/training-parallel-europarl-v7.tgz                  training/europarl-v7.de-en.en                          training/europarl-v7.de-en.de                          1920209
commoncrawl         wmt13/training-parallel-commoncrawl.tgz                  commoncrawl.de-en.en                                   commoncrawl.de-en.de                                   2399123
news-commentary-v11 wmt16/translation-task/training-parallel-nc-v11.tgz      training-parallel-nc-v11/news-commentary-v11.de-en.en  training-parallel-nc-v11/news-commentary-v11.de-en.de  242770'
# The sets of the original runs, sacreBLEU's wmt13 and wmt14: newstest2014 without the 266
# sentences that were not in the official evaluation.
readonly TEST_SETS='
newstest2013        wmt13/test.tgz                                           test/newstest2013-src.en.sgm                           test/newstest2013-src.de.sgm                           3000
newstest2014        wmt14/test-filtered.tgz                                  test/newstest2014-deen-src.en.sgm                      test/newstest2014-deen-ref.de.sgm                      2737'
readonly EXTRA_SETS='
newstest2015        wmt15/test.tgz                                           test/newstest2015-ende-src.en.sgm                      test/newstest2015-ende-ref.de.sgm                      2169
newstest2016        wmt16/translation-task/test.tgz                          test/newstest2016-ende-src.en.sgm                      test/newstest2016-ende-ref.de.sgm                      2999'
readonly PAIRS_OF_THE_ORIGINAL=4524868

need awk tar gzip sha256sum md5sum df du mktemp
command -v curl >/dev/null 2>&1 || command -v wget >/dev/null 2>&1 ||
  die "$EXIT_MISSING" "neither curl nor wget is installed" "Install one of them and run again."
$text_only || find_reigen "$reigen_given"
mkdir -p -- "$output" || die "$EXIT_ERROR" "cannot make the folder $output"
output=$(cd "$output" && pwd)
downloads=$output/download
take_lock "$output"
rm -rf -- "$output"/.work.* # of a killed run: under the lock, no other process uses it
work=$(mktemp -d "$output/.work.XXXXXX")
trap 'rm -rf -- "$work"' EXIT
readonly STOPPED="Stopped. Downloaded files stay; run the same command again to resume."
trap 'say; say "$STOPPED"; exit 130' INT
trap 'exit 143' TERM HUP

check_disk() {
  local have used
  have=$(df -Pm "$output" | awk 'NR == 2 { print $4 }')
  used=$(du -sm "$output" | cut -f 1)
  ((have + used >= need_mb)) || die "$EXIT_DISK" \
    "$have MB free for $output, $((need_mb - used)) MB needed" \
    "1.7 GB of archives, 1.4 GB unpacked, 1.3 GB of text, the rest for shards and temporary files." \
    "Choose a different --output, or set WMT_NEED_MB."
}

url_of() {
  if [[ -n ${WMT_BASE_URL:-} ]]; then
    printf '%s/%s' "${WMT_BASE_URL%/}" "$1"
  elif [[ $1 == wmt16/* ]]; then
    printf 'https://data.statmt.org/%s' "$1"
  else
    printf 'https://www.statmt.org/%s' "$1"
  fi
}

# sum_for FILE PATH: prints the checksum of PATH in the list FILE, if any.
sum_for() { [[ ! -f $1 ]] || awk -v path="$2" '$1 !~ /^#/ && $2 == path { print $1; exit }' "$1"; }

# matches FILE PATH: 0 if FILE has the known checksums of PATH, 1 if not, 2 if none is known. Sets
# `mismatch` to a sentence and `sha256` to FILE's checksum.
matches() {
  local file=$1 path=$2 known=false published_sha published_md5 recorded md5
  published_sha=$(sum_for "$checksums/checksums.sha256" "$path")
  published_md5=$(sum_for "$checksums/checksums.md5" "$path")
  recorded=$(sum_for "$downloads/recorded.sha256" "$path")
  sha256=$(sha256sum <"$file" | cut -d ' ' -f 1)
  if [[ -n $published_sha ]]; then
    known=true
    mismatch="SHA-256 $sha256, published $published_sha"
    [[ $sha256 == "$published_sha" ]] || return 1
  fi
  if [[ -n $published_md5 ]]; then
    known=true
    md5=$(md5sum <"$file" | cut -d ' ' -f 1)
    mismatch="MD5 $md5, published $published_md5"
    [[ $md5 == "$published_md5" ]] || return 1
  fi
  if [[ -n $recorded ]]; then
    known=true
    mismatch="SHA-256 $sha256, at the first download $recorded"
    [[ $sha256 == "$recorded" ]] || return 1
  fi
  $known || return 2
}

# accept FILE PATH: verifies FILE and moves it to the download PATH, or exits.
accept() {
  local file=$1 path=$2 status=0
  matches "$file" "$path" || status=$?
  # Without a published checksum, the login page of a network would be recorded as the file.
  if ((status == 2)) && ! gzip -t <"$file" 2>/dev/null; then
    mismatch="not a gzip archive"
    status=1
  fi
  if ((status == 1)); then
    mv -f -- "$file" "$downloads/$path.bad"
    die "$EXIT_CHECKSUM" "$path is not the expected file: $mismatch" \
      "It was renamed to $downloads/$path.bad; run again to download it again." \
      "If it is still wrong, the server or a proxy has changed the file."
  fi
  if ((status == 2)); then
    say "No checksum is published for $path. Recorded for later checks: $sha256"
  else
    say "Checksum verified: $path"
  fi
  if [[ -z $(sum_for "$downloads/recorded.sha256" "$path") ]]; then
    printf '%s  %s\n' "$sha256" "$path" >>"$downloads/recorded.sha256"
  fi
  [[ $file == "$downloads/$path" ]] || mv -- "$file" "$downloads/$path"
}

# download_once URL PART: resumes PART. Sets `outcome` to complete, retry, gone (the server refuses),
# whole (PART is already as long as the file) or restart (the server cannot resume).
download_once() {
  local url=$1 part=$2 status=0 code
  if command -v curl >/dev/null 2>&1; then
    local quiet=(-sS)
    [[ ! -t 2 ]] || quiet=(--progress-bar)
    code=$(curl -fL "${quiet[@]}" --connect-timeout 30 --speed-limit 1024 --speed-time 60 \
      -C - -o "$part" -w '%{http_code}' "$url") || status=$?
    case $status,$code in
      0,*) outcome=complete ;;
      33,*) outcome=restart ;;
      22,416) outcome=whole ;;
      22,408 | 22,429) outcome=retry ;;
      22,4*) outcome=gone ;;
      *) outcome=retry ;;
    esac
  else
    local log=$work/wget.log
    wget -nv -c -t 1 -T 60 -o "$log" -O "$part" "$url" || status=$?
    ((status == 0)) || cat "$log" >&2
    case $status in
      0) outcome=complete ;;
      8) outcome=gone ;; # any refusal; a few are retried below
      *) outcome=retry ;;
    esac
    if ((status == 8)) && grep -qE 'ERROR (408|429|5)' "$log"; then outcome=retry; fi
  fi
  # Both may report success if the server has no bytes after PART, even if PART is too long.
  if [[ $outcome == complete ]] && ((part_bytes > 0 && part_bytes == $(wc -c <"$part"))); then
    outcome=whole
  fi
}

fetch() {
  local path=$1 url part_bytes attempt status outcome
  local file=$downloads/$path part=$downloads/$path.part
  if [[ -f $file ]]; then
    accept "$file" "$path"
    return
  fi
  mkdir -p -- "$(dirname "$file")"
  url=$(url_of "$path")
  for ((attempt = 1; attempt <= retries; attempt++)); do
    part_bytes=0
    if [[ -s $part ]]; then
      part_bytes=$(wc -c <"$part")
      say "Resuming $path after $((part_bytes / 1000000)) MB ($part_bytes bytes)"
    else
      say "Downloading $url"
    fi
    download_once "$url" "$part"
    case $outcome in
      complete)
        [[ -s $part ]] || die "$EXIT_UNREACHABLE" "the server sent an empty file for $url"
        accept "$part" "$path"
        return
        ;;
      gone)
        die "$EXIT_UNREACHABLE" "the server refuses $url" \
          "If it has moved, set WMT_BASE_URL to a mirror, or put the file at $file yourself."
        ;;
      whole)
        status=0
        matches "$part" "$path" || status=$?
        if ((status == 0)); then
          accept "$part" "$path"
          return
        fi
        say "The partial download of $path does not match the server's file; starting over"
        rm -f -- "$part"
        ;;
      restart)
        say "The server cannot resume $path; starting over"
        rm -f -- "$part"
        ;;
      retry)
        # A connection that breaks often is acceptable as long as every attempt adds bytes.
        if [[ -s $part ]] && (($(wc -c <"$part") > part_bytes)); then attempt=0; fi
        if ((attempt < retries)); then
          say "The connection was lost; trying again in $(((attempt + 1) * retry_seconds)) s"
          sleep "$(((attempt + 1) * retry_seconds))"
        fi
        ;;
    esac
  done
  die "$EXIT_UNREACHABLE" "could not download $url: $retries attempts in a row without new data" \
    "The partial download stays: run again to resume it."
}

# unpack ARCHIVE MEMBER MEMBER: into $work/raw.
unpack() {
  local archive=$1
  shift
  mkdir -p "$work/raw"
  tar --no-same-owner -xzf "$downloads/$archive" -C "$work/raw" "$@" 2>"$work/tar.log" || {
    cat "$work/tar.log" >&2
    die "$EXIT_ERROR" "$archive lacks a file, or cannot be unpacked: $*"
  }
}

expect_lines() {
  [[ $2 -eq $3 ]] || warn "$1 has $2 lines; it had $3 when this recipe was written"
}

make_corpora() {
  local name archive english german lines total
  while read -r name archive english german lines; do
    [[ -n $name ]] || continue
    say "Filtering $name..."
    unpack "$archive" "$english" "$german"
    expect_lines "$name" "$(wc -l <"$work/raw/$english")" "$lines"
    awk -v english="$work/raw/$english" -v german="$work/raw/$german" -v out="$work/text/$name" \
      -v counts="$work/counts.$name" -f "$here/clean.awk"
    sed "s/^/$name: /" "$work/counts.$name" >>"$work/text/counts.tsv"
    rm -rf -- "$work/raw"
  done <<<"$CORPORA"
  total=$(awk -F '\t' '/pairs kept/ { n += $2 } END { print n + 0 }' "$work/text/counts.tsv")
  printf 'training pairs in all\t%d\n' "$total" >>"$work/text/counts.tsv"
  print_counts "$work/text/counts.tsv"
  if ((total == PAIRS_OF_THE_ORIGINAL)); then
    say "$total training pairs: the number of the original runs."
  else
    warn "$total training pairs; the original runs had $PAIRS_OF_THE_ORIGINAL"
  fi
}

# make_sets SETS FOLDER
make_sets() {
  local name archive english german lines found
  while read -r name archive english german lines; do
    [[ -n $name ]] || continue
    unpack "$archive" "$english" "$german"
    awk -f "$here/sgm.awk" <"$work/raw/$english" >"$2/$name.en"
    awk -f "$here/sgm.awk" <"$work/raw/$german" >"$2/$name.de"
    found=$(wc -l <"$2/$name.en")
    [[ $found -eq $(wc -l <"$2/$name.de") ]] ||
      die "$EXIT_ERROR" "$name: $found English and $(wc -l <"$2/$name.de") German segments"
    expect_lines "$name" "$found" "$lines"
    rm -rf -- "$work/raw"
  done <<<"$1"
}

# fetch_all SETS: downloads every archive named in it.
fetch_all() {
  local name archive rest
  # Descriptor 3: commands in the loop must not read the list.
  while read -r name archive rest <&3; do
    [[ -z $name ]] || fetch "$archive"
  done 3<<<"$1"
}

if [[ -d $output/text ]] && ! $fresh; then
  say "Text is already in $output/text (--fresh makes it again)."
else
  check_disk
  mkdir -p "$downloads"
  fetch_all "$CORPORA$TEST_SETS"
  mkdir "$work/text"
  make_sets "$TEST_SETS" "$work/text"
  make_corpora
  put_in_place "$work/text" "$output/text"
  say "Text is in $output/text. The archives in $downloads are no longer needed."
fi
if $extra_tests; then
  if [[ -d $output/extra ]] && ! $fresh; then
    say "newstest2015 and newstest2016 are already in $output/extra (--fresh makes them again)."
  else
    mkdir -p "$downloads"
    fetch_all "$EXTRA_SETS"
    mkdir "$work/extra"
    make_sets "$EXTRA_SETS" "$work/extra"
    put_in_place "$work/extra" "$output/extra"
    say "newstest2015 and newstest2016 are in $output/extra."
  fi
fi
$text_only && exit 0

if [[ -e $output/shards ]] && ! $fresh; then
  say "Shards are already in $output/shards (remove that folder to make them again)."
  exit 0
fi
replace=()
$fresh && replace=(--overwrite)
# The original's filter has already run: Reigen's other rules are switched off, except for the one
# that removes valid and test pairs from train. The limit on pieces is the length to which the original
# cut a sentence; its vocabulary was trained on all pairs with SentencePiece's default coverage.
text=$output/text
"$reigen" prepare --source en --target de \
  --train "$text/europarl-v7.en" "$text/europarl-v7.de" name=europarl-v7 \
  --train "$text/commoncrawl.en" "$text/commoncrawl.de" name=commoncrawl \
  --train "$text/news-commentary-v11.en" "$text/news-commentary-v11.de" name=news-commentary-v11 \
  --valid "$text/newstest2013.en" "$text/newstest2013.de" \
  --test "$text/newstest2014.en" "$text/newstest2014.de" \
  --vocab-size "$vocab_size" --vocab.type=bpe \
  --vocab.sample-pairs=10000000 --vocab.coverage=0.9995 --vocab.byte-fallback=false \
  --clean.max-pieces="$max_pieces" --clean.utf8=false --clean.control=false --clean.max-ratio=0 \
  --clean.copy=false --clean.min-script=0 --clean.duplicate=false \
  --threads "$threads" --output "$output/shards" "${replace[@]}"
say "Shards are in $output/shards. Inspect them:  $reigen inspect $output/shards"

#!/usr/bin/env bash
# Tests recipes/debian-en-de: pairing and splitting on a small index written here, then the whole
# recipe on the real index that apt downloads (once; later runs use the same files).
#
# usage: debian_test.sh [REIGEN]   With the path of the program, shards are made as well.
# REIGEN_TEST_LISTS=DIR stores apt's index files in DIR and uses those that exist.
# Exits with 0 if every check holds, 1 if not, 77 (skipped) if apt cannot reach its archive.
set -euo pipefail
export LC_ALL=C

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
recipe=$repo/recipes/debian-en-de
reigen=${1:-}
tmp=$(mktemp -d)
chmod 755 "$tmp" # apt downloads as user _apt
trap 'rm -rf -- "$tmp"' EXIT
lists=${REIGEN_TEST_LISTS:-$tmp/lists}

# shellcheck source=tests/recipes/checks.sh
source "$repo/tests/recipes/checks.sh"
finish() {
  echo "$checks checks, $failures failed"
  [[ $failures -eq 0 ]] || exit 1
  exit "${1:-0}"
}
# run OUTPUT [ARGUMENT...]: the recipe; sets `status` and writes $tmp/run.log.
run() {
  local output=$1
  shift
  status=0
  "$recipe/run.sh" --output "$output" "$@" >"$tmp/run.log" 2>&1 || status=$?
}
# shellcheck disable=SC2317  # called through holds
said() { grep -qE "$1" "$tmp/run.log"; }

# --- pairing, on a small index ------------------------------------------------------------------
cat >"$tmp/packages" <<'EOF'
Package: alpha
Source: greek (1.0)
Package: beta-12
EOF
cat >"$tmp/english" <<'EOF'
Package: alpha
Description-md5: 1
Description-en: short alpha
 First paragraph over
 two lines.
 .
 List:
  * one item
    that goes on
  * two
 After the list.

Package: beta-12
Description-md5: 2
Description-en: short beta
 One.
 .
 Two.

Package: beta-12
Description-md5: 3
Description-en: another text of beta
 Prose.
 .
  - left
  - right
 .
 End.

Package: alpha
Description-md5: 1
Description-en: short alpha

Package: gamma
Description-md5: 9
Description-en: nobody translated this
EOF
cat >"$tmp/german" <<'EOF'
Package: alpha
Description-md5: 1
Description-de: kurz alpha
 Erster Absatz.
 .
 Liste:
  - ein Punkt
  - zwei
    weiter
 Nach der Liste.

Package: beta-12
Description-md5: 2
Description-de: kurz beta
 Eins und zwei.

Package: beta-12
Description-md5: 3
Description-de: anderer Text von beta
 Prosa.
 .
  - nur einer
 .
 Ende.

Package: omega
Description-md5: 7
Description-de: ohne Gegenstück
EOF
pair() {
  awk -v packages="$tmp/packages" -v german="$1" -v english="$2" -v counts="$tmp/counts" -f "$recipe/pair.awk"
}
cat >"$tmp/expected" <<'EOF'
alpha 1 greek: short alpha = kurz alpha
alpha 2 greek: First paragraph over two lines. = Erster Absatz.
alpha 3 greek: List: = Liste:
alpha 4 greek: one item that goes on = ein Punkt
alpha 5 greek: two = zwei weiter
alpha 6 greek: After the list. = Nach der Liste.
beta-12 1 beta: short beta = kurz beta
beta-12 1 beta: another text of beta = anderer Text von beta
beta-12 2 beta: Prose. = Prosa.
beta-12 3 beta: End. = Ende.
EOF
equal "paragraphs and list items are paired where their number agrees" "$(cat "$tmp/expected")" \
  "$(pair "$tmp/german" "$tmp/english" | awk -F '\t' '{ print $1, $3, $4 ": " $5 " = " $6 }')"
cat >"$tmp/expected" <<'EOF'
entries read, English 5
entries read, German 4
  skipped: without a name, a description or its md5 0
  skipped: the same German entry in a second index 0
  skipped: the same English entry in a second index 1
  skipped: English, not translated into German 1
  skipped: German, its English text is no longer in the index 1
entries paired 3
  long descriptions skipped: different number of paragraphs 1
  paragraphs skipped: not the same list items on both sides 1
  segments skipped: empty on one side 0
segment pairs 10
EOF
equal "and everything else is counted" "$(cat "$tmp/expected")" "$(tr '\t' ' ' <"$tmp/counts")"

# --- splitting: 400 groups with a sentence of their own and one that all share ------------------
awk 'BEGIN {
  for (i = 1; i <= 400; i++) {
    name = ""
    for (n = i; n > 0; n = int(n / 20)) name = name substr("bcdfghjklmnpqrstvwxz", n % 20 + 1, 1)
    printf "%s\t1\t1\t%s\tabout %s\tvon %s\n", name, name, name, name
    printf "%s\t1\t2\t%s\tThis is a shared sentence.\tDas haben alle.\n", name, name
    printf "%s\t1\t3\t%s\tsame\tsame\n", name, name
    printf "%s-2\t2\t1\t%s\tAbout %s 2\tVon %s 2!\n", name, name, name, name
  }
}' >"$tmp/pairs"
mkdir "$tmp/split" "$tmp/again"
awk -v out="$tmp/split" -v share=100 -v counts="$tmp/counts" -f "$recipe/split.awk" "$tmp/pairs" "$tmp/pairs"
sort -r "$tmp/pairs" >"$tmp/reversed"
awk -v out="$tmp/again" -v share=100 -v counts="$tmp/counts2" -f "$recipe/split.awk" "$tmp/reversed" "$tmp/reversed"
count_of() { awk -F '\t' -v what="$1" '$1 == what { print $2 }' "${2:-$tmp/counts}"; }
equal "every pair is in a split or counted" 1600 "$(awk -F '\t' '/^pairs/ { n += $2 } END { print n }' "$tmp/counts")"
holds "a tenth of the groups is held out for test, more or less" \
  test "$(count_of 'pairs in test')" -gt 20 -a "$(count_of 'pairs in test')" -lt 60
equal "a shared sentence is in train alone" "0 0" \
  "$(grep -c shared "$tmp/split/valid.en" || true) $(grep -c shared "$tmp/split/test.en" || true)"
equal "the same text on both sides is left out" 400 \
  "$(count_of 'pairs skipped: the same text on both sides (names, commands, file lists)')"
equal "the order of the input moves no group to another split" \
  "$(sed 's/^[Aa]bout //; s/ 2$//' "$tmp/split/test.en" | sort)" "$(sed 's/^[Aa]bout //; s/ 2$//' "$tmp/again/test.en" | sort)"

# --- errors -------------------------------------------------------------------------------------
run "$tmp/bad" --no-such-option
equal "an unknown argument is an error" 2 "$status"
VOCAB_SIZE=many run "$tmp/bad"
equal "so is a vocabulary size that is not a number" 2 "$status"
mkdir "$tmp/no-lists"
run "$tmp/bad" --text-only --lists "$tmp/no-lists"
equal "lists without translations are an error" 4 "$status"
holds "that names what is missing" said 'no Translation-en index'
holds "and leaves no text" test ! -e "$tmp/bad/text"
# An apt without a network: it warns and exits with 0, as the real one does.
mkdir "$tmp/fake"
printf '#!/bin/sh\necho "Err:1 somewhere InRelease"\necho "  Could not resolve"\nexit 0\n' >"$tmp/fake/apt-get"
cp "$tmp/fake/apt-get" "$tmp/fake/apt-config"
chmod +x "$tmp/fake/apt-get" "$tmp/fake/apt-config"
PATH=$tmp/fake:$PATH run "$tmp/bad" --text-only
equal "an archive that cannot be reached is an error of its own" 4 "$status"
holds "with the message of apt" said 'Could not resolve'
equal "and nothing is left behind" ".lock" "$(ls -A "$tmp/bad")"
mkdir "$tmp/tools"
for tool in bash awk sort mktemp dirname basename mkdir chmod rm cat nproc flock env; do
  path=$(command -v "$tool") && ln -s "$path" "$tmp/tools/$tool"
done
PATH=$tmp/tools run "$tmp/bad" --text-only
equal "a machine without apt is an error" 3 "$status"
if [[ ! -x $repo/build/release/reigen ]] && ! command -v reigen >/dev/null 2>&1; then
  run "$tmp/bad"
  equal "without reigen it stops before downloading" 3 "$status"
  holds "and says how to build it" said 'make build'
fi

# --- the real index -----------------------------------------------------------------------------
state() { find /var/lib/apt/lists /var/cache/apt -printf '%p %s %T@\n' 2>/dev/null | sort | sha256sum; }
before=$(state)
run "$tmp/one" --text-only --lists "$lists"
if [[ $status -eq 4 || $status -eq 3 ]]; then
  cat "$tmp/run.log"
  echo "skipped: apt cannot fetch an English and a German index here"
  finish 77
fi
equal "the recipe succeeds" 0 "$status"
[[ $status -eq 0 ]] || { cat "$tmp/run.log" && finish; }
cat "$tmp/run.log"
equal "the machine's own apt state is untouched" "$before" "$(state)"

text=$tmp/one/text
total=0
for split in train valid test; do
  en=$(wc -l <"$text/$split.en")
  de=$(wc -l <"$text/$split.de")
  equal "$split: as many German lines as English" "$en" "$de"
  equal "$split: no empty lines and no tabs" 0 "$(cat "$text/$split.en" "$text/$split.de" | grep -cE '^ *$|	' || true)"
  total=$((total + en))
  if [[ $split != train ]]; then
    holds "$split: 500 to 2,000 pairs ($en)" test "$en" -ge 500 -a "$en" -le 2000
    equal "$split: no pair twice" "$en" "$(paste "$text/$split.en" "$text/$split.de" | sort -u | wc -l)"
  fi
done
holds "at least 40,000 pairs ($total)" test "$total" -ge 40000
if command -v iconv >/dev/null 2>&1; then
  holds "all of it is UTF-8" bash -c "cat '$text'/*.en '$text'/*.de | iconv -f UTF-8 -t UTF-8"
fi
for side in en de; do
  for pair in "train valid" "train test" "valid test"; do
    read -r a b <<<"$pair"
    equal "no $side line is in both $a and $b" 0 \
      "$(comm -12 <(sort -u "$text/$a.$side") <(sort -u "$text/$b.$side") | wc -l)"
  done
done
equal "every pair of segments is in a split or counted as skipped" \
  "$(count_of 'segment pairs' "$text/counts.tsv")" \
  "$(awk -F '\t' '/^pairs/ { n += $2 } END { print n }' "$text/counts.tsv")"

if [[ -n ${REIGEN_TEST_ALL:-} ]]; then
  run "$tmp/two" --text-only --lists "$lists"
  equal "a second run on the same index succeeds" 0 "$status"
  holds "without downloading" said 'Using the index files in'
  holds "and gives the same bytes" diff -r "$text" "$tmp/two/text"
else # with make test-all only
  mkdir "$tmp/two"
  cp -r "$text" "$tmp/two/text"
fi
run "$tmp/two" --text-only
holds "text that is there is not made again" said 'Text is already in'

# --- shards -------------------------------------------------------------------------------------
# A stub of reigen that records its arguments.
cat >"$tmp/stub" <<'EOF'
#!/usr/bin/env bash
printf '%s\n' "$@" >"${0%/*}/stub.arguments"
for ((i = 1; i <= $#; i++)); do [[ ${!i} != --output ]] || break; done
next=$((i + 1))
mkdir -p "${!next}"
EOF
chmod +x "$tmp/stub"
# shellcheck disable=SC2317  # called through holds
asked() { grep -qxF -e "$1" "$tmp/stub.arguments"; }
VOCAB_SIZE=4000 run "$tmp/two" --reigen "$tmp/stub"
equal "the recipe runs reigen prepare" "0 prepare" "$status $(head -n 1 "$tmp/stub.arguments")"
holds "with files that are there" bash -c "grep -E '[.](en|de)$' '$tmp/stub.arguments' | xargs ls"
holds "and the vocabulary size asked for" asked 4000
rm "$tmp/stub.arguments"
run "$tmp/two" --reigen "$tmp/stub"
holds "shards that are there are not made again" test ! -e "$tmp/stub.arguments"
if [[ -n $reigen ]]; then
  VOCAB_SIZE=1000 run "$tmp/one" --reigen "$reigen"
  equal "reigen makes shards of it" 0 "$status"
  [[ $status -eq 0 ]] || tail -n 20 "$tmp/run.log"
  holds "in their folder" test -d "$tmp/one/shards"
  run "$tmp/one" --reigen "$reigen"
  equal "and not a second time" 0 "$status"
  holds "saying so" said 'Shards are already in'
else
  echo "note: no reigen given, shards not tested"
fi
finish

#!/usr/bin/env bash
# Tests recipes/wmt16-en-de without the internet: its filters on small inputs, then whole runs
# against a server on 127.0.0.1 that serves tiny archives of the real layout and misbehaves on
# demand (cuts a transfer, crawls, cannot resume).
#
# usage: wmt16_test.sh [REIGEN]   With the path of the program, shards are made as well.
# Exits with 0 if every check holds, 77 if there is no python3 for the server, else 1.
set -euo pipefail
export LC_ALL=C

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
recipe=$repo/recipes/wmt16-en-de
reigen=${1:-}
command -v python3 >/dev/null 2>&1 || { echo "skipped: no python3 for the test server" && exit 77; }
tmp=$(mktemp -d)
server_pid=
cleanup() {
  [[ -z $server_pid ]] || kill "$server_pid" 2>/dev/null || true
  rm -rf -- "$tmp"
}
trap cleanup EXIT

# shellcheck source=tests/recipes/checks.sh
source "$repo/tests/recipes/checks.sh"
lacks() {
  local what=$1 status=0
  shift
  ! "$@" >/dev/null 2>&1 || status=1
  ok "$status" "$what"
}

# --- the text of a test set ---------------------------------------------------------------------
cat >"$tmp/set.sgm" <<'EOF'
<srcset setid="newstest2013" srclang="any">
<doc sysid="ref" docid="a" genre="news" origlang="cs">
<hl>
<seg id="1">A Republican strategy</seg>
</hl>
<p>
<seg id="2"> AT&amp;T says &quot;5 &lt; 6&quot; &amp;amp; more,	R&D stays </seg><seg id="3">two in a line</seg>
<SEG ID="4">spans
two lines</SEG>
<seg id="5"></seg>
<segment>not one</segment>
</p>
</doc>
</srcset>
EOF
cat >"$tmp/set.txt" <<'EOF'
A Republican strategy
AT&T says "5 < 6" &amp; more, R&D stays
two in a line
spans two lines

EOF
equal "segments come out as plain text, one a line" "$(cat "$tmp/set.txt")" \
  "$(awk -f "$recipe/sgm.awk" <"$tmp/set.sgm")"
equal "an empty segment keeps its line" 5 "$(awk -f "$recipe/sgm.awk" <"$tmp/set.sgm" | wc -l)"
lacks "a file that ends inside a segment is an error" \
  awk -f "$recipe/sgm.awk" <<<'<seg id="1">cut off'

# --- the filter of the original -----------------------------------------------------------------
words() { awk -v n="$1" -v w="$2" 'BEGIN { for (i = 1; i <= n; i++) printf "%s%s", w, i < n ? " " : "" }'; }
long_word() { awk -v n="$1" -v c="$2" 'BEGIN { for (i = 1; i <= n; i++) printf "%s", c }'; }
nbsp=$(printf '\302\240')
wide=$(printf '\343\200\200')
umlaut=$(printf '\303\274')
{
  echo "kept"
  echo "  white	space${nbsp}is${wide}collapsed  "
  echo ""
  echo "nothing on the other side"
  words 80 a && echo
  words 81 a && echo
  words 9 a && echo
  words 10 a && echo
  echo "a | pipe|is taken out"
  long_word 1000 "$umlaut" && echo
  long_word 1001 "$umlaut" && echo
} >"$tmp/c.en"
{
  echo "behalten"
  echo "gut"
  echo "leer"
  echo " $nbsp "
  words 80 b && echo
  words 80 b && echo
  echo "b"
  echo "b"
  echo "Strich"
  echo "x"
  echo "x"
} >"$tmp/c.de"
awk -v english="$tmp/c.en" -v german="$tmp/c.de" -v out="$tmp/out" -v counts="$tmp/counts" -f "$recipe/clean.awk"
equal "the filter keeps the same pairs as Moses" \
  "$(printf 'kept\nwhite space is collapsed\n%s\n%s\na pipeis taken out\n%s' "$(words 80 a)" "$(words 9 a)" "$(long_word 1000 "$umlaut")")" \
  "$(cat "$tmp/out.en")"
equal "both sides keep the same lines" 6 "$(wc -l <"$tmp/out.de")"
equal "every pair is accounted for" "11 2 1 1 1 6" "$(cut -f 2 "$tmp/counts" | paste -sd ' ')"
head -n 5 "$tmp/c.de" >"$tmp/short.de"
lacks "files of different length are refused (German shorter)" \
  awk -v english="$tmp/c.en" -v german="$tmp/short.de" -v out="$tmp/x" -v counts="$tmp/x" -f "$recipe/clean.awk"
lacks "files of different length are refused (English shorter)" \
  awk -v english="$tmp/short.de" -v german="$tmp/c.de" -v out="$tmp/x" -v counts="$tmp/x" -f "$recipe/clean.awk"

# --- small archives of the real layout, and a server --------------------------------------------
# corpus PREFIX LINES SEED: numbered sentences that differ enough to train a vocabulary on.
corpus() {
  awk -v n="$2" -v seed="$3" -v en="$1.en" -v de="$1.de" 'BEGIN {
    srand(seed)
    ne = split("the house a garden old new president speaks about water report market winter people question answer", e, " ")
    split("das Haus ein Garten alt neu Präsident spricht über Wasser Bericht Markt Winter Leute Frage Antwort", g, " ")
    for (i = 1; i <= n; i++) {
      x = y = ""
      k = 4 + int(rand() * 12)
      for (j = 1; j <= k; j++) { w = 1 + int(rand() * ne); x = x " " e[w]; y = y " " g[w] }
      print substr(x, 2) " " i > en
      print substr(y, 2) " " i > de
    }
  }'
}
sgm() { awk '{ gsub(/&/, "\\&amp;"); print "<seg id=\"" NR "\">" $0 "</seg>" }' "$1"; }
archive() { tar -czf "$www/$1" -C "$tmp/tree" "${@:2}"; }

www=$tmp/www
mkdir -p "$www"/{wmt13,wmt14,wmt15,wmt16/translation-task} "$tmp/tree"/{training,training-parallel-nc-v11,test}
corpus "$tmp/tree/training/europarl-v7.de-en" 600 1
echo "Please rise | , then , for this minute's silence." >>"$tmp/tree/training/europarl-v7.de-en.en"
echo "" >>"$tmp/tree/training/europarl-v7.de-en.de"
corpus "$tmp/tree/commoncrawl.de-en" 300 2
corpus "$tmp/tree/training-parallel-nc-v11/news-commentary-v11.de-en" 100 3
archive wmt13/training-parallel-europarl-v7.tgz training/europarl-v7.de-en.en training/europarl-v7.de-en.de
archive wmt13/training-parallel-commoncrawl.tgz commoncrawl.de-en.en commoncrawl.de-en.de
archive wmt16/translation-task/training-parallel-nc-v11.tgz training-parallel-nc-v11
for year in 2013 2014 2015 2016; do
  corpus "$tmp/n$year" 40 "$year"
  case $year in
    2013) english=newstest2013-src.en german=newstest2013-src.de file=wmt13/test.tgz ;;
    2014) english=newstest2014-deen-src.en german=newstest2014-deen-ref.de file=wmt14/test-filtered.tgz ;;
    2015) english=newstest2015-ende-src.en german=newstest2015-ende-ref.de file=wmt15/test.tgz ;;
    2016) english=newstest2016-ende-src.en german=newstest2016-ende-ref.de file=wmt16/translation-task/test.tgz ;;
  esac
  sgm "$tmp/n$year.en" >"$tmp/tree/test/$english.sgm"
  sgm "$tmp/n$year.de" >"$tmp/tree/test/$german.sgm"
  archive "$file" "test/$english.sgm" "test/$german.sgm"
done

# The first part of a URL's path is the manner: plain, norange, cut (the first answer to a whole
# file stops in the middle), slow.
cat >"$tmp/server.py" <<'EOF'
import http.server, os, sys, time

root, log = sys.argv[1], open(sys.argv[2], "a", buffering=1)
already_cut = set()

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        manner, _, path = self.path.lstrip("/").partition("/")
        wanted, start = self.headers.get("Range"), 0
        name = os.path.join(root, path)
        if not os.path.isfile(name):
            log.write(f"{manner} {path} 404\n")
            return self.send_error(404)
        data = open(name, "rb").read()
        if wanted and manner != "norange":
            start = int(wanted.split("=")[1].split("-")[0])
            if start >= len(data):
                log.write(f"{manner} {path} 416\n")
                return self.send_error(416)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        log.write(f"{manner} {path} {206 if start else 200} from {start}\n")
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        if manner == "cut" and path not in already_cut:
            already_cut.add(path)
            self.wfile.write(data[start:len(data) // 2])
            return
        if manner == "slow" and not start:
            for at in range(0, len(data), 64):
                self.wfile.write(data[at:at + 64])
                self.wfile.flush()
                time.sleep(0.05)
            return
        self.wfile.write(data[start:])

    def log_message(self, *args):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(sys.argv[3] + ".new", "w") as f:
    f.write(str(server.server_address[1]))
os.rename(sys.argv[3] + ".new", sys.argv[3])
server.serve_forever()
EOF
log=$tmp/server.log
: >"$log"
python3 "$tmp/server.py" "$www" "$log" "$tmp/port" 2>"$tmp/server.err" &
server_pid=$!
for _ in $(seq 100); do
  [[ ! -f $tmp/port ]] || break
  sleep 0.1
done
port=$(cat "$tmp/port")

export WMT_RETRY_SECONDS=0 WMT_NEED_MB=10 WMT_CHECKSUMS=$tmp/no-checksums
# run NAME MANNER [ARGUMENT...]: the recipe into $tmp/NAME; sets `status` and writes $tmp/NAME.log.
run() {
  local name=$1 manner=$2
  shift 2
  status=0
  WMT_BASE_URL=http://127.0.0.1:$port/$manner "$recipe/run.sh" --output "$tmp/$name" "$@" >"$tmp/$name.log" 2>&1 || status=$?
}
said() { grep -qE "$2" "$tmp/$1.log"; }

# --- whole runs ---------------------------------------------------------------------------------
run first plain --text-only
equal "a run from nothing succeeds" 0 "$status"
equal "the text is the cleaned corpora and the test sets" \
  "commoncrawl.de commoncrawl.en counts.tsv europarl-v7.de europarl-v7.en news-commentary-v11.de news-commentary-v11.en newstest2013.de newstest2013.en newstest2014.de newstest2014.en" \
  "$(cd "$tmp/first/text" && printf '%s\n' * | paste -sd ' ')"
equal "the filter ran on it" 600 "$(wc -l <"$tmp/first/text/europarl-v7.de")"
holds "the valid set is the text that went in" cmp "$tmp/n2013.en" "$tmp/first/text/newstest2013.en"
holds "the test set is the text that went in" cmp "$tmp/n2014.de" "$tmp/first/text/newstest2014.de"
holds "a total that is not the original's is pointed out" said first 'warning: 1000 training pairs; the original runs had 4524868'
holds "an unpublished checksum is recorded with a message" said first 'No checksum is published for wmt13/test.tgz'
holds "the record is one that sha256sum can check" \
  bash -c "cd '$tmp/first/download' && sha256sum --quiet -c recorded.sha256"
equal "nothing is left behind" ".lock download text" "$(cd "$tmp/first" && printf '%s\n' .[!.]* * | paste -sd ' ')"

before=$(wc -l <"$log")
run first plain --text-only
equal "a second run succeeds" 0 "$status"
equal "and asks the server for nothing" "$before" "$(wc -l <"$log")"
run first plain --text-only --fresh
equal "--fresh makes the text again from the archives that are there" "0 $before" "$status $(wc -l <"$log")"
holds "whose sums are checked again" said first 'Checksum verified: wmt13/test.tgz'
run first plain --text-only --extra-tests
equal "newstest2015 and 2016 are made with --extra-tests" "0 40 40" \
  "$status $(wc -l <"$tmp/first/extra/newstest2015.en") $(wc -l <"$tmp/first/extra/newstest2016.de")"

# --- checksums ----------------------------------------------------------------------------------
WMT_CHECKSUMS=$recipe run published plain --text-only
equal "a file that is not the published one is refused" 5 "$status"
holds "with both sums in the message" said published 'SHA-256 [0-9a-f]{64}, published 0224c7c710c8'
lacks "and no text is made" test -e "$tmp/published/text"
holds "the file is set aside" test -f "$tmp/published/download/wmt13/training-parallel-europarl-v7.tgz.bad"

mkdir "$tmp/sums"
(cd "$www" && sha256sum wmt13/training-parallel-europarl-v7.tgz >"$tmp/sums/checksums.sha256" && md5sum wmt13/test.tgz >"$tmp/sums/checksums.md5")
WMT_CHECKSUMS=$tmp/sums run published plain --text-only
equal "after which a right one is accepted" 0 "$status"
sed -i 's/^./x/' "$tmp/sums/checksums.md5"
WMT_CHECKSUMS=$tmp/sums run published plain --text-only --fresh
equal "a wrong MD5 is refused too" 5 "$status"
holds "and the text of before is still whole" test -f "$tmp/published/text/counts.tsv"

echo x >>"$tmp/first/download/wmt14/test-filtered.tgz"
run first plain --text-only --fresh
equal "an archive that changed since its first download is refused" 5 "$status"
holds "with a message that says so" said first 'at the first download'
run first plain --text-only --fresh
equal "and downloaded again the next time" 0 "$status"

mkdir -p "$tmp/page/download/wmt13"
echo '<html>Please sign in to this network.</html>' >"$tmp/page/download/wmt13/training-parallel-europarl-v7.tgz"
run page plain --text-only
equal "a file that is not an archive is never recorded as valid" 5 "$status"
lacks "indeed not" test -s "$tmp/page/download/recorded.sha256"

# --- interrupted downloads ----------------------------------------------------------------------
big=wmt13/training-parallel-europarl-v7.tgz
half=$(($(wc -c <"$www/$big") / 2))
half_there() { mkdir -p "$tmp/$1/download/wmt13" && head -c "$half" "$www/$big" >"$tmp/$1/download/$big.part"; }
half_there resumed
run resumed plain --text-only
equal "a partial download is resumed" 0 "$status"
holds "by asking for the rest alone" grep -q "plain $big 206 from $half" "$log"
holds "and arrives whole" cmp "$www/$big" "$tmp/resumed/download/$big"

run cut cut --text-only
equal "a broken connection is resumed in the same run" 0 "$status"
holds "from the middle" grep -q "cut $big 206 from $half" "$log"

half_there norange
run norange norange --text-only
equal "a server that cannot resume is asked for the whole file" 0 "$status"
holds "which arrives whole" cmp "$www/$big" "$tmp/norange/download/$big"

mkdir -p "$tmp/stale/download/wmt13"
{ cat "$www/$big" && echo more; } >"$tmp/stale/download/$big.part"
run stale plain --text-only
equal "a partial download longer than the file is discarded" 0 "$status"
holds "and fetched again" cmp "$www/$big" "$tmp/stale/download/$big"

# Bash ignores SIGINT in background jobs; python gives it back.
python3 - "$recipe/run.sh" "$tmp/stopped" "http://127.0.0.1:$port/slow" "$tmp/stopped.log" <<'EOF' &
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.setsid()
os.environ["WMT_BASE_URL"] = sys.argv[3]
out = os.open(sys.argv[4], os.O_WRONLY | os.O_CREAT)
os.dup2(out, 1)
os.dup2(out, 2)
os.execv(sys.argv[1], [sys.argv[1], "--output", sys.argv[2], "--text-only"])
EOF
run_pid=$!
for _ in $(seq 100); do
  [[ ! -s $tmp/stopped/download/$big.part ]] || break
  sleep 0.1
done
kill -INT -- "-$run_pid"
status=0
wait "$run_pid" || status=$?
equal "Ctrl-C ends the run" 130 "$status"
holds "with a message on how to resume" said stopped 'run the same command again'
holds "the partial download stays" test -s "$tmp/stopped/download/$big.part"
equal "and leaves nothing else" ".lock download" "$(cd "$tmp/stopped" && printf '%s\n' .[!.]* * | paste -sd ' ')"
run stopped plain --text-only
equal "the next run finishes the work" 0 "$status"
holds "without starting over" said stopped "Resuming $big"

# --- other errors ------------------------------------------------------------------------------
mv "$www/wmt14/test-filtered.tgz" "$tmp/away.tgz"
run gone plain --text-only
equal "a file the server does not have ends the run" 4 "$status"
equal "after one request" 1 "$(grep -c '^plain wmt14/test-filtered.tgz 404' "$log")"
lacks "without text" test -e "$tmp/gone/text"
mv "$tmp/away.tgz" "$www/wmt14/test-filtered.tgz"

status=0
WMT_BASE_URL=http://127.0.0.1:1 WMT_RETRIES=2 "$recipe/run.sh" --output "$tmp/down" --text-only >"$tmp/down.log" 2>&1 || status=$?
equal "a server that is down ends the run after the retries" 4 "$status"
holds "with the number of attempts" said down '2 attempts in a row'

head -n 599 "$tmp/tree/training/europarl-v7.de-en.de" >"$tmp/less"
cp "$tmp/less" "$tmp/tree/training/europarl-v7.de-en.de"
mkdir "$tmp/kept" && cp "$www/$big" "$tmp/kept/"
archive "$big" training/europarl-v7.de-en.en training/europarl-v7.de-en.de
run misaligned plain --text-only
equal "a corpus whose sides differ in length is an error" 1 "$status"
lacks "and makes no text" test -e "$tmp/misaligned/text"
archive "$big" training/europarl-v7.de-en.en
run incomplete plain --text-only
equal "an archive without the file is an error" 1 "$status"
holds "that names it" said incomplete 'lacks a file, or cannot be unpacked: .*europarl-v7.de-en.de'
cp "$tmp/kept/$(basename "$big")" "$www/$big"

WMT_NEED_MB=999999999 run full plain --text-only
equal "too little free disk is found before any download" "6" "$status"
lacks "indeed before" test -e "$tmp/full/download/wmt13"

# tools_without FOLDER PROGRAM...: every program of this machine but those.
tools_without() {
  local folder=$1 file dirs dir
  shift
  mkdir -p "$folder"
  IFS=: read -r -a dirs <<<"$PATH"
  for dir in "${dirs[@]}"; do
    for file in "$dir"/*; do
      [[ ! -x $file || -e $folder/${file##*/} ]] || ln -s "$file" "$folder/${file##*/}"
    done
  done
  for file in "$@"; do rm -f "$folder/$file"; done
}
tools_without "$tmp/no-net" curl wget
PATH=$tmp/no-net run tools plain --text-only
equal "without curl and wget it stops" "3" "$status"
tools_without "$tmp/no-tar" tar sha256sum
PATH=$tmp/no-tar run tools plain --text-only
equal "without tar and sha256sum it stops" "3" "$status"
holds "naming both" said tools 'not installed: tar sha256sum'
if command -v wget >/dev/null 2>&1 && command -v curl >/dev/null 2>&1; then
  tools_without "$tmp/no-curl" curl
  half_there wget
  PATH=$tmp/no-curl run wget plain --text-only
  equal "wget works too, and resumes" "0" "$status"
  holds "to the same bytes" cmp "$www/$big" "$tmp/wget/download/$big"
  mkdir -p "$tmp/wget2/download/wmt13"
  { cat "$www/$big" && echo more; } >"$tmp/wget2/download/$big.part"
  PATH=$tmp/no-curl run wget2 plain --text-only
  equal "and does not accept a partial download that is too long" 0 "$status"
fi
run usage plain --no-such-option
equal "an unknown argument is an error" 2 "$status"
VOCAB_SIZE=many run usage plain --text-only
equal "so is a setting that is not a number" 2 "$status"
tools_without "$tmp/no-reigen" reigen
if [[ ! -x $repo/build/release/reigen ]]; then
  PATH=$tmp/no-reigen run unbuilt plain
  equal "without reigen it stops before downloading" "3" "$status"
  holds "and says how to build it" said unbuilt 'make build'
fi

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
asked() { grep -qxF -e "$1" "$tmp/stub.arguments"; }
run stubbed plain --reigen "$tmp/stub"
equal "the recipe runs reigen prepare" "0 prepare" "$status $(head -n 1 "$tmp/stub.arguments")"
equal "with the three corpora by name" "name=europarl-v7 name=commoncrawl name=news-commentary-v11" \
  "$(grep '^name=' "$tmp/stub.arguments" | paste -sd ' ')"
holds "with files that are there" bash -c "grep -E '[.](en|de)$' '$tmp/stub.arguments' | xargs ls"
holds "with the original's length limit" asked --clean.max-pieces=54
holds "and its vocabulary size" asked 32768
rm "$tmp/stub.arguments"
run stubbed plain --reigen "$tmp/stub"
holds "shards that are there are not made again" test ! -e "$tmp/stub.arguments"
run stubbed plain --reigen "$tmp/stub" --fresh
holds "unless --fresh replaces them" asked --overwrite
if [[ -n $reigen ]]; then
  VOCAB_SIZE=120 THREADS=2 run shards plain --reigen "$reigen"
  equal "reigen makes shards of it" 0 "$status"
  [[ $status -eq 0 ]] || tail -n 20 "$tmp/shards.log"
  holds "in their folder" test -d "$tmp/shards/shards"
  VOCAB_SIZE=120 run shards plain --reigen "$reigen"
  equal "and not a second time" 0 "$status"
  holds "saying so" said shards 'Shards are already in'
else
  echo "note: no reigen given, shards not tested"
fi

echo "$checks checks, $failures failed"
[[ $failures -eq 0 ]]

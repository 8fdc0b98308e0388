# The filter of the original runs, `clean-corpus-n.perl CORPUS en de OUT 1 80` of Moses, for two
# line-aligned files: the same 4,524,868 pairs remain.
#
# Variables: english, german (input files), out (prefix: writes OUT.en and OUT.de), counts (a file).
# Works on bytes (run it in the C locale): Moses counts characters only for its 1,000-character
# limit on a word, which is counted here without UTF-8's continuation bytes.
#
# The script removes "|" from every line, since Moses separates factors with it (unless the very
# first line of the corpus has one; the first line of Europarl does not), turns each run of white
# space, Unicode's included, into one space, and drops a pair when a side is empty or has more than
# 80 words, when one side has more than 9 times the words of the other, or when a word has more than
# 1,000 characters.

# Perl's \s beyond ASCII: U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029,
# U+202F, U+205F, U+3000. Few lines have a byte of them, and the test for that is cheap.
function tidy(text) {
  gsub(/\|/, "", text)
  if (text ~ /[\302\341\342\343]/) {
    gsub(/\302[\205\240]|\341\232\200|\342\201\237|\343\200\200/, " ", text)
    gsub(/\342\200[\200-\212\250\251\257]/, " ", text)
  }
  gsub(/[ \t\r\f\v]+/, " ", text)
  sub(/^ /, "", text)
  sub(/ $/, "", text)
  return text
}

# Whether a word has more than 1,000 characters.
function has_giant(text,    words, n, i, word) {
  if (length(text) <= 1000) return 0
  n = split(text, words, " ")
  for (i = 1; i <= n; i++) {
    word = words[i]
    if (length(word) <= 1000) continue
    gsub(/[\200-\277]/, "", word)
    if (length(word) > 1000) return 1
  }
  return 0
}

function fail(message) {
  print "error: " message > "/dev/stderr"
  failed = 1
  exit 1
}

BEGIN {
  printf "" > (out ".en")
  printf "" > (out ".de")
  while ((more = (getline e < english)) > 0) {
    read++
    if ((getline g < german) <= 0) fail(german " has only " read - 1 " lines, fewer than " english)
    e = tidy(e)
    g = tidy(g)
    if (e == "" || g == "") { empty++; continue }
    ne = split(e, words, " ")
    ng = split(g, words, " ")
    if (ne > 80 || ng > 80) { long++; continue }
    if (ne > 9 * ng || ng > 9 * ne) { ratio++; continue }
    if (has_giant(e) || has_giant(g)) { giant++; continue }
    kept++
    print e > (out ".en")
    print g > (out ".de")
  }
  if (more < 0) fail("cannot read " english)
  if ((getline g < german) > 0) fail(english " has only " read " lines, fewer than " german)

  printf "pairs read\t%d\n", read > counts
  printf "  dropped: a side is empty\t%d\n", empty > counts
  printf "  dropped: more than 80 words on a side\t%d\n", long > counts
  printf "  dropped: 9 times the words of the other side\t%d\n", ratio > counts
  printf "  dropped: a word of more than 1,000 characters\t%d\n", giant > counts
  printf "pairs kept\t%d\n", kept > counts
  exit
}

END { if (failed) exit 1 }

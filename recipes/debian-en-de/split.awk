# Splits the pairs of pair.awk into train, valid and test.
#
# Reads the sorted pairs twice (name the file twice) and writes $out/{train,valid,test}.{en,de} and
# the counts to the file named by `counts`. A group (a source package without its digits) goes to a
# split by a hash of its name alone, so that other packages and the order do not matter and a newer
# index does not move old packages. `share` is the share of the groups, in thousandths, of valid and
# of test.
#
# Many packages share a sentence ("This package contains the documentation."). Shared sentences stay
# in train: valid and test take only those that a single group has, on both sides, ignoring case,
# digits and punctuation. So no package and no sentence is in two splits.

BEGIN {
  FS = "\t"
  for (i = 1; i < 256; i++) Code[sprintf("%c", i)] = i
  split("train valid test", Names, " ")
  # Written even if empty: every split has its files.
  for (i = 1; i <= 3; i++) {
    printf "" > (out "/" Names[i] ".en")
    printf "" > (out "/" Names[i] ".de")
  }
}

# 8,388,593 is the largest prime below 2^23: products stay exact in a double. The squares at the end
# keep names that differ in one letter from following one another.
function hash(text,    i, n, h) {
  h = 5381
  n = length(text)
  for (i = 1; i <= n; i++) h = (h * 69069 + Code[substr(text, i, 1)]) % 8388593
  for (i = 1; i <= 3; i++) h = (h * h + 12345 + i) % 8388593
  return h
}

function split_of(group,    bucket) {
  if (!(group in SplitOf)) {
    bucket = hash(group) % 1000
    SplitOf[group] = bucket < share ? "test" : bucket < 2 * share ? "valid" : "train"
  }
  return SplitOf[group]
}

function bare(text) {
  text = tolower(text)
  gsub(/[^a-z\200-\377]+/, " ", text)
  sub(/^ /, "", text)
  sub(/ $/, "", text)
  return text
}

function note(owner, text, group) {
  text = bare(text)
  if (!(text in owner)) owner[text] = group
  else if (owner[text] != group) owner[text] = "*"
}

$5 == $6 {
  if (NR != FNR) untranslated++
  next
}

NR == FNR {
  note(OwnerE, $5, $4)
  note(OwnerG, $6, $4)
  next
}

{
  name = split_of($4)
  if (name != "train") {
    if (OwnerE[bare($5)] == "*" || OwnerG[bare($6)] == "*") { shared++; next }
    # A repetition inside the group, in any wording of the other side, would count twice.
    if (bare($5) in Taken || bare($6) in Taken) { repeated++; next }
    Taken[bare($5)] = Taken[bare($6)] = 1
  }
  pairs[name]++
  Groups[name, $4] = 1
  print $5 > (out "/" name ".en")
  print $6 > (out "/" name ".de")
}

END {
  for (key in Groups) {
    split(key, part, SUBSEP)
    groups[part[1]]++
  }
  count("pairs skipped: the same text on both sides (names, commands, file lists)", untranslated)
  count("pairs skipped: sentence of a held-out package, also in other packages", shared)
  count("pairs skipped: sentence repeated within a held-out package", repeated)
  for (i = 1; i <= 3; i++) {
    count("pairs in " Names[i], pairs[Names[i]])
    count("  number of package groups", groups[Names[i]])
  }
}

function count(what, number) { printf "%s\t%d\n", what, number > counts }

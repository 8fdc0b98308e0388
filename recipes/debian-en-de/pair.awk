# Pairs English and German package descriptions and splits them into aligned segments.
#
# Input: three files (or streams) named by the variables `packages`, `german` and
# `english`, in Debian's control format. Output: one line per pair, tab-separated:
#
#     package  md5  number-of-the-segment  group  english  german
#
# `group` is the source package's name without its digits, so that gcc-11 and gcc-12 share one and
# are in the same split. Every entry and every segment that is left out is counted, in the file
# named by `counts`. Only the structure decides: a segment is printed if both sides have the same
# shape, whatever its text.
#
# Runs under mawk, gawk and busybox awk in the C locale, where a character is a byte: text is only
# ever compared, cut at ASCII characters and joined.

# A line of a long description starts with one space; " ." ends a paragraph. What follows that space
# is prose when it starts at once, an item when it starts with a bullet, and otherwise belongs to
# the item above it or is set off (an example, a table). Blocks are numbered from 1 in `Text`, and
# `Shape` writes their structure down: "p" prose, "i" item, "s" set off, "." end of paragraph.
function parse(body,    lines, n, i, line, indented, kind, inside, bullet_indented) {
  delete Text
  Shape = ""
  Blocks = 0
  inside = ""
  n = split(body, lines, "\n")
  for (i = 1; i <= n; i++) {
    line = lines[i]
    if (line == ".") {
      if (inside != "") Shape = Shape "."
      inside = ""
      continue
    }
    indented = (line ~ /^[ \t]/)
    if (is_item(line)) {
      kind = "i"
      bullet_indented = indented
      sub(/^[ \t]*[^ \t]+[ \t]+/, "", line)
    } else if (inside == "i" && (indented || !bullet_indented)) {
      kind = "+"
    } else {
      kind = indented ? "s" : "p"
      if (kind == inside) kind = "+"
    }
    if (kind == "+") {
      Text[Blocks] = Text[Blocks] " " line
    } else {
      Text[++Blocks] = line
      Shape = Shape kind
      inside = kind
    }
  }
  sub(/\.+$/, "", Shape)
  for (i = 1; i <= Blocks; i++) Text[i] = tidy(Text[i])
}

# Bullets in use: * - + o, the bullet and the middle dot, en dash, "1." and "1)". Those that could
# begin a wrapped line of prose count only when indented.
function is_item(line) {
  if (line ~ /^[ \t]*([*-]|\342\200\242|\302\267)[ \t]+[^ \t]/) return 1
  return line ~ /^[ \t]+([+o]|\342\200\223|[0-9]+[.)])[ \t]+[^ \t]/
}

function tidy(text) {
  gsub(/[ \t\r\f\v]+/, " ", text)
  sub(/^ /, "", text)
  sub(/ $/, "", text)
  return text
}

# Reads one stanza's fields into Package, Md5, Short and Long; returns 0 at the end of the file.
function next_entry(file, field,    line, more, found) {
  Package = Md5 = Short = Long = ""
  found = 0
  more = 0
  while ((getline line < file) > 0) {
    if (line == "") {
      if (found) return 1
      continue
    }
    found = 1
    if (line ~ /^[ \t]/) {
      if (more) Long = Long (Long == "" ? "" : "\n") substr(line, 2)
      continue
    }
    more = 0
    if (index(line, "Package: ") == 1) Package = substr(line, 10)
    else if (index(line, "Description-md5: ") == 1) Md5 = substr(line, 18)
    else if (index(line, field ": ") == 1) {
      Short = tidy(substr(line, length(field) + 3))
      more = 1
    }
  }
  return found
}

function group_of(package,    group) {
  group = (package in Source) ? Source[package] : package
  gsub(/[0-9.]+/, "", group)
  gsub(/-+$/, "", group)
  return group
}

function emit(english_text, german_text) {
  if (english_text == "" || german_text == "") { empty++; return }
  pairs++
  printf "%s\t%s\t%d\t%s\t%s\t%s\n", Package, Md5, ++segment, Group, english_text, german_text
}

# The shapes differ: if the paragraphs do agree in number, take those that agree in themselves.
function emit_by_paragraph(    e, g, n, i, k, at_e, at_g, len_e, len_g) {
  n = split(ShapeE, e, ".")
  if (split(ShapeG, g, ".") != n) {
    paragraphs_differ++
    return
  }
  at_e = at_g = 0
  for (i = 1; i <= n; i++) {
    len_e = length(e[i])
    len_g = length(g[i])
    if (e[i] == g[i]) {
      for (k = 1; k <= len_e; k++) emit(TextE[at_e + k], Text[at_g + k])
    } else {
      items_differ++
    }
    at_e += len_e
    at_g += len_g
  }
}

BEGIN {
  while (next_source_line()) continue

  while (next_entry(german, "Description-de")) {
    german_read++
    if (Package == "" || Md5 == "" || Short == "") { german_bad++; continue }
    key = Package SUBSEP Md5
    if (key in GermanShort) { german_repeated++; continue }
    GermanShort[key] = Short
    GermanLong[key] = Long
  }

  while (next_entry(english, "Description-en")) {
    english_read++
    key = Package SUBSEP Md5
    if (key in Seen) { english_repeated++; continue }
    Seen[key] = 1
    if (!(key in GermanShort)) { english_alone++; continue }
    if (Short == "") { english_bad++; continue }
    paired++
    segment = 0
    Group = group_of(Package)
    emit(Short, GermanShort[key])
    parse(Long)
    ShapeE = Shape
    delete TextE
    for (i = 1; i <= Blocks; i++) TextE[i] = Text[i]
    blocks = Blocks
    parse(GermanLong[key])
    ShapeG = Shape
    if (ShapeE == ShapeG) {
      for (i = 1; i <= blocks; i++) emit(TextE[i], Text[i])
    } else {
      emit_by_paragraph()
    }
  }
  for (key in GermanShort) if (!(key in Seen)) german_alone++

  count("entries read, English", english_read)
  count("entries read, German", german_read)
  count("  skipped: without a name, a description or its md5", german_bad + english_bad)
  count("  skipped: the same German entry in a second index", german_repeated)
  count("  skipped: the same English entry in a second index", english_repeated)
  count("  skipped: English, not translated into German", english_alone)
  count("  skipped: German, its English text is no longer in the index", german_alone)
  count("entries paired", paired)
  count("  long descriptions skipped: different number of paragraphs", paragraphs_differ)
  count("  paragraphs skipped: not the same list items on both sides", items_differ)
  count("  segments skipped: empty on one side", empty)
  count("segment pairs", pairs)
}

function count(what, number) { printf "%s\t%d\n", what, number > counts }

# Package and Source lines only: the index has 60 other fields and is four times as large as both
# translations together.
function next_source_line(    line, name) {
  while ((getline line < packages) > 0) {
    if (index(line, "Package: ") == 1) {
      name = substr(line, 10)
      if (!(name in Source)) Source[name] = name
    } else if (index(line, "Source: ") == 1) {
      line = substr(line, 9)
      sub(/ .*/, "", line)
      Source[name] = line
    }
  }
  return 0
}

# Text of a WMT test set: one line for every <seg> of an .sgm file, read from standard input.
#
# The files are not valid SGML (they contain a bare "&"), so this looks only for <seg ...> and </seg>.
# A segment may span lines, and a line may contain several. White space is collapsed as
# sacreBLEU does it. Of the entities, the four that sacreBLEU's 13a tokenizer resolves are resolved
# (&quot; &lt; &gt; &amp;), so BLEU against this text is BLEU against sacreBLEU's.

# Appends one input line to the open segment, printing each segment that ends in it.
function take(text,    at) {
  while (text != "") {
    if (!inside) {
      if (!match(text, /<[sS][eE][gG]([ \t][^>]*)?>/)) return
      text = substr(text, RSTART + RLENGTH)
      inside = 1
      segment = ""
    }
    if (match(text, /<\/[sS][eE][gG][ \t]*>/)) {
      print plain(segment " " substr(text, 1, RSTART - 1))
      text = substr(text, RSTART + RLENGTH)
      inside = 0
    } else {
      segment = segment " " text
      return
    }
  }
}

function plain(text) {
  gsub(/[ \t\r\f\v]+/, " ", text)
  sub(/^ /, "", text)
  sub(/ $/, "", text)
  gsub(/&quot;/, "\"", text)
  gsub(/&lt;/, "<", text)
  gsub(/&gt;/, ">", text)
  gsub(/&amp;/, "\\&", text)
  return text
}

{ take($0) }

END {
  if (inside) {
    print "error: the file ends inside a <seg>" > "/dev/stderr"
    exit 1
  }
}

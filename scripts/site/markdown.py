"""The Markdown of this repository's documents as HTML: headings, paragraphs, lists, tables, code, links, comments.

Only the part of Markdown that the documents use. Text that is not understood is shown as it is.
"""

import html
import re

INLINE = re.compile(r"(?P<code>`+)(?P<in_code>.+?)(?P=code)"
                    r"|\[(?P<text>(?:[^\[\]]|\[[^\]]*\]|`[^`]*`)*)\]\((?P<target>[^()\s]+)\)"
                    r"|!\[(?P<alt>[^\]]*)\]\((?P<image>[^()\s]+)\)"
                    r"|\*\*(?P<strong>.+?)\*\*(?!\*)|(?<![\w*])\*(?P<em>[^*\s](?:[^*]*[^*\s])?)\*(?![\w*])"
                    r"|<(?P<auto>https?://[^>\s]+)>", re.S)
BULLET = re.compile(r"( *)(?:[-*]|(\d+)\.) +(.*)")
FENCE = re.compile(r"( *)```(\w*)\s*$")


def plain(text):
    """Inline Markdown as text, for headings and the search."""
    text = re.sub(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^()]*\)", r"\1", text)
    return re.sub(r"`+|\*\*|(?<!\w)\*(?=\S)|(?<=\S)\*(?!\w)", "", text)


def slug(heading):
    """The anchor of a heading, as forges make it."""
    return re.sub(r"[^\w\- ]", "", plain(heading).lower()).replace(" ", "-")


def inline(text, link):
    parts, at = [], 0
    for match in INLINE.finditer(text):
        parts.append(html.escape(text[at:match.start()], quote=False))
        at = match.end()
        if match["code"]:
            parts.append(f"<code>{html.escape(match['in_code'].strip(), quote=False)}</code>")
        elif match["image"]:
            parts.append(f'<img src="{html.escape(link(match["image"]))}" alt="{html.escape(match["alt"])}">')
        elif match["target"]:
            parts.append(f'<a href="{html.escape(link(match["target"]))}">{inline(match["text"], link)}</a>')
        elif match["strong"]:
            parts.append(f"<strong>{inline(match['strong'], link)}</strong>")
        elif match["em"]:
            parts.append(f"<em>{inline(match['em'], link)}</em>")
        else:
            parts.append(f'<a href="{html.escape(match["auto"])}">{html.escape(match["auto"])}</a>')
    return "".join(parts) + html.escape(text[at:], quote=False)


def cells(row):
    """The cells of a row: a bar in code or behind a backslash does not end one."""
    row = re.sub(r"`[^`]*`", lambda m: m[0].replace("|", "\0"), row.strip().strip("|").replace(r"\|", "\0"))
    return [cell.strip().replace("\0", "|") for cell in row.split("|")]


def code_block(lines, language):
    kind = f' class="language-{language}"' if language else ""
    return f"<pre><code{kind}>{html.escape(chr(10).join(lines), quote=False)}</code></pre>"


class Page:
    """`Page(text, link)`: html, title, and sections (heading, anchor, plain text) for the search."""

    def __init__(self, text, link=lambda target: target):
        self.link = link
        self.title = ""
        self.headings = []  # (level, text, anchor)
        self.sections = []  # [heading, anchor, text]
        self.html = "\n".join(self.blocks(text.splitlines()))

    def note(self, text):
        if self.sections:
            self.sections[-1][2] += plain(text) + " "

    def blocks(self, lines):
        out, at = [], 0
        while at < len(lines):
            line = lines[at]
            if not line.strip():
                at += 1
            elif line.startswith("<!--"):
                while "-->" not in lines[at]:
                    at += 1
                at += 1
            elif match := FENCE.match(line):
                end = next((i for i in range(at + 1, len(lines)) if lines[i].strip() == "```"), len(lines))
                body = [one[len(match[1]):] for one in lines[at + 1:end]]
                out.append(code_block(body, match[2]))
                self.note(" ".join(body))
                at = end + 1
            elif match := re.match(r"(#{1,6}) (.*)", line):
                out.append(self.heading(len(match[1]), match[2]))
                at += 1
            elif line.startswith("    "):
                end = at
                while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                    end += 1
                body = [one[4:] for one in lines[at:end]]
                while not body[-1].strip():
                    body.pop()
                out.append(code_block(body, ""))
                self.note(" ".join(body))
                at = end
            elif line.lstrip().startswith("|") and at + 1 < len(lines) and re.fullmatch(r"[ |:-]+", lines[at + 1].strip()):
                end = at
                while end < len(lines) and lines[end].lstrip().startswith("|"):
                    end += 1
                out.append(self.table(lines[at:end]))
                at = end
            elif BULLET.match(line):
                end = self.end_of_list(lines, at)
                out.append(self.list(lines[at:end]))
                at = end
            elif line.startswith(">"):
                end = at
                while end < len(lines) and lines[end].startswith(">"):
                    end += 1
                out.append("<blockquote>" + "\n".join(self.blocks([one[1:].removeprefix(" ") for one in lines[at:end]])) + "</blockquote>")
                at = end
            else:
                end = at + 1
                while end < len(lines) and self.continues(lines[end]):
                    end += 1
                text = "\n".join(one.strip() for one in lines[at:end])
                self.note(text)
                out.append(f"<p>{inline(text, self.link)}</p>")
                at = end
        return out

    @staticmethod
    def continues(line):
        """Whether a line belongs to the paragraph above it."""
        return bool(line.strip()) and not (line.startswith(("#", "<!--", ">", "|")) or FENCE.match(line) or BULLET.match(line))

    @staticmethod
    def end_of_list(lines, at):
        indent = len(BULLET.match(lines[at])[1])
        end = at + 1
        while end < len(lines):
            line = lines[end]
            if not line.strip():
                following = lines[end + 1] if end + 1 < len(lines) else ""
                deeper = len(following) - len(following.lstrip()) > indent
                if not (deeper or (BULLET.match(following) and len(BULLET.match(following)[1]) == indent)):
                    break
            elif not line.startswith(" " * (indent + 1)) and not BULLET.match(line) and not Page.continues(line):
                break
            end += 1
        return end

    def list(self, lines):
        first = BULLET.match(lines[0])
        indent, kind = len(first[1]), "ol" if first[2] else "ul"
        items, at = [], 0
        while at < len(lines):
            match = BULLET.match(lines[at])
            width = len(lines[at]) - len(match[3])
            body = [match[3]]
            at += 1
            while at < len(lines) and not ((m := BULLET.match(lines[at])) and len(m[1]) == indent):
                own = len(lines[at]) - len(lines[at].lstrip())
                body.append(lines[at][min(own, width):])
                at += 1
            blocks = self.blocks(body)
            tight = len(blocks) >= 1 and blocks[0].startswith("<p>") and "" not in [one.strip() for one in body[:-1]]
            if tight:
                blocks[0] = blocks[0].removeprefix("<p>").removesuffix("</p>")
            items.append("<li>" + "\n".join(blocks) + "</li>")
        return f"<{kind}>" + "\n".join(items) + f"</{kind}>"

    def heading(self, level, text):
        anchor, name = slug(text), plain(text)
        while any(anchor == other for _, _, other in self.headings):
            anchor += "-1"
        self.headings.append((level, name, anchor))
        self.sections.append([name, anchor, ""])
        self.title = self.title or name
        return f'<h{level} id="{anchor}">{inline(text, self.link)}<a class="anchor" href="#{anchor}" aria-label="link to this section">#</a></h{level}>'

    def table(self, lines):
        head, body = cells(lines[0]), [cells(line) for line in lines[2:]]
        numeric = [bool(body) and all(re.fullmatch(r"[-+~]?[\d.,]*\d[\d.,]*[%x]?|", row[i] if i < len(row) else "") for row in body) and
                   any(i < len(row) and row[i] for row in body) for i in range(len(head))]
        self.note(" ".join(" ".join(row) for row in [head, *body]))

        def row_of(tag, texts):
            return "<tr>" + "".join(f'<{tag}{" class=number" if i < len(numeric) and numeric[i] else ""}>{inline(text, self.link)}</{tag}>'
                                    for i, text in enumerate(texts)) + "</tr>"
        heads = f"<thead>{row_of('th', head)}</thead>" if any(head) else ""
        return f'<div class="table"><table>{heads}<tbody>{"".join(row_of("td", row) for row in body)}</tbody></table></div>'

#!/usr/bin/env python3
"""Writes the documents as a static site: build.py OUTPUT

The pages are the Markdown files of the repository; links between them become links between pages, links to other
files lead to a copy. `history.html` draws bench/results/history.json. Every page works without a server and without
the network; the search needs JavaScript, everything else does not.
"""

import html
import json
import os
import posixpath
import re
import shutil
import sys

from history import history_page
from markdown import Page

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
GROUPS = [
    ("Guide", ["README.md", "docs/guide/README.md", "docs/guide/first-model.md", "docs/guide/report.md", "docs/guide/two-machines.md",
               "docs/guide/spot-machines.md", "docs/guide/slow-links.md", "docs/guide/fine-tuning-opus-mt.md",
               "docs/guide/small-device.md", "docs/guide/how-fast.md", "docs/guide/when-things-go-wrong.md", "docs/guide/coming-from.md"]),
    ("Recipes", ["recipes/README.md", "recipes/"]),
    ("Reference", ["docs/"]),
    ("Project", ["CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md", "ARCHITECTURE.md"]),
    ("Design", ["docs/design/"]),
]
NAMES = {"README.md": "Overview", "docs/guide/README.md": "Guide"}
FORGE_FOLDERS = ("build", "demo", "runs")


def sources():
    """Every Markdown file of the repository that is a page, by group, each once."""
    found, taken = [], set()
    for group, entries in GROUPS:
        pages = []
        for entry in entries:
            if not entry.endswith("/"):
                pages.append(entry)
                continue
            for folder, folders, files in os.walk(os.path.join(ROOT, entry)):
                folders.sort()
                if entry == "docs/" and folder.rstrip("/") != os.path.join(ROOT, "docs"):
                    folders.clear()
                    continue
                pages += [os.path.relpath(os.path.join(folder, name), ROOT) for name in sorted(files) if name.endswith(".md")]
        pages = [page for page in pages if page not in taken and os.path.exists(os.path.join(ROOT, page))]
        taken.update(pages)
        found.append((group, pages))
    return found


def address(page):
    """The place of a page in the site."""
    if page == "README.md":
        return "index.html"
    return re.sub(r"README\.md$", "index.html", page).removesuffix(".md") + ("" if page.endswith("README.md") else ".html")


class Site:
    def __init__(self, output):
        self.output = output
        self.groups = sources()
        self.pages = {page for _, pages in self.groups for page in pages}
        self.titles = {}
        self.search = []
        self.copies = set()
        self.broken = []

    def link_from(self, page):
        """A function that turns the target of a link in `page` into one in the site."""
        here = posixpath.dirname(page)

        def link(target):
            if re.match(r"\w+:|#", target):
                return target
            path, _, anchor = target.partition("#")
            path = posixpath.normpath(posixpath.join(here, path))
            anchor = "#" + anchor if anchor else ""
            if path in self.pages:
                return self.relative(page, address(path)) + anchor
            full = os.path.join(ROOT, path)
            if os.path.isdir(full):
                readme = posixpath.join(path, "README.md")
                if readme in self.pages:
                    return self.relative(page, address(readme))
                self.copies.add(path)
                return self.relative(page, f"files/{path}/index.html")
            if not os.path.exists(full):
                self.broken.append(f"{page}: {target}")
                return target
            self.copies.add(path)
            return self.relative(page, f"files/{self.copy_name(path)}")
        return link

    @staticmethod
    def copy_name(path):
        """Source text is shown by a browser as text, whatever its name."""
        return path if path.endswith((".svg", ".json", ".txt")) else path + ".txt"

    @staticmethod
    def relative(page, target):
        return posixpath.relpath(target, posixpath.dirname(address(page)) or ".")

    def navigation(self, page):
        parts = []
        for group, pages in self.groups:
            links = "".join(f'<li><a href="{self.relative(page, address(one))}"{" aria-current=page" if one == page else ""}>'
                            f"{html.escape(NAMES.get(one, self.titles[one]))}</a></li>" for one in pages)
            if group == "Reference":
                links += f'<li><a href="{self.relative(page, "history.html")}"{" aria-current=page" if page == "history.md" else ""}>Benchmark history</a></li>'
            parts.append(f"<details{' open' if group == 'Guide' or page in pages or (page == 'history.md' and group == 'Reference') else ''}>"
                         f"<summary>{group}</summary><ul>{links}</ul></details>")
        return "".join(parts)

    def write(self, page, title, body, headings):
        root = self.relative(page, "index.html").removesuffix("index.html")
        contents = "".join(f'<li class="level{level}"><a href="#{anchor}">{html.escape(text)}</a></li>' for level, text, anchor in headings if level in (2, 3))
        with open(os.path.join(HERE, "page.html"), encoding="utf-8") as file:
            text = file.read()
        values = {"title": html.escape(title), "root": root or "", "navigation": self.navigation(page), "body": body,
                  "contents": f"<h2>On this page</h2><ul>{contents}</ul>" if contents.count("<li") > 2 else ""}
        text = re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], text)
        path = os.path.join(self.output, address(page))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def copy(self, path):
        full = os.path.join(ROOT, path)
        if os.path.isdir(full):
            names = sorted(name for name in os.listdir(full) if not name.startswith("."))
            links = []
            for name in names:
                inner = posixpath.join(path, name)
                if os.path.isfile(os.path.join(full, name)):
                    self.copy(inner)
                    links.append(f'<li><a href="{posixpath.basename(self.copy_name(inner))}">{html.escape(name)}</a></li>')
            target = os.path.join(self.output, "files", path, "index.html")
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "w", encoding="utf-8") as file:
                file.write(f"<!DOCTYPE html><meta charset=utf-8><meta name=color-scheme content='light dark'><title>{html.escape(path)}</title>"
                           f"<h1>{html.escape(path)}</h1><ul>{''.join(links)}</ul>")
            return
        target = os.path.join(self.output, "files", self.copy_name(path))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(full, target)

    def build(self):
        parsed = {}
        for page in sorted(self.pages):
            with open(os.path.join(ROOT, page), encoding="utf-8") as file:
                parsed[page] = Page(file.read(), self.link_from(page))
            self.titles[page] = parsed[page].title
        for page, result in parsed.items():
            self.write(page, result.title, result.html, result.headings)
            self.search += [[result.title, heading, address(page) + ("#" + anchor if n else ""), text.strip()]
                            for n, (heading, anchor, text) in enumerate(result.sections)]
        title, body, headings = history_page(os.path.join(ROOT, "bench", "results", "history.json"))
        self.write("history.md", title, body, headings)
        for path in sorted(self.copies):
            self.copy(path)
        for name in ("site.css", "site.js"):
            shutil.copyfile(os.path.join(HERE, name), os.path.join(self.output, name))
        with open(os.path.join(self.output, "search.js"), "w", encoding="utf-8") as file:
            file.write("window.searchIndex = " + json.dumps(self.search, ensure_ascii=False, separators=(",", ":")) + ";\n")
        if self.broken:
            sys.exit("links to what does not exist:\n" + "\n".join(self.broken))
        print(f"{len(self.pages) + 1} pages in {self.output}/index.html")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    Site(sys.argv[1]).build()

"""The static site of `make site`: its Markdown as HTML, its links, and in a real browser search, colours and width."""

import glob
import html.parser
import os
import subprocess
import sys
import tempfile
import unittest
from urllib.parse import unquote

SOURCE = os.environ["REIGEN_SOURCE"]
sys.path[:0] = [os.path.join(SOURCE, "scripts", "site"), os.path.join(SOURCE, "tests", "cli")]
import browser  # noqa: E402
from history import history_page  # noqa: E402
from markdown import Page  # noqa: E402


class Links(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.targets, self.anchors, self.open = [], set(), []
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.targets += [v for k, v in attributes if k in ("href", "src") and v]
        self.anchors.add(values.get("id"))
        if tag not in ("meta", "link", "input", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> ends <{self.open[-1:]}>"
        self.open.pop()


class Markdown(unittest.TestCase):
    def html(self, text):
        return Page(text, lambda target: "to:" + target).html

    def test_blocks(self):
        self.assertEqual(self.html("a *b*\n**c** `<d>`"), "<p>a <em>b</em>\n<strong>c</strong> <code>&lt;d&gt;</code></p>")
        self.assertEqual(self.html("```sh\na | b\n\n  c\n```"), '<pre><code class="language-sh">a | b\n\n  c</code></pre>')
        self.assertEqual(self.html("x\n\n    a\n\n    b\n"), "<p>x</p>\n<pre><code>a\n\nb</code></pre>")
        self.assertEqual(self.html("<!-- a\nb -->\nx"), "<p>x</p>")
        self.assertIn('<h2 id="a-b-c">A <code>b</code>, c<a class="anchor"', self.html("## A `b`, c"))

    def test_lists(self):
        self.assertEqual(self.html("- a\n  b\n- c"), "<ul><li>a\nb</li>\n<li>c</li></ul>")
        self.assertEqual(self.html("1. a\n2. b\n   - c"), "<ol><li>a</li>\n<li>b\n<ul><li>c</li></ul></li></ol>")
        self.assertEqual(self.html("- a\n\ntext"), "<ul><li>a</li></ul>\n<p>text</p>")

    def test_tables(self):
        table = self.html("| a | b |\n| --- | --- |\n| `x|y` | 1,000 |\n| [z](t.md) | 2.5% |")
        self.assertIn("<tr><td><code>x|y</code></td><td class=number>1,000</td></tr>", table)
        self.assertIn('<td><a href="to:t.md">z</a></td>', table)

    def test_nothing_of_a_text_becomes_markup(self):
        self.assertEqual(self.html('a <script>alert("b")</script> 2 * 3 * 4'), '<p>a &lt;script&gt;alert("b")&lt;/script&gt; 2 * 3 * 4</p>')

    def test_history_is_drawn_to_scale(self):
        title, body, headings = history_page(os.path.join(SOURCE, "bench", "results", "history.json"))
        self.assertEqual(body.count("<svg"), len(headings))
        first = body.split("<svg")[1]
        y = [float(part.split('"')[0]) for part in first.split('cy="')[1:]]
        self.assertEqual(len(y), 2)
        self.assertAlmostEqual((176 - y[1]) / (176 - y[0]), 19.2 / 19.9, delta=0.01)


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="reigen-site-")
        cls.addClassCleanup(folder.cleanup)
        cls.place = os.path.join(folder.name, "site")
        subprocess.run([sys.executable, os.path.join(SOURCE, "scripts", "site", "build.py"), cls.place], check=True, stdout=subprocess.DEVNULL)
        cls.pages = glob.glob(cls.place + "/**/*.html", recursive=True)

    def test_every_link_leads_somewhere_in_the_site(self):
        links = {page: Links(page) for page in self.pages}
        self.assertGreater(len(links), 40)
        for page, one in links.items():
            self.assertIn(one.open, ([], ["html"]), page)
            for target in one.targets:
                if target.startswith(("http:", "https:")):
                    continue
                path, _, anchor = target.partition("#")
                full = os.path.normpath(os.path.join(os.path.dirname(page), unquote(path))) if path else page
                self.assertTrue(os.path.isfile(full), f"{page}: {target}")
                if anchor and full in links:
                    self.assertIn(anchor, links[full].anchors, f"{page}: {target}")

    @unittest.skipUnless(browser.PROGRAM, "no Chromium here")
    def test_in_a_browser(self):
        tab = browser.Browser()
        self.addCleanup(tab.close)
        tab.open(f"file://{self.place}/docs/guide/index.html")
        tab.colours("light")
        self.assertEqual(tab.js("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")
        tab.colours("dark")
        self.assertEqual(tab.js("getComputedStyle(document.body).backgroundColor"), "rgb(20, 23, 28)")
        tab.click("#theme")  # from the system's to light
        self.assertEqual(tab.js("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")
        tab.js("document.getElementById('search').value = 'opus-mt import'; document.getElementById('search').dispatchEvent(new Event('input'))")
        tab.wait("document.querySelectorAll('#found a').length > 0")
        self.assertIn("fine-tuning-opus-mt.html", tab.js("document.querySelector('#found a').href"))
        tab.click("#found a")
        tab.wait("document.title.startsWith('Fine-tuning') || document.title.startsWith('In and out')")
        self.assertEqual(tab.js("document.documentElement.dataset.theme"), "light")  # remembered
        tab.size(390, 800, phone=True)
        for page in ("docs/options.html", "docs/guide/coming-from.html", "history.html", "index.html"):
            tab.open(f"file://{self.place}/{page}")
            self.assertEqual(tab.js("document.documentElement.scrollWidth"), 390, page)  # nothing sticks out
            self.assertEqual(tab.errors, [])
            self.assertEqual([r for r in tab.requests if not r.startswith(("file:", "data:"))], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)

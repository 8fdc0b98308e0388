"""The live page in a real browser, and access control of its server."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request

import browser
import harness
from harness import REIGEN, run

SMALL = ["--preset", "tiny", "--model.width", 32, "--model.heads", 2, "--model.ffn-width", 64,
         "--model.encoder-layers", 1, "--model.decoder-layers", 1, "--batch.target-tokens", 300,
         "--schedule.kind", "fixed", "--schedule.rate", "0.002", "--schedule.warmup-steps", 10,
         "--eval.sentences", 4, "--eval.samples", 2, "--threads", 1]
NEEDED = ["loss", "bleu", "rate", "throughput", "split", "cpu"]


class PageCase(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.data = cls.prepare_for_class(pairs=600, vocab_size=300)

    @classmethod
    def arguments(cls, run_directory, *more):
        return [str(a) for a in ["train", "--data", cls.data, "--run", run_directory, *SMALL, *more]]

    @classmethod
    def finished(cls):
        """A run that has ended, shared by all tests that only look at it."""
        if "ended" not in cls.__dict__:
            cls.ended = os.path.join(os.path.dirname(cls.data), "ended")
            run(*cls.arguments(cls.ended, "--max-steps", 60, "--eval.every", 20, "--workers", 2))
        return cls.ended

    def serve(self, *command):
        """Starts reigen and returns the process and the address of its page."""
        process = subprocess.Popen([REIGEN, *map(str, command)], stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.stop, process)
        lines = []
        for line in process.stderr:
            lines.append(line)
            if found := re.search(r"http://[^\s;]+", line):
                # Reads the rest of its output, or it would block on a full pipe.
                process.reader = threading.Thread(target=process.stderr.read)
                process.reader.start()
                return process, found.group()
        raise AssertionError("no address: " + "".join(lines))

    def stop(self, process):
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        if hasattr(process, "reader"):
            process.reader.join()
        process.stderr.close()
        return process.wait(60)


class Server(PageCase):
    def test_requests_without_the_token_are_refused(self):
        _, url = self.serve("dashboard", self.finished(), "--token", "secret")
        base = url.split("?")[0]
        for path in ["", "live.json", "report", "report.json", "?token=wrong", "live.json?token=secret2"]:
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(base + path, timeout=30)
            self.assertEqual(refused.exception.code, 403, path)
            refused.exception.close()
        with urllib.request.urlopen(base + "live.json?token=secret", timeout=30) as answer:
            self.assertEqual(json.load(answer)["name"], "ended")
        with urllib.request.urlopen(url, timeout=30) as page:
            self.assertIn("default-src 'none'", page.headers["Content-Security-Policy"])
            self.assertNotIn("unsafe", page.headers["Content-Security-Policy"])

    def test_a_foreign_host_header_is_refused(self):
        _, url = self.serve("dashboard", self.finished())
        for name in ("evil.example", "127.evil.example:6810", "127.0.0.1.evil.example"):
            asked = urllib.request.Request(url + "live.json", headers={"Host": name})
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(asked, timeout=30)
            self.assertEqual(refused.exception.code, 403)
            refused.exception.close()

    def test_an_address_other_than_loopback_generates_a_token(self):
        _, url = self.serve("dashboard", self.finished(), "--address", "0.0.0.0")
        self.assertRegex(url, r"\?token=[0-9a-f]{32}$")

    def test_a_port_in_use_is_an_error_and_the_default_finds_a_free_one(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            done = run("dashboard", self.finished(), "--port", port, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"port {port}", done.stderr)
            done = run(*self.arguments(self.path("run"), "--max-steps", 5, "--dashboard", "--dashboard-port", port),
                       check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"port {port}", done.stderr)
        first, one = self.serve("dashboard", self.finished())
        _, two = self.serve("dashboard", self.finished())
        self.assertNotEqual(one, two)
        self.assertEqual(self.stop(first), 0)

    def test_a_directory_that_is_not_a_run_is_refused(self):
        self.assert_fails(run("dashboard", self.folder, check=False), 3, "is not a run")

    def test_options_of_the_page_are_not_recorded(self):
        done = run(*self.arguments(self.path("run"), "--max-steps", 2, "--no-eval.bleu", "--dashboard",
                                   "--dashboard-token", "secret"))
        self.assertRegex(done.stderr, r"live page of the run: http://127\.0\.0\.1:\d+/\?token=secret")
        self.assertNotIn("secret", self.read("run/config.yaml"))
        self.assertNotIn("http://", run(*self.arguments(self.path("run"), "--max-steps", 3, "--no-eval.bleu")).stderr)


@unittest.skipIf(browser.PROGRAM is None, "no chromium here: scripts/setup.sh installs it")
class Page(PageCase):
    @classmethod
    def setUpClass(cls):
        cls.tab = browser.Browser()
        cls.addClassCleanup(cls.tab.close)
        super().setUpClass()

    def setUp(self):
        super().setUp()
        self.tab.size(1280, 900)
        self.tab.colours("light")

    def show(self, *command):
        process, self.url = self.serve(*command)
        self.tab.open("about:blank")  # the page of an earlier test asks for more until it is left
        self.tab.open(self.url)
        self.tab.js("localStorage.clear()")
        self.tab.wait("document.querySelectorAll('#chart-list canvas').length >= 5")
        return process

    def assert_clean(self, allowed=()):
        """No errors in the console, no requests to other servers."""
        self.assertEqual([e for e in self.tab.errors if not any(a in e for a in allowed)], [])
        base = self.url.split("?")[0]
        self.assertEqual([r for r in self.tab.requests if not r.startswith((base, "data:"))], [])

    def pixels_drawn(self, chart):
        """Number of drawn pixels of a chart."""
        return self.tab.js(f"""(() => {{const c = document.querySelector('#chart-{chart} canvas');
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n}})()""")

    def test_a_run_is_followed_while_it_trains_and_after_it_has_ended(self):
        process = self.show(*self.arguments(self.path("run"), "--max-steps", 1000000, "--eval.every", 20,
                                            "--dashboard", "--workers", 2))
        tab = self.tab
        tab.wait("document.querySelectorAll('#sample-list dl').length == 2")
        self.assertEqual(tab.text("#state"), "running")
        step = "Number(document.querySelector('#facts dd').textContent.replace(/,/g, ''))"
        before = tab.js(step)
        drawn = "Chart.getChart(document.querySelector('#chart-loss canvas')).data.datasets[0].data.at(-1).x"
        last = tab.js(drawn)
        tab.js("document.querySelector('#chart-loss canvas').focus()")
        tab.wait(f"{step} > {before} && {drawn} > {last}")
        self.assertEqual(tab.js("document.activeElement.closest('figure').id"), "chart-loss")
        charts = tab.js("[...document.querySelectorAll('figure')].map(f => f.id.slice(6))")
        self.assertEqual([c for c in NEEDED + ["network-out", "network-in"] if c not in charts], [])
        self.assertEqual(tab.js("document.querySelectorAll('#verdict-cards article').length"), 3)
        self.assertEqual(tab.js("document.querySelectorAll('#rank-rows tr').length"), 2)
        self.assertIn("evaluation at step", tab.text("#log-lines"))
        self.assert_clean()
        tab.click("#pause")
        tab.wait("document.querySelector('#updated').textContent.startsWith('paused')")
        paused_at, requests = tab.js(step), len(tab.requests)
        time.sleep(2.5)
        self.assertEqual((tab.js(step), len(tab.requests)), (paused_at, requests))
        tab.click("#pause")
        tab.wait(f"{step} > {paused_at}")
        self.stop(process)
        tab.wait("document.querySelector('#state').textContent.startsWith('no answer')")
        self.show("dashboard", self.path("run"))
        self.assertEqual(tab.text("#state"), "finished: signal")
        self.assert_clean()

    def test_clicks_hide_lines_change_the_theme_and_open_the_report(self):
        self.show("dashboard", self.finished())
        tab = self.tab
        self.assertEqual(tab.text("#state"), "finished: max-steps")
        self.assertIn("step 60", tab.js("document.title"))
        visible = "Chart.getChart(document.querySelector('#chart-loss canvas')).isDatasetVisible(0)"
        picture = "document.querySelector('#chart-loss canvas').toDataURL()"
        both = tab.js(picture)
        self.assertTrue(tab.js(visible))
        tab.click("#chart-loss .legend button")
        self.assertFalse(tab.js(visible))
        self.assertEqual(tab.js("document.querySelector('#chart-loss .legend button').ariaPressed"), "false")
        self.assertNotEqual(tab.js(picture), both)
        tab.click("#chart-loss .legend button")
        self.assertTrue(tab.js(visible))
        tab.wait(f"{picture} == {json.dumps(both)}")
        tab.click("#chart-loss summary")
        rows = tab.wait("document.querySelectorAll('#chart-loss details tr').length")
        self.assertGreater(rows, 5)
        colours = []
        for _ in range(3):
            tab.click("#theme")
            colours.append((tab.text("#theme"), tab.js("getComputedStyle(document.body).backgroundColor")))
        self.assertEqual(colours, [("Theme: light", "rgb(255, 255, 255)"), ("Theme: dark", "rgb(13, 17, 23)"),
                                   ("Theme: system", "rgb(255, 255, 255)")])
        self.assert_clean()
        tab.click("#report")
        tab.wait("location.pathname == '/report' && document.querySelectorAll('main section[id]').length >= 11")
        self.assert_clean()

    def test_dark_and_light_themes_have_enough_contrast(self):
        self.tab.colours("dark")
        self.show("dashboard", self.finished())
        tab = self.tab
        tab.wait("document.documentElement.dataset.theme == 'dark'")
        light = lambda name: tab.js(f"""(() => {{const e = document.createElement('i'); document.body.append(e);
            e.style.color = 'var(--{name})'; const c = getComputedStyle(e).color.match(/\\d+/g).map(Number); e.remove();
            const f = c.map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
            return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]}})()""")
        contrast = lambda a, b: (max(light(a), light(b)) + 0.05) / (min(light(a), light(b)) + 0.05)
        ticks = "Chart.getChart(document.querySelector('#chart-loss canvas')).scales.x.options.ticks.color"
        for scheme in ("dark", "light"):
            tab.colours(scheme)
            tab.wait(f"document.documentElement.dataset.theme == '{scheme}'")
            for ground in ("back", "card"):
                for name in ("text", "soft", "focus"):  # WCAG AA for text
                    self.assertGreaterEqual(contrast(name, ground), 4.5, (scheme, name, ground))
            for number in range(8):  # and for what is drawn
                self.assertGreaterEqual(contrast(f"s{number}", "back"), 3, (scheme, number))
            self.assertEqual(tab.js(ticks), {"dark": "#9198a1", "light": "#57606a"}[scheme])
        self.assert_clean()

    def test_the_page_fits_the_width_of_a_phone(self):
        self.tab.size(390, 844, phone=True)
        self.show("dashboard", self.finished())
        tab = self.tab
        tab.wait("[...document.querySelectorAll('canvas')].every(c => c.getBoundingClientRect().width <= 390)")
        self.assertLessEqual(tab.js("document.documentElement.scrollWidth"), 390)
        outside = tab.js("""[...document.querySelectorAll('main *')].filter(e => !e.closest('.wide')
            && e.getBoundingClientRect().right > 391).map(e => e.outerHTML.slice(0, 80))""")
        self.assertEqual(outside, [])
        small = tab.js("""[...document.querySelectorAll('button, .controls a')].filter(e => !e.hidden && e.offsetHeight
            && e.getBoundingClientRect().height < 24).map(e => e.textContent)""")
        self.assertEqual(small, [])
        self.assertGreater(self.pixels_drawn("loss"), 100)
        self.assert_clean()

    def test_everything_can_be_done_with_the_keyboard(self):
        self.show("dashboard", self.finished())
        tab = self.tab
        tab.press("Tab")
        self.assertEqual(tab.js("document.activeElement.className"), "skip")
        self.assertGreaterEqual(tab.js("document.activeElement.getBoundingClientRect().left"), 0)
        tab.press("Enter")
        tab.wait("document.activeElement.id == 'main'")
        seen = []
        for _ in range(60):
            tab.press("Tab")
            seen.append(tab.js("""(() => {const e = document.activeElement, s = getComputedStyle(e);
                return [e.tagName, e.closest('[id]') && e.closest('[id]').id,
                        s.outlineStyle != 'none' && parseFloat(s.outlineWidth) >= 2]})()"""))
            if seen[-1][1] == "log-lines":
                break
        self.assertEqual([e for e in seen if not e[2]], [])  # the focus is always visible
        reached = {(tag, place) for tag, place, _ in seen}
        for wanted in [("CANVAS", "chart-loss"), ("BUTTON", "chart-loss"), ("SUMMARY", "chart-loss"),
                       ("PRE", "log-lines")]:
            self.assertIn(wanted, reached)
        tab.js("document.querySelector('#chart-loss canvas').focus()")
        tab.press("Home")
        first = tab.text("#chart-loss output")
        self.assertRegex(first, r"^step 1: training [\d.]+$")
        tab.press("ArrowRight")
        self.assertRegex(tab.text("#chart-loss output"), r"^step 2: training")
        tab.press("End")
        self.assertRegex(tab.text("#chart-loss output"), r"^step 60: training [\d.]+, validation [\d.]+$")
        tab.press("Escape")
        self.assertEqual(tab.text("#chart-loss output"), "")
        tab.js("document.querySelector('#chart-loss .legend button').focus()")
        tab.press("Enter")
        self.assertEqual(tab.js("document.activeElement.ariaPressed"), "false")
        self.assert_clean()

    def test_screen_readers_find_landmarks_and_names(self):
        self.show("dashboard", self.finished())
        announced = self.tab.accessibility()
        roles = [role for role, _ in announced]
        for landmark in ("banner", "navigation", "main", "contentinfo"):
            self.assertEqual(roles.count(landmark), 1, landmark)
        for role, name in announced:
            if role in ("button", "link", "image", "region", "group", "heading", "navigation"):
                self.assertTrue(name or role == "group", (role, name))
        images = [name for role, name in announced if role == "image"]
        self.assertEqual(len(images), self.tab.js("document.querySelectorAll('canvas').length"))
        self.assertTrue(any(re.match(r"Loss\. training: from [\d.]+ to [\d.]+", name) for name in images), images)
        headings = self.tab.js("[...document.querySelectorAll('h1,h2,h3')].map(h => Number(h.tagName[1]))")
        self.assertEqual(headings[0], 1)
        self.assertTrue(all(b - a <= 1 for a, b in zip(headings, headings[1:])), headings)

    def test_text_of_the_run_is_never_markup(self):
        evil = "<img src=x onerror=alert(1)><script>alert(2)</script>"
        folder = self.path("evil")
        os.makedirs(f"{folder}/measurements")
        with open(f"{self.finished()}/measurements/rank-0.jsonl") as log:
            records = [json.loads(line) for line in log]
        for record in records:
            for sample in record.get("samples", []):
                sample.update(source=evil, reference=evil, hypothesis=evil)
            if record["kind"] == "end":
                record["reason"] = evil
            if record["kind"] == "sample":
                record["host"] = evil
        self.write("evil/measurements/rank-0.jsonl", "".join(json.dumps(r) + "\n" for r in records))
        self.write("evil/log.txt", evil + "\n")
        self.show("dashboard", folder)
        self.assertEqual(self.tab.text("#log-lines"), evil)
        self.assertEqual(self.tab.text("#state"), "finished: " + evil)
        self.assertEqual(self.tab.js("document.querySelectorAll('main img, main script').length"), 0)
        self.assert_clean()


if __name__ == "__main__":
    if browser.PROGRAM is None and sys.argv[1:] == ["Page"]:
        count = unittest.defaultTestLoader.loadTestsFromTestCase(Page).countTestCases()
        print(f"{count} tests skipped: no chromium here; scripts/setup.sh installs it")
        sys.exit(77)
    harness.main()

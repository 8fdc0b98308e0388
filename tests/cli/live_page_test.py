"""The live page in a real browser, and access control of its server."""

import contextlib
import json
import os
import pty
import re
import resource
import shutil
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
from workers_test import workers_of

SMALL = ["--preset", "tiny", "--model.width", 32, "--model.heads", 2, "--model.ffn-width", 64,
         "--model.encoder-layers", 1, "--model.decoder-layers", 1, "--batch.target-tokens", 300,
         "--schedule.kind", "fixed", "--schedule.rate", "0.002", "--schedule.warmup-steps", 10,
         "--eval.sentences", 4, "--eval.samples", 2, "--threads", 1, "--preflight", "0.1"]
NEEDED = ["loss", "bleu", "rate", "throughput", "split", "cpu"]


def descendants(pid):
    """All processes below one."""
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                for child in map(int, file.read().split()):
                    found += [child, *descendants(child)]
    except (FileNotFoundError, ProcessLookupError):
        pass  # it has ended
    return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def memory(pid):
    """Most bytes of memory that a process has had."""
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(r"VmHWM:\s+(\d+)", file.read()).group(1)) * 1024


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

    def serve(self, *command, **more):
        """Starts reigen and returns the process and the link to its page."""
        process = subprocess.Popen([REIGEN, *map(str, command)], stderr=subprocess.PIPE, text=True, **more)
        self.addCleanup(self.stop, process)
        lines = []
        for line in process.stderr:
            lines.append(line)
            if found := re.search(r"http://[^\s;]+", line):
                # Reads the rest of its output, or it would block on a full pipe.
                process.said = lines
                process.reader = threading.Thread(target=lambda: lines.extend(process.stderr))
                process.reader.start()
                return process, self.link(line) or found.group()
        raise AssertionError("no address: " + "".join(lines))

    def link(self, line):
        """The link with the token in the file that a line of `train` names, or None."""
        if file := re.search(r"(\S+/dashboard\.url)\)$", line.rstrip()):
            with open(file.group(1)) as link:
                return link.read().strip()
        return None

    def talk(self, port, request):
        """The whole answer to a request of any bytes."""
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(request)
            answer = b""
            while got := connection.recv(1 << 16):
                answer += got
            return answer

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
        for path in ["", "live.json", "report", "report.json", "?token=wrong", "live.json?token=secret2", "live.css",
                     "live.js", "chart.js", "chart.js?token=", "none"]:
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
        _, url = self.serve("dashboard", self.finished(), "--token", "secret")
        port = int(re.search(r":(\d+)/", url).group(1))

        def status(host):
            return self.talk(port, f"GET /live.json?token=secret HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())[9:12]

        for name in (f"127.0.0.1:{port}", "localhost", "[::1]", f"[::1]:{port}"):
            self.assertEqual(status(name), b"200", name)
        for name in ("evil.example", "127.evil.example:6810", "127.0.0.1.evil.example", "[::1].evil.com", "",
                     "[::1]:80.evil.com", "localhost.evil.com", "127.0.0.1@evil.com", "0.0.0.0", "::1", "[::1",
                     "localhost:80:80"):
            self.assertEqual(status(name), b"403", name)
        self.assertEqual(self.talk(port, b"GET /live.json?token=secret HTTP/1.1\r\n\r\n")[9:12], b"400")

    def test_only_the_files_of_the_page_are_served_and_only_by_get(self):
        _, url = self.serve("dashboard", self.finished(), "--token", "secret")
        port = int(re.search(r":(\d+)/", url).group(1))

        def status(line, headers="", after=b""):
            return self.talk(port, f"{line} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode() + after)[9:12]

        for path in ("/../log.txt", "/%2e%2e/log.txt", "//etc/passwd", "/live.json/", "/./live.json", "/LIVE.JSON",
                     "/live%2ejson", "/log.txt", "/config.yaml", "/live.json;a"):
            self.assertEqual(status(f"GET {path}?token=secret"), b"404", path)
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH"):
            self.assertEqual(status(f"{method} /live.json?token=secret"), b"405", method)
        body = b"5\r\nhello\r\n0\r\n\r\n"
        self.assertEqual(status("GET /?token=secret", "Transfer-Encoding: chunked\r\n", body), b"413")
        self.assertEqual(status("GET /?token=secret", "Content-Length: 5\r\n", b"hello"), b"413")
        self.assertEqual(status("GET /?token=secret", "A: b\r\n" * 200), b"431")
        ranges = "bytes=" + ",".join(["0-"] * 2700)
        ask = f"GET /chart.js?token=secret HTTP/1.1\r\nHost: localhost\r\nRange: {ranges}\r\n\r\n"
        self.assertEqual(self.talk(port, ask.encode()),
                         self.talk(port, b"GET /chart.js?token=secret HTTP/1.1\r\nHost: localhost\r\n\r\n"))

    def test_neither_a_fifo_nor_a_link_in_the_run_is_read(self):
        victim = self.write("victim", "precious")
        for name in ("log.txt", "config.yaml", "measurements/rollup.json", "measurements/rank-1.jsonl"):
            for make in (os.mkfifo, lambda path: os.symlink(victim, path)):
                copy = self.path("copy")
                shutil.copytree(self.finished(), copy, symlinks=True)
                path = os.path.join(copy, name)
                if os.path.exists(path):
                    os.remove(path)
                make(path)
                process, url = self.serve("dashboard", copy, "--token", "secret")
                for page in ("live.json", "report"):
                    text = self.answer(url.split("?")[0] + page + "?token=secret")
                    self.assertNotIn("precious", text, (name, page))
                self.assertIn(self.stop(process), (0, 130))
                shutil.rmtree(copy)

    def answer(self, url):
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as refused:  # a report that cannot be made
            with refused:
                return refused.read().decode()

    def test_a_token_is_generated_on_every_address(self):
        for address in ("127.0.0.1", "0.0.0.0"):
            _, url = self.serve("dashboard", self.finished(), "--address", address)
            self.assertRegex(url, r"\?token=[0-9a-f]{32}$")

    def test_a_token_may_come_from_a_private_file_or_the_environment(self):
        file = self.write("token", "of a file\n")
        os.chmod(file, 0o644)
        self.assert_fails(run("dashboard", self.finished(), "--token-file", file, check=False), 2, "0644", "chmod 600")
        os.chmod(file, 0o600)
        self.assertTrue(self.serve("dashboard", self.finished(), "--token-file", file)[1].endswith("=of%20a%20file"))
        _, url = self.serve("dashboard", self.finished(), env={**os.environ, "REIGEN_DASHBOARD_TOKEN": "given"})
        self.assertTrue(url.endswith("?token=given"))

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
        self.assertRegex(done.stderr, r" http://127\.0\.0\.1:\d+/ ")
        self.assertFalse(os.path.exists(self.path("run/dashboard.url")))  # the page has ended
        self.assertNotIn("secret", self.read("run/config.yaml"))
        self.assertNotIn("http://", run(*self.arguments(self.path("run"), "--max-steps", 3, "--no-eval.bleu")).stderr)

    def test_the_token_is_in_no_command_line_and_in_no_file_that_others_may_read(self):
        folder = self.path("run")
        ssh = self.write("ssh", "#!/bin/sh\nfor command; do :; done\nexec sh -c \"$command\"\n")  # on this host
        os.chmod(ssh, 0o755)
        process, url = self.serve(*self.arguments(folder, "--max-steps", 1000000, "--dashboard", "--hosts", "vm1:2",
                                                  "--dashboard-token", "very-secret", "--no-eval.bleu"),
                                  env={**os.environ, "REIGEN_SSH": ssh})
        self.assertTrue(url.endswith("?token=very-secret"))
        with urllib.request.urlopen(url, timeout=30) as page:
            self.assertEqual(page.status, 200)
        family = [process.pid, *descendants(process.pid)]
        for pid in family:
            with open(f"/proc/{pid}/cmdline", "rb") as line:
                self.assertNotIn(b"very-secret", line.read())
        self.assertEqual(len(family), 5)  # launcher, agent, two workers, page
        self.assertEqual(os.stat(f"{folder}/dashboard.url").st_mode & 0o777, 0o600)
        self.stop(process)
        self.assertNotIn("very-secret", "".join(process.said))
        own = self.path("own")
        more = ["--dashboard", "--dashboard-token", "very-secret", "--no-eval.bleu"]
        self.assertIn(b"very-secret", self.terminal_of(self.arguments(own, "--max-steps", 1, *more)))
        self.terminal_of(self.arguments(own, "--max-steps", 100000, *more, "--workers", 2, "--detach"))
        self.assertIn("?token=very-secret", self.read("own/dashboard.url"))
        os.kill(json.loads(self.read("own/background.json"))["process"], signal.SIGTERM)
        run("attach", own, check=False)
        self.assertIn(" http://127.0.0.1:", self.read("own/console.log"))
        for place in (folder, own):
            found = subprocess.run(["grep", "-rl", "very-secret", place], capture_output=True, text=True)
            self.assertEqual(found.stdout, "")

    def terminal_of(self, arguments):
        """What a command shows on a terminal."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen([REIGEN, *arguments], stderr=theirs)
        os.close(theirs)
        shown = b""
        try:
            while got := os.read(ours, 1 << 16):
                shown += got
        except OSError:  # the end, on Linux
            pass
        os.close(ours)
        process.wait(60)
        return shown


class Attacked(PageCase):
    """Clients that would harm the training process if they could."""

    def train(self, *more, **options):
        process, url = self.serve(*self.arguments(self.path("run"), "--dashboard", "--no-eval.bleu", *more), **options)
        self.port = int(re.search(r":(\d+)/", url).group(1))
        return process, url, next(iter(descendants(process.pid)), process.pid)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def records(self, kind):
        with open(self.path("run/measurements/rank-0.jsonl")) as log:
            whole = [json.loads(line) for line in log if line.endswith("\n")]  # the last may be half written
        return [record for record in whole if record["kind"] == kind]

    def test_the_page_is_a_process_with_limits_and_ends_with_training(self):
        process, url, page = self.train("--max-steps", 1000000)
        with urllib.request.urlopen(url, timeout=30) as answer:
            self.assertEqual(answer.status, 200)
        limits = self.limits(page)
        self.assertEqual(limits["Max address space"], str(2 << 30))
        self.assertEqual(limits["Max open files"], "256")
        self.assertEqual(limits["Max core file size"], "0")
        opened = [os.readlink(f"/proc/{page}/fd/{fd}") for fd in os.listdir(f"/proc/{page}/fd")]
        self.assertEqual([name for name in opened if name.startswith(self.folder)], [])
        os.kill(process.pid, signal.SIGKILL)
        self.assertEqual(self.stop(process), -signal.SIGKILL)
        until = time.monotonic() + 30
        while alive(page) and time.monotonic() < until:
            time.sleep(0.01)
        self.assertFalse(alive(page))

    @staticmethod
    def limits(pid):
        with open(f"/proc/{pid}/limits") as file:
            return {line[:26].strip(): line[26:].split()[0] for line in file.readlines()[1:]}

    def test_idle_connections_fail_no_checkpoint(self):
        lower = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
        process, _, _ = self.train("--max-steps", 1000000, "--checkpoint.every", 10, preexec_fn=lower)
        held, opened, until = [], 0, time.monotonic() + 120
        while opened <= 300 or len(self.records("checkpoint")) < 15:
            self.assertLess(time.monotonic(), until)
            held.append(self.connect())
            opened += 1
            if len(held) > 300:  # at a time
                held.pop(0).close()
        self.assertEqual(self.stop(process), 130, process.said)
        for connection in held:
            connection.close()
        steps = [r["step"] for r in self.records("checkpoint")]
        self.assertEqual([step for step in steps if step % 10 == 0], list(range(10, steps[-1] + 1, 10)))
        self.assertEqual([r for r in self.records("checkpoint") if r.get("error")], [])
        self.assertEqual([line for line in process.said if "warning" in line], [])

    def test_a_client_that_never_ends_its_request_does_not_delay_the_end(self):
        process, _, _ = self.train("--max-steps", 30)
        slow = self.connect()
        slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        until = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            try:
                slow.sendall(b"A: b\r\n")
            except OSError:
                slow.close()
                try:
                    slow = self.connect()
                except OSError:
                    pass
            time.sleep(0.1)
        slow.close()
        self.assertEqual(process.poll(), 0)

    def test_floods_of_bytes_are_not_stored(self):
        process, url, page = self.train("--max-steps", 1000000)
        with urllib.request.urlopen(url, timeout=30) as answer:
            answer.read()
        block = b"a" * (1 << 20)
        starts = [b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n7fffffff\r\n",
                  b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET / HTTP/1.1\r\nA: ", b""]
        before = memory(page)
        for start in starts * 4:
            with self.connect() as connection:
                try:
                    connection.sendall(start)
                    for _ in range(8):
                        connection.sendall(block)
                except OSError:
                    pass  # refused
        self.assertLess(memory(page) - before, 8 << 20)
        with urllib.request.urlopen(url, timeout=30) as answer:
            self.assertEqual(answer.status, 200)
        self.assertEqual(self.stop(process), 130)

    def test_many_ranges_are_not_multiplied(self):
        process, url, page = self.train("--max-steps", 1000000)
        with urllib.request.urlopen(url, timeout=30) as answer:
            answer.read()
        ranges = "bytes=" + ",".join(["0-"] * 2700)
        asks = [f"GET /chart.js{query} HTTP/1.1\r\nHost: localhost\r\nRange: {ranges}\r\n\r\n".encode()
                for query in ("", "?" + url.split("?")[-1])]
        before = [memory(pid) for pid in (page, process.pid)]

        def ask(request):
            with contextlib.suppress(OSError), self.connect() as connection:
                connection.sendall(request)
                while connection.recv(1 << 20):
                    pass

        for _ in range(3):
            clients = [threading.Thread(target=ask, args=(request,)) for request in asks * 4]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
        for was, pid in zip(before, (page, process.pid), strict=True):
            self.assertLess(memory(pid) - was, 8 << 20)
        self.assertEqual(self.stop(process), 130)

    def test_training_continues_when_the_page_dies_and_the_page_comes_back(self):
        process, url, page = self.train("--max-steps", 1000000)
        for _ in range(2):
            os.kill(page, signal.SIGKILL)
            until = time.monotonic() + 30
            while not (now := descendants(process.pid)) or now == [page]:
                self.assertLess(time.monotonic(), until)
                time.sleep(0.01)
            page, = now
        with urllib.request.urlopen(url, timeout=30) as answer:
            self.assertEqual(answer.status, 200)
        self.assertEqual(self.stop(process), 130)
        self.assertEqual(len([line for line in process.said if line.startswith("warning")]), 1)


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

    def test_the_workers_of_an_elastic_job_that_are_there_and_those_that_were_lost(self):
        self.show(*self.arguments(self.path("run"), "--max-steps", 1000000, "--eval.every", 20, "--dashboard", "--workers", 3,
                                  "--elastic"))
        tab = self.tab
        cells = "[...document.querySelectorAll('#%s tr')].map(r => [...r.children].map(c => c.textContent))"
        tab.wait("document.querySelectorAll('#worker-rows tr').length == 3")
        workers = tab.js(cells % "worker-rows")
        host = socket.gethostname()
        self.assertEqual([row[:4] for row in workers],
                         [["0", "0 (writes the run)", host, "1"], ["1", "1", host, "1"], ["2", "2", host, "1"]])
        self.assertEqual(tab.js("[document.querySelector('#changes').hidden, document.querySelector('#ranks').hidden]"), [True, True])
        victim, = [pid for pid, rank in workers_of(self.path("run")) if rank == 1]
        os.kill(victim, signal.SIGKILL)
        tab.wait("document.querySelectorAll('#worker-rows tr').length == 2 && "
                 "[...document.querySelectorAll('#worker-rows tr')].every(r => Number(r.children[5].textContent) > 0)")
        self.assertEqual([row[:4] for row in tab.js(cells % "worker-rows")], [["0", "0 (writes the run)", host, "1"], ["2", "1", host, "1"]])
        change, = tab.js(cells % "change-rows")
        self.assertEqual(change[1:4], ["1", host, "lost"])
        self.assertGreater(int(change[0].replace(",", "")), 0)
        self.assertEqual(tab.text("#ranks-link"), "Workers")
        self.assert_clean()

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
        self.assertEqual(tab.js("document.querySelectorAll('#verdict-cards article').length"), 4)
        self.assertEqual(tab.js("document.querySelectorAll('#rank-rows tr').length"), 2)
        self.assertIn("evaluation", tab.text("#log-lines"))
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

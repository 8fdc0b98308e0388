"""`reigen top` in a pseudo-terminal: keys, sizes, and the restored terminal."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import harness
from harness import REIGEN, run

SMALL = ["--preset", "tiny", "--model.width", 32, "--model.heads", 2, "--model.ffn-width", 64,
         "--model.encoder-layers", 1, "--model.decoder-layers", 1, "--batch.target-tokens", 300,
         "--no-eval.bleu", "--threads", 1, "--preflight", "0.1"]


class Terminal:
    """A program in a pseudo-terminal."""

    def __init__(self, command, columns, rows):
        self.ours, theirs = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.text = ""

    def resize(self, columns, rows):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, pattern, seconds=20):
        """Reads until the pattern was shown, and returns everything since the last call."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.text, re.DOTALL):
            if time.monotonic() > end or not select.select([self.ours], [], [], 1)[0] and self.process.poll() is not None:
                raise AssertionError(f"{pattern!r} was not shown in {self.text!r}")
            if select.select([self.ours], [], [], 0)[0]:
                self.text += os.read(self.ours, 65536).decode()
        shown, self.text = self.text, ""
        return shown

    def type(self, keys):
        os.write(self.ours, keys.encode())

    def settings(self):
        return termios.tcgetattr(self.theirs)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)


def lines_of(frame):
    """The lines of the last screen, without escape sequences."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", frame.split("\x1b[H")[-1])
    return re.split("\r*\n", text)  # the terminal adds a return of its own


class Top(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.data = cls.prepare_for_class(pairs=600, vocab_size=300)
        cls.trained = os.path.join(os.path.dirname(cls.data), "run")
        run("train", "--data", cls.data, "--run", cls.trained, *SMALL, "--max-time", "2.5s", "--workers", 2)

    def terminal(self, columns=100, rows=40):
        terminal = Terminal([REIGEN, "top", self.trained, "--every", "0.2"], columns, rows)
        self.addCleanup(terminal.close)
        return terminal

    def test_q_quits_and_restores_the_terminal(self):
        terminal = self.terminal()
        shown = terminal.until(r"q quits")
        self.assertIn("\x1b[?1049h", shown)
        self.assertRegex(shown, r"(?s)step [\d,]+ .*bottleneck: .*rank .*cores .*\[")
        self.assertNotEqual(terminal.settings()[3], terminal.before[3])
        terminal.type("q")
        terminal.until(re.escape("\x1b[?25h\x1b[?1049l"))
        self.assertEqual(terminal.process.wait(10), 0)
        self.assertEqual(terminal.settings(), terminal.before)

    def test_ctrl_c_quits_and_restores_the_terminal(self):
        terminal = self.terminal()
        terminal.until(r"q quits")
        terminal.type("\x03")
        terminal.until(re.escape("\x1b[?1049l"))
        self.assertEqual(terminal.process.wait(10), 0)
        self.assertEqual(terminal.settings(), terminal.before)

    def test_a_new_size_is_drawn_at_once_and_arrow_keys_scroll(self):
        terminal = self.terminal()
        wide = lines_of(terminal.until(r"q quits"))
        self.assertTrue(any("MB sent/step" in line for line in wide), wide)
        terminal.resize(30, 8)
        narrow = lines_of(terminal.until(r"\x1b\[2J.*q quits[^\x1b]*\x1b\[J"))
        self.assertLessEqual(max(map(len, narrow)), 30)
        self.assertLessEqual(len(narrow), 8)
        self.assertIn("run", narrow[0])
        terminal.type("\x1b[B")
        moved = lines_of(terminal.until(r"\x1b\[H  finished.*\x1b\[J"))
        self.assertEqual(moved[0], narrow[1])

    def test_a_pipe_gets_one_screen_without_escapes(self):
        done = run("top", self.trained)
        self.assertRegex(done.stdout, r"(?s)finished: max-time.*step [\d,]+ .*bottleneck: .*cores .*\[")
        self.assertNotIn("\x1b", done.stdout)
        self.assertEqual(done.stdout.count("bottleneck"), 1)
        self.assertNotIn("network", done.stdout)  # both workers are here
        self.assert_fails(run("top", self.folder, check=False), 3, "is not a run")

    def test_a_killed_run_is_shown_as_gone(self):
        folder = self.path("killed")
        process = subprocess.Popen([REIGEN, *map(str, ["train", "--data", self.data, "--run", folder, *SMALL,
                                                        "--max-steps", 1000000])],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        log = os.path.join(folder, "measurements/rank-0.jsonl")
        end = time.monotonic() + 60
        while time.monotonic() < end and not (os.path.exists(log) and os.path.getsize(log) > 2000):
            time.sleep(0.05)
        self.assertIn("running", run("top", folder).stdout)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertIn(f"killed: process {process.pid} ", run("top", folder).stdout)


if __name__ == "__main__":
    harness.main()

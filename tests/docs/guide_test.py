"""Runs every command of docs/guide, page by page in the order of its index, in one scratch folder.

The fenced `sh` blocks of a page are one shell script. A comment before a block says what is special:

    <!-- ends with 3 -->         the block has to end with this exit code
    <!-- not run: REASON -->     it cannot run here; such blocks are counted and listed at the end
    <!-- output -->              before a `text` block: each of its lines is in the output of the block
                                 before; "..." stands for any text, a number for any number

In `make test` runs are a fortieth as long (`--max-steps`), and measurements shorter; `make test-all` runs the
commands as they are written. The hosts vm1 and vm2 are network namespaces, and `ssh` leads into them.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["REIGEN_SOURCE"]
sys.path[:0] = [os.path.join(SOURCE, "tests", "cli"), os.path.join(SOURCE, "tests", "dist")]
from harness import REIGEN, TEST_ALL  # noqa: E402
from namespaces import Network, permitted  # noqa: E402

GUIDE = os.path.join(SOURCE, "docs", "guide")
SHORTER = 1 if TEST_ALL else 40
NO_CUDA = "only where the CUDA part is not installed"

# `reigen` of the guide: the binary under test, with less to do unless this is make test-all.
SHORT_REIGEN = """#!/usr/bin/env python3
import os, sys
arguments = sys.argv[1:]
for at, argument in enumerate(arguments[:-1]):
    if argument == "--max-steps":
        arguments[at + 1] = str(min(int(arguments[at + 1]), max(5, int(arguments[at + 1]) // {shorter})))
command = arguments[:1]
if {shorter} > 1 and "--offers" not in arguments and "--help" not in arguments:
    if command == ["doctor"]:
        arguments += ["--seconds", "1"]
    if command == ["train"]:
        arguments += ["--preflight", "0.1", "--eval.sentences", "20"]
    if command == ["translate"]:
        arguments += ["--decode.max-ratio", "1.1", "--min-length", "1"]
os.execv({reigen!r}, [{reigen!r}, *arguments])
"""

SSH = """#!/bin/sh
while [ $# -gt 1 ]; do case $1 in -o|-p|-l) shift 2;; -*) shift;; *) break;; esac; done
case $1 in
vm1) at={0};;
vm2) at={1};;
*) echo "ssh: Could not resolve hostname $1: Name or service not known" >&2; exit 255;;
esac
shift
exec ip netns exec "$at" sh -c "$*"
"""


class Block:
    """A fenced block: its language and text, the comments before it, its first line."""

    def __init__(self, page, language, text, comments, line):
        self.page, self.language, self.text, self.line = page, language, text, line
        self.code, self.reason, self.is_output = 0, None, False
        for comment in comments:
            match = re.fullmatch(r"(?:ends with (\d+))?(?:; )?(?:not run: (.+))?|(output)|(?:table:.*|end of table)", comment)
            if not match:
                raise ValueError(f"{page}:{line}: unknown comment {comment!r}")
            self.code = int(match[1] or self.code)
            self.reason = match[2] or self.reason
            self.is_output = bool(match[3])


def blocks_of(page):
    with open(os.path.join(GUIDE, page), encoding="utf-8") as file:
        lines = file.read().splitlines()
    blocks, comments, at = [], [], 0
    while at < len(lines):
        line = lines[at]
        if match := re.fullmatch(r"<!-- (.*) -->", line):
            comments.append(match[1])
        elif match := re.fullmatch(r"```(\w*)", line):
            end = lines.index("```", at + 1)
            blocks.append(Block(page, match[1], "\n".join(lines[at + 1:end]), comments, at + 1))
            comments, at = [], end
        elif line.strip():
            comments = []
        at += 1
    return blocks


def pages():
    """The pages in the order of the index."""
    with open(os.path.join(GUIDE, "README.md"), encoding="utf-8") as file:
        return ["README.md", *re.findall(r"^\d+\. \[[^]]*\]\(([\w-]+\.md)\)", file.read(), re.M)]


def needs_hosts(page):
    return any(re.search(r"\bvm[12]\b", block.text) for block in blocks_of(page) if runs(block))


def runs(block):
    if block.language != "sh":
        return False
    return block.reason is None or (block.reason.startswith(NO_CUDA) and not with_cuda())


def with_cuda():
    done = subprocess.run([REIGEN, "--version"], capture_output=True, text=True)
    return "not installed" not in done.stdout


def pattern_of(line):
    """Of a line of output: "..." is any text, a number any number."""
    escaped = re.escape(line).replace(r"\.\.\.", ".*")
    return re.sub(r"\d[\d,.]*", r"[\\d,.]+", escaped.replace(r"\,", ","))


class Guide(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="reigen-guide-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.programs = os.path.join(cls.folder, "programs")
        os.mkdir(cls.programs)
        cls.program("reigen", SHORT_REIGEN.format(shorter=SHORTER, reigen=REIGEN))
        cls.place = os.path.join(cls.folder, "place")
        os.mkdir(cls.place)
        cls.left_out = []

    @classmethod
    def program(cls, name, text):
        path = os.path.join(cls.programs, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    @classmethod
    def tearDownClass(cls):
        print(f"{len(cls.left_out)} blocks of the guide were not run:", *cls.left_out, sep="\n  ", file=sys.stderr)

    def script(self, page):
        """The page as a shell script: each block writes what it prints to a file, and ends as it should."""
        parts = ["set -u; exec 3>&2"]
        for number, block in enumerate(blocks_of(page)):
            if not runs(block):
                continue
            output = os.path.join(self.folder, f"{page}.{number}")
            shell = "{" if block.code == 0 else "("
            close = "}" if block.code == 0 else ")"
            body = f"set -e\n{shell}\n{block.text}\n{close} > {output} 2>&1"
            if block.code:
                body = f"set +e\n{shell} set -e\n{block.text}\n{close} > {output} 2>&1\nstatus=$?\n" \
                       f"[ $status = {block.code} ] || {{ echo \"{page}:{block.line}: ended with $status, not {block.code}\" >&3; exit 1; }}"
            parts.append(f"at={page}:{block.line}; log={output}\n{body}")
        return "trap '[ $? = 0 ] || { echo \"failed: $at\"; tail -n 20 \"$log\"; } >&3' EXIT\n" + "\n".join(parts) + "\n"

    def run_page(self, page, prefix=()):
        for block in blocks_of(page):
            if block.language == "sh" and not runs(block):
                self.left_out.append(f"{page}:{block.line}: {block.reason}")
        path = os.path.join(self.folder, f"{page}.sh")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.script(page))
        environment = {**os.environ, "PATH": f"{self.programs}:{os.environ['PATH']}"}
        done = subprocess.run([*prefix, "bash", path], cwd=self.place, env=environment, capture_output=True, text=True,
                              timeout=1800, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, f"{page}: {done.stderr}")
        self.check_output(page)

    def check_output(self, page):
        last = None
        for number, block in enumerate(blocks_of(page)):
            if block.language == "sh":
                last = os.path.join(self.folder, f"{page}.{number}") if runs(block) else None
            elif block.is_output and last:
                with open(last, encoding="utf-8", errors="replace") as file:
                    printed = file.read()
                for line in block.text.splitlines():
                    self.assertRegex(printed, f"(?m)^{pattern_of(line)}$", f"{page}:{block.line}")

    def opus(self):
        """A small model in the form of OPUS-MT in place of the one that the page downloads."""
        if os.path.exists(os.path.join(self.place, "opus-mt-en-de")):
            return
        for command in (["train", "--preset", "tiny", "--model.norm", "post", "--data", "data", "--run", "marian",
                         "--max-steps", "100"],
                        ["export", "marian", "--to", "hf", "-o", "opus-mt-en-de"]):
            done = subprocess.run([os.path.join(self.programs, "reigen"), *command], cwd=self.place,
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_every_page_in_order(self):
        for page in pages():
            with self.subTest(page):
                if page == "fine-tuning-opus-mt.md":
                    self.opus()
                if not needs_hosts(page):
                    self.run_page(page)
                elif permitted():
                    with Network(3) as network:
                        self.program("ssh", SSH.format(*network.names))
                        self.run_page(page, network.command(2))
                else:
                    self.left_out.append(f"{page}: network namespaces are not permitted here")
                self.program("ssh", SSH.format("none", "none"))

    def test_the_index_has_every_page(self):
        self.assertEqual(sorted(pages()), sorted(n for n in os.listdir(GUIDE) if n.endswith(".md")))

    def test_every_option_that_a_page_names_exists(self):
        with open(os.path.join(SOURCE, "docs", "options.md"), encoding="utf-8") as file:
            known = set(re.findall(r"--(?:\[no-\])?([\w.-]+)", file.read()))
        with open(os.path.join(GUIDE, "coming-from.md"), encoding="utf-8") as file:
            rows = [line.split("|")[-2] for line in file if line.startswith("| ")]
        named = [name for cell in rows for name in re.findall(r"`--([\w.-]+)", cell)]
        self.assertGreater(len(named), 30)
        for page in pages():
            for block in blocks_of(page):
                for line in re.sub(r"\\\n", " ", block.text).splitlines() if block.language == "sh" else []:
                    if line.startswith("reigen ") and block.code != 2:
                        named += re.findall(r" --([\w.-]+)", line.split(" | ")[0].split("'")[0])
        for name in named:
            self.assertIn(name.removeprefix("no-"), known)

    def test_every_exit_code_is_explained(self):
        def codes(path):
            with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
                return re.findall(r"^\| (\d+) \| ", file.read(), re.M)
        self.assertEqual(codes("docs/guide/when-things-go-wrong.md"), codes("README.md"))


if __name__ == "__main__":
    if shutil.which("bash") is None:
        sys.exit(77)
    unittest.main(verbosity=2)

"""Help, version, suggestions and the generated option page."""

import os
import subprocess
import unittest

from harness import REIGEN, SOURCE, Case, main, run

COMMANDS = ("corpus", "prepare", "inspect", "translate", "evaluate", "schedule", "demo",
            "report", "top", "dashboard")


class Help(Case):
    def test_lists_every_command_and_exit_code(self):
        text = run("help").stdout
        for name in COMMANDS:
            self.assertIn(f"\n  {name}", text)
        self.assertIn("Exit codes", text)
        self.assertEqual(text, run("--help").stdout)

    def test_each_command_explains_itself_on_stdout(self):
        for name in COMMANDS:
            text = run(name, "--help").stdout
            self.assertTrue(text.startswith(f"Usage: reigen {name}"))
            self.assertEqual(text, run("help", name).stdout)
            self.assertLessEqual(max(map(len, text.splitlines())), 100)

    def test_version_names_the_build(self):
        self.assertRegex(run("--version").stdout, r"^reigen \d+\.\d+\.\d+ ")

    def test_typos_get_a_suggestion(self):
        self.assert_fails(run("prepair", check=False), 2, "did you mean 'prepare'?")
        self.assert_fails(run("corpus", "--outptu", "x", check=False), 2, "did you mean --output?")
        self.assert_fails(run(check=False), 2, "reigen help")

    def test_the_option_page_is_current(self):
        with open(os.path.join(SOURCE, "docs/options.md")) as page:
            self.assertEqual(page.read(), run("help", "--markdown").stdout,
                             "docs/options.md is stale: run `make docs`")

    def test_no_colour_when_not_a_terminal(self):
        self.assertNotIn("\x1b", run("nonsense", check=False).stderr)

    def test_a_closed_pipe_is_an_error_not_a_crash(self):
        done = subprocess.run(f"{REIGEN} help --markdown > /dev/full", shell=True,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 7, done.stderr)


if __name__ == "__main__":
    main()

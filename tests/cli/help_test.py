"""Help, version, suggestions and the generated option page."""

import glob
import os
import re
import subprocess

from harness import REIGEN, SOURCE, Case, main, run


def listed_commands():
    """The commands on the overview page, except `help` itself."""
    names = re.findall(r"^  ([a-z]+) +[A-Z].*\.$", run("help").stdout, re.MULTILINE)
    return [name for name in names if name != "help"]


class Help(Case):
    def test_lists_every_command_of_the_source_once(self):
        suffix = "_command.cpp"
        sources = glob.glob(os.path.join(SOURCE, "src/cli/*" + suffix))
        self.assertEqual(sorted(listed_commands()), sorted(os.path.basename(s)[:-len(suffix)] for s in sources))

    def test_the_overview_comes_without_a_command_too(self):
        text = run("help").stdout
        self.assertIn("Exit codes", text)
        self.assertIn("reigen demo --output", text)
        self.assertEqual(text, run("--help").stdout)
        self.assertEqual(text, run().stdout)
        self.assertEqual(text, run("help", "help").stdout)

    def test_each_command_explains_itself_on_stdout(self):
        for name in listed_commands():
            text = run(name, "--help").stdout
            self.assertTrue(text.startswith(f"Usage: reigen {name}"))
            self.assertEqual(text, run("help", name).stdout)
            self.assertLessEqual(max(map(len, text.splitlines())), 100)
            self.assertIn("\nExamples:\n", text)

    def test_version_names_the_build(self):
        self.assertRegex(run("--version").stdout, r"^reigen \d+\.\d+\.\d+ ")

    def test_typos_get_a_suggestion(self):
        self.assert_fails(run("prepair", check=False), 2, "'prepair'", "'prepare'")
        self.assert_fails(run("corpus", "--outptu", "x", check=False), 2, "--outptu", "--output")

    def test_the_option_page_is_current(self):
        with open(os.path.join(SOURCE, "docs/options.md")) as page:
            self.assertEqual(page.read(), run("help", "--markdown").stdout,
                             "docs/options.md is stale: run `make docs`")

    def test_the_reference_of_the_measurement_log_is_current(self):
        with open(os.path.join(SOURCE, "docs/measurement-log.md")) as page:
            self.assertEqual(page.read(), run("help", "--measurement-log").stdout,
                             "docs/measurement-log.md is stale: run `make docs`")

    def test_no_colour_when_not_a_terminal(self):
        self.assertNotIn("\x1b", run("nonsense", check=False).stderr)

    def test_a_closed_pipe_is_an_error_not_a_crash(self):
        done = subprocess.run(f"{REIGEN} help --markdown > /dev/full", shell=True,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 7, done.stderr)


if __name__ == "__main__":
    main()

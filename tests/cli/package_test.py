"""The content of the relocatable archive, as `make package` packs it, away from the libraries it was built with."""

import os
import re
import shutil
import subprocess

import harness
from harness import REIGEN, SOURCE

# Skips ssh's options, and runs the command with a home directory of its own.
SSH = """#!/bin/sh
while [ $# -gt 0 ]; do case $1 in -o|-p|-l) shift 2;; -*) shift;; *) break;; esac; done
shift
HOME=%s exec sh -c "$*"
"""
SMALL = ["--model.width", 32, "--model.heads", 2, "--model.ffn-width", 64, "--model.encoder-layers", 1,
         "--model.decoder-layers", 1, "--batch.target-tokens", 300, "--max-steps", 4, "--eval.sentences", 4,
         "--eval.every", 4, "--checkpoint.every", 4]


class Archive(harness.Case):
    @classmethod
    def setUpClass(cls):
        case = cls("setUp")
        case.setUp()
        cls.addClassCleanup(case.doCleanups)
        cls.tree = case.path("reigen tree")  # a folder with a blank in its name
        subprocess.run([f"{SOURCE}/packaging/package.sh", "tree", cls.tree], check=True,
                       env={**os.environ, "BUILD": os.path.dirname(REIGEN)})
        cls.launcher = f"{cls.tree}/bin/reigen"

    def call(self, command, **kwargs):
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300, **kwargs)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_it_is_the_program_from_wherever_it_is_called(self):
        version = harness.run("--version").stdout.splitlines()[0]
        os.symlink(self.launcher, self.path("reigen"))
        for command, kwargs in (([self.launcher], {}), (["bin/reigen"], {"cwd": self.tree}),
                                (["./reigen"], {"cwd": self.folder}), ([self.path("reigen")], {"cwd": "/"}),
                                (["reigen"], {"env": {"PATH": f"{self.tree}/bin"}}),
                                # of a launcher that is this process's parent
                                ([self.launcher], {"env": {"REIGEN_LAUNCHER": "1:/no/such/program"}})):
            with self.subTest(command=command):
                self.assertEqual(self.call([*command, "--version"], **kwargs).stdout.splitlines()[0], version)

    def test_the_launcher_needs_no_loader_and_the_program_only_the_libraries_beside_it(self):
        headers = self.call(["readelf", "-lW", self.launcher]).stdout
        self.assertNotIn("INTERP", headers)
        needed = set()
        for name in os.listdir(f"{self.tree}/lib/reigen"):
            dynamic = self.call(["readelf", "-dW", f"{self.tree}/lib/reigen/{name}"]).stdout
            needed |= set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
        missing = needed - set(os.listdir(f"{self.tree}/lib/reigen"))
        self.assertEqual({name for name in missing if not name.startswith("ld-linux")}, set())

    def test_each_library_comes_with_a_licence(self):
        licences = f"{self.tree}/share/doc/reigen/licenses"
        self.assertTrue(all(os.path.getsize(f"{licences}/{name}") for name in os.listdir(licences)))
        self.assertGreater(len(os.listdir(licences)), 10)

    def test_a_root_with_nothing_else_in_it_trains_with_workers_and_translates(self):
        enter = ["chroot"] if os.geteuid() == 0 else ["unshare", "-r", "chroot"]
        root = self.path("root")
        shutil.copytree(self.tree, f"{root}/opt/reigen")
        os.mkdir(f"{root}/training")
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}  # for `chroot`; inside of the root there is no such folder

        def reigen(*args, **kwargs):
            return self.call([*enter, root, "/opt/reigen/bin/reigen", *args], env=env, **kwargs)

        if subprocess.run([*enter, root, "/opt/reigen/bin/reigen", "--version"], env=env, capture_output=True).returncode != 0:
            if subprocess.run([*enter, "/", "/bin/true"], env=env, capture_output=True).returncode != 0:
                self.skipTest("a different root directory is not permitted here")
        reigen("corpus", "--pairs", 1000, "--valid-pairs", 50, "--test-pairs", 50, "--output", "/training/text", "--quiet")
        pairs = [["--" + split, f"/training/text/{split}.en", f"/training/text/{split}.de"] for split in ("train", "valid", "test")]
        reigen("prepare", "--source", "en", "--target", "de", *sum(pairs, []), "--vocab-size", 400,
               "--output", "/training/data", "--quiet")
        done = reigen("train", "--data", "/training/data", "--run", "/training/run", "--workers", 2, *SMALL)
        self.assertIn("2 workers", done.stderr)
        lines = reigen("translate", "--model", "/training/run", input="one\ntwo\n").stdout
        self.assertEqual(len(lines.splitlines()), 2)
        self.assertEqual(sorted(os.listdir(root)), ["opt", "training"])

    def test_a_detached_run_starts_its_workers_with_all_of_it(self):
        data = self.prepare_for_class(pairs=1000, vocab_size=400)
        self.call([self.launcher, "train", "--data", data, "--run", self.path("run"), "--workers", 2, "--detach", *SMALL])
        self.assertIn("done:", self.call([self.launcher, "attach", self.path("run")]).stdout)

    def test_hosts_that_have_only_a_shell_get_all_of_it(self):
        data = self.prepare_for_class(pairs=1000, vocab_size=400)
        home = self.path("home")
        os.mkdir(home)
        ssh = self.write("ssh", SSH % home)
        os.chmod(ssh, 0o755)
        command = [self.launcher, "train", "--data", data, "--hosts", "vm1:2", "--copy-binary", *SMALL]
        env = {**os.environ, "REIGEN_SSH": ssh}
        for run in ("one", "two"):  # the second time the copy is there
            self.call([*command, "--run", self.path(run)], env=env)
        copy, = os.listdir(f"{home}/.cache/reigen")
        self.assertEqual(sorted(os.listdir(f"{home}/.cache/reigen/{copy}")), ["bin", "lib"])
        self.assertEqual(sorted(os.listdir(f"{home}/.cache/reigen/{copy}/lib/reigen")),
                         sorted(os.listdir(f"{self.tree}/lib/reigen")))


class Pages(harness.Case):
    def test_bash_completes_commands_options_and_values(self):
        script = self.write("completion", harness.run("help", "--completion", "bash").stdout)
        for words, expected in ((["reigen", "tra"], ["train", "translate"]), (["reigen", "train", "--max-ste"], ["--max-steps"]),
                                (["reigen", "train", "--recipe", "cl"], ["classic"]), (["reigen", "help", "sched"], ["schedule"])):
            done = subprocess.run(
                ["bash", "-c", f'. {script}; COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; _reigen; '
                 'printf "%s\\n" "${COMPREPLY[@]}"'], capture_output=True, text=True)
            for word in expected:
                self.assertIn(word, done.stdout.split(), (words, done.stderr))

    def test_every_option_is_in_the_manual_page_and_in_each_completion(self):
        pages = {"man": harness.run("help", "--man").stdout.replace("\\-", "-")}
        for shell in ("bash", "zsh", "fish"):
            pages[shell] = harness.run("help", "--completion", shell).stdout
        options = re.findall(r"^\| `\S+` \| `--(?:\[no-\])?([\w.-]+)", harness.run("help", "--markdown").stdout, re.MULTILINE)
        self.assertGreater(len(options), 200)
        for name, page in pages.items():
            self.assertEqual([o for o in options if o not in page], [], name)

    def test_an_unknown_shell_is_refused(self):
        self.assert_fails(harness.run("help", "--completion", "tcsh", check=False), 2, "tcsh", "zsh")


if __name__ == "__main__":
    harness.main()

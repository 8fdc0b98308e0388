"""Files that earlier versions wrote stay readable: a dataset, a run of two workers, its checkpoints.

tests/fixtures/VERSION/files.tar.xz holds the files of that version, expected.json its output for
them. A fixture is never written again; a change of format adds one.
"""

import json
import os
import shutil
import tarfile

import harness
from harness import SOURCE, run

FIXTURES = os.path.join(SOURCE, "tests", "fixtures")


class OldFiles(harness.Case):
    def each(self):
        for version in sorted(name for name in os.listdir(FIXTURES) if name[0].isdigit()):
            with self.subTest(version=version):
                folder = self.path(version)
                shutil.rmtree(folder, ignore_errors=True)
                with tarfile.open(os.path.join(FIXTURES, version, "files.tar.xz")) as archive:
                    archive.extractall(folder)
                with open(os.path.join(FIXTURES, version, "expected.json")) as file:
                    yield folder, json.load(file)

    def records(self, folder, kind):
        with open(f"{folder}/run/measurements/rank-0.jsonl") as file:
            lines = [json.loads(line) for line in file]
        return {r["step"]: r for r in lines if r["kind"] == kind}

    def test_there_is_a_fixture(self):
        self.assertIn("0.1", os.listdir(FIXTURES))

    def test_a_dataset_is_read_and_verified(self):
        for folder, _ in self.each():
            found = json.loads(run("inspect", f"{folder}/dataset", "--verify", "--json").stdout)
            self.assertEqual([c["lines_kept"] for c in found["train"]], [400])
            self.assertEqual(found["vocabulary"]["size"], 200)

    def test_a_checkpoint_translates_as_before(self):
        for folder, expected in self.each():
            with open(f"{folder}/dataset/test.en") as file:
                lines = "".join(file.readlines()[:len(expected["translations"])])
            done = run("translate", "--model", f"{folder}/run/last", input=lines)
            self.assertEqual(done.stdout.splitlines(), expected["translations"])

    def test_a_run_is_resumed_where_it_stopped(self):
        for folder, expected in self.each():
            last = max(map(int, expected["losses"]))
            run("train", "--run", f"{folder}/run", "--data", f"{folder}/dataset",
                "--max-steps", last, "--quiet")
            steps = self.records(folder, "step")
            self.assertEqual(sorted(steps), list(range(1, last + 1)))
            for step, loss in expected["losses"].items():
                self.assertAlmostEqual(steps[int(step)]["loss"], loss, delta=1e-3)
            evaluations = self.records(folder, "evaluation")
            for step, nll in expected["nll"].items():
                self.assertAlmostEqual(evaluations[int(step)]["nll"], nll, delta=1e-3)

    def test_a_run_is_reported_with_and_without_its_rollup(self):
        for folder, _ in self.each():
            for rollup in (True, False):
                if not rollup:
                    os.remove(f"{folder}/run/measurements/rollup.json")
                done = run("report", f"{folder}/run", "--json")
                report = json.loads(done.stdout)
                answers = {q["id"]: q["answer"] for q in report["questions"]}
                self.assertIn("48 steps", answers["how-long"])
                self.assertIn("400 sentence pairs", answers["training-set"])

    def test_renamed_fields_of_a_log_are_read(self):
        for folder, _ in self.each():
            os.remove(f"{folder}/run/measurements/rollup.json")
            numbers = json.loads(run("report", f"{folder}/run", "--json").stdout)["numbers"]
            stalls = [r.get("held_seconds") or r["stall_seconds"]
                      for r in self.records(folder, "checkpoint").values()]
            self.assertGreater(sum(stalls), 0)
            self.assertAlmostEqual(numbers["shares"]["checkpoint"], sum(stalls), places=6)
            sent = sum(r["communication"]["sent"] for r in self.records(folder, "step").values())
            self.assertEqual(numbers["ranks"][0]["bytes_sent"], sent)

    def test_a_later_version_is_refused_with_both_numbers(self):
        later = lambda manifest: manifest.update(version=99)
        for folder, _ in self.each():
            name = os.path.basename(folder)
            self.change_manifest(f"{name}/run/last", later)
            done = run("translate", "--model", f"{folder}/run/last", input="x", check=False)
            self.assert_fails(done, 4, "version 99", "1 to 4")
            self.change_manifest(f"{name}/dataset", later)
            done = run("inspect", f"{folder}/dataset", check=False)
            self.assert_fails(done, 3, "version 99", "1 to 3")


if __name__ == "__main__":
    harness.main()

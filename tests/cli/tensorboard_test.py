"""TensorBoard shows the numbers of a real run's measurement log."""

import json
import struct

import event_reader
import harness
from harness import run


def rounded(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


class EventFiles(harness.Case):
    def train(self, *more):
        run(*self.prepare_args(self.corpus(pairs=1500), vocab_size=300), "--quiet")
        run("train", "--data", self.path("data"), "--run", self.path("run"), "--preset", "tiny",
            "--model.width", 32, "--model.heads", 2, "--model.ffn-width", 64, "--model.encoder-layers", 1,
            "--model.decoder-layers", 1, "--batch.target-tokens", 600, "--threads", 1, "--eval.every", 20,
            "--eval.sentences", 4, "--eval.samples", 2, "--log-every", 5, *more)

    def records(self, rank=0):
        log = self.read(f"run/measurements/rank-{rank}.jsonl")
        return [json.loads(line) for line in log.splitlines()]

    def test_values_are_those_of_the_log(self):
        self.train("--max-steps", 150, "--workers", 2)
        steps = {r["step"]: r for r in self.records() if r["kind"] == "step"}
        samples = [r for r in self.records() if r["kind"] == "sample"]
        evaluations = {r["step"]: r for r in self.records() if r["kind"] == "evaluation"}
        seen = {}
        machines = []
        for step, tag, scalar, _ in event_reader.values(self.path("run")):
            seen.setdefault(tag, []).append(step)
            if tag.startswith("step seconds/"):
                self.assertEqual(scalar, rounded(steps[step]["spans"][tag.split("/")[1]]), tag)
            elif tag == "network/sent_MB_per_second":
                sent = steps[step]["communication"]["sent"] / 1e6
                self.assertAlmostEqual(scalar, sent / steps[step]["seconds"], delta=1e-3 * scalar)
            elif tag in ("train/loss", "train/nll"):
                self.assertEqual(scalar, rounded(steps[step][tag.split("/")[1]]))
            elif tag == "eval/loss":
                self.assertEqual(scalar, rounded(evaluations[step]["nll"]))
            elif tag == "machine of rank 0/network_out_MB_per_second":
                machines.append(scalar)
        used = [i["out"] / 1e6 for r in samples for i in r["interfaces"] if i.get("used")]
        self.assertEqual(machines, [rounded(value) for value in used])
        self.assertGreater(len(machines), 0)
        self.assertEqual(seen["train/loss"], [1, *range(5, 151, 5)])
        self.assertEqual(seen["step seconds/communication"], seen["train/loss"])
        self.assertEqual(seen["eval/samples"], [*range(20, 141, 20), 150])
        self.assertIn("network/sent_MB_per_second", seen)

    def test_settings_are_on_the_hparams_page(self):
        self.train("--max-steps", 5)
        plugins = {}
        for _, tag, _, value in event_reader.values(self.path("run")):
            if 9 not in value:
                continue
            plugin = event_reader.message(event_reader.message(value[9][0])[1][0])
            plugins[tag] = (plugin[1][0].decode(), plugin.get(2, [b""])[0], value)
        self.assertEqual(plugins["config"][0], "text")
        text = event_reader.message(plugins["config"][2][8][0])[8][0].decode()
        self.assertIn("    preset: tiny\n", text)
        name, content, _ = plugins["_hparams_/session_start_info"]
        self.assertEqual(name, "hparams")
        session = event_reader.message(event_reader.message(content)[3][0])
        settings = {}
        for entry in map(event_reader.message, session[1]):
            settings[entry[1][0].decode()] = event_reader.message(entry[2][0])
        self.assertEqual(struct.unpack("<d", settings["model.width"][2][0])[0], 32)
        self.assertEqual(settings["preset"][3][0], b"tiny")
        experiment = event_reader.message(event_reader.message(plugins["_hparams_/experiment"][1])[2][0])
        self.assertEqual(len(experiment[4]), len(settings))
        end = event_reader.message(event_reader.message(plugins["_hparams_/session_end_info"][1])[4][0])
        self.assertEqual(end[1][0], 1)  # success


if __name__ == "__main__":
    harness.main()

"""recipes/cluster: Slurm for real; manifests by their fields, and their commands as local processes."""

import glob
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ["REIGEN_SOURCE"], "tests", "cli"))
import harness  # noqa: E402
from harness import REIGEN, SOURCE, free_port  # noqa: E402
from slurm import Slurm  # noqa: E402

try:
    import yaml
except ImportError:
    yaml = None

CLUSTER = os.path.join(SOURCE, "recipes", "cluster")
SMALL = ["--preset", "tiny", "--model.width", "32", "--model.heads", "2", "--threads", "1", "--batch.target-tokens", "300",
         "--eval.sentences", "4", "--checkpoint.every", "10", "--preflight", "0.1"]

# The fields of each object, with those that are required in capitals, as the reference documents of Kubernetes 1.29,
# training-operator 1.8, mpi-operator 0.5 and SkyPilot 0.10 list them; "*" is any value.
POD = {"subdomain": "*", "restartPolicy": ("Always", "OnFailure", "Never"), "terminationGracePeriodSeconds": "*",
       "securityContext": {"runAsNonRoot": "*", "runAsUser": "*", "fsGroup": "*"},
       "CONTAINERS": [{"NAME": "*", "image": "*", "command": "*", "args": "*",
                       "env": [{"NAME": "*", "value": "*",
                                "valueFrom": {"fieldRef": {"FIELDPATH": "*"}, "secretKeyRef": {"name": "*", "KEY": "*"}}}],
                       "resources": {"limits": "*", "requests": "*"},
                       "volumeMounts": [{"NAME": "*", "MOUNTPATH": "*", "readOnly": "*"}]}],
       "volumes": [{"NAME": "*", "persistentVolumeClaim": {"CLAIMNAME": "*"}}]}
REPLICAS = {"replicas": "*", "restartPolicy": ("Always", "OnFailure", "Never", "ExitCode"), "template": {"metadata": "*", "spec": POD}}
POLICY = {"backoffLimit": "*", "cleanPodPolicy": ("Running", "All", "None"), "ttlSecondsAfterFinished": "*", "activeDeadlineSeconds": "*"}
FIELDS = {
    "v1 Service": {"APIVERSION": "*", "KIND": "*", "METADATA": {"NAME": "*"},
                   "spec": {"clusterIP": "*", "publishNotReadyAddresses": "*", "selector": "*", "ports": "*"}},
    "batch/v1 Job": {"APIVERSION": "*", "KIND": "*", "METADATA": {"NAME": "*"}, "spec": {
        "completionMode": ("Indexed", "NonIndexed"), "completions": "*", "parallelism": "*", "backoffLimit": "*",
        "podFailurePolicy": {"RULES": [{"ACTION": ("Ignore", "FailJob", "Count", "FailIndex"),
                                        "onPodConditions": [{"TYPE": "*", "status": "*"}],
                                        "onExitCodes": {"OPERATOR": ("In", "NotIn"), "VALUES": "*", "containerName": "*"}}]},
        "TEMPLATE": {"metadata": "*", "spec": POD}}},
    "kubeflow.org/v1 PyTorchJob": {"APIVERSION": "*", "KIND": "*", "METADATA": {"NAME": "*"}, "SPEC": {
        "runPolicy": POLICY, "nprocPerNode": "*", "PYTORCHREPLICASPECS": {"Master": REPLICAS, "Worker": REPLICAS}}},
    "kubeflow.org/v2beta1 MPIJob": {"APIVERSION": "*", "KIND": "*", "METADATA": {"NAME": "*"}, "SPEC": {
        "slotsPerWorker": "*", "runPolicy": POLICY, "MPIREPLICASPECS": {"LAUNCHER": REPLICAS, "Worker": REPLICAS}}},
    "skypilot": {"name": "*", "num_nodes": "*", "setup": "*", "RUN": "*", "envs": "*", "secrets": "*", "file_mounts": "*", "workdir": "*",
                 "resources": {"accelerators": "*", "use_spot": "*", "image_id": "*", "infra": "*", "cpus": "*", "memory": "*",
                               "job_recovery": {"strategy": "*", "max_restarts_on_errors": "*"}}},
}

# A bucket in a folder, with as much of `aws` as the scripts use.
AWS = """#!/bin/sh
set -eu
place() { case $1 in s3://*) echo "$BUCKET_FOLDER/${1#s3://}";; *) echo "$1";; esac; }
shift; verb=$1; shift
recursive=
while :; do case $1 in --only-show-errors) shift;; --recursive) recursive=yes; shift;; *) break;; esac; done
case $verb in
sync) mkdir -p "$2"; cp -r "$(place "$1")/." "$2";;
ls) ls -A "$(place "$1")" | sed 's/^/2026-11-19 05:00:00 1 /';;
cp) if [ "$1" = - ]; then mkdir -p "$(dirname "$(place "$2")")"; cat > "$(place "$2")"
    elif [ "$2" = - ]; then cat "$(place "$1")"
    elif [ -n "$recursive" ]; then mkdir -p "$(place "$2")"; cp -r "$1/." "$(place "$2")"
    else cp "$(place "$1")" "$2"; fi;;
esac
"""


def wrong_fields(value, fields, path):
    """What `value` has that `fields` does not allow, or lacks."""
    if fields == "*":
        return []
    if isinstance(fields, tuple):
        return [] if value in fields else [f"{path}: {value!r} is none of {fields}"]
    if isinstance(fields, list):
        return [e for i, one in enumerate(value) for e in wrong_fields(one, fields[0], f"{path}[{i}]")]
    known = {key.lower(): key for key in fields}
    errors = [f"{path}.{key} is no field" for key in value if key.lower() not in known or
              (key not in fields and not known[key.lower()].isupper())]
    errors += [f"{path}: {key.lower()} is missing" for key in fields if key.isupper() and key.lower() not in map(str.lower, value)]
    for key, one in value.items():
        if key.lower() in known:
            errors += wrong_fields(one, fields[known[key.lower()]], f"{path}.{key}")
    return errors


class Cluster(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.data = cls.prepare_for_class(pairs=1000, vocab_size=400)

    def documents(self, name):
        if yaml is None:
            self.skipTest("PyYAML is not installed (Debian: python3-yaml)")
        with open(os.path.join(CLUSTER, name), encoding="utf-8") as file:
            return list(yaml.safe_load_all(file))

    def program(self, name, text):
        os.makedirs(self.path("programs"), exist_ok=True)
        os.chmod(self.write(f"programs/{name}", text), 0o755)

    def environment(self, **more):
        return {**os.environ, "PATH": f"{self.path('programs')}:{os.environ['PATH']}", **{k: str(v) for k, v in more.items()}}

    def losses(self, name):
        records = map(json.loads, self.read(f"{name}/measurements/rank-0.jsonl").splitlines())
        return {r["step"]: r["loss"] for r in records if r["kind"] == "step"}

    def starts(self, name):
        return [json.loads(line) for line in self.read(f"{name}/measurements/rank-0.jsonl").splitlines() if '"kind":"start"' in line]

    def test_every_field_is_known(self):
        found = 0
        for path in sorted(glob.glob(os.path.join(CLUSTER, "*.yaml"))):
            for document in self.documents(os.path.basename(path)):
                kind = f"{document['apiVersion']} {document['kind']}" if "kind" in document else "skypilot"
                self.assertEqual(wrong_fields(document, FIELDS[kind], os.path.basename(path)), [])
                found += 1
        self.assertEqual(found, 5)

    def test_the_check_of_fields_finds_a_wrong_one(self):
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"},
               "spec": {"completionMode": "indexed", "template": {"spec": {"containers": [{"image": "x"}], "restartpolicy": "Never"}}}}
        errors = wrong_fields(job, FIELDS["batch/v1 Job"], "x")
        self.assertEqual(len(errors), 3, errors)

    def arguments(self, container, run):
        """The command of a container, with a small model in place of its preset."""
        line = [a.replace("/training/data", self.data).replace("/training/runs/first", self.path(run)) for a in container["args"]]
        self.assertEqual(line[0], "train")
        return [REIGEN, *line, *SMALL, "--max-steps", "20"]

    def start_workers(self, run, containers, port):
        workers = []
        for rank, container in enumerate(containers):
            given = {e["name"]: e.get("value") for e in container["env"]}
            self.assertIn("REIGEN_TOKEN", given)
            self.assertIsNone(given["REIGEN_TOKEN"], "a secret does not belong into a manifest")
            environment = self.environment(RANK=rank, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                                           REIGEN_TOKEN="0123456789abcdef0123456789abcdef")
            workers.append(subprocess.Popen(self.arguments(container, run), env=environment, stdout=subprocess.DEVNULL,
                                            stderr=subprocess.PIPE, text=True))
        for worker in workers:
            error = worker.communicate(timeout=120)[1]
            self.assertEqual(worker.returncode, 0, error)
        self.assertEqual(len(self.losses(run)), 20)

    def test_the_commands_of_the_manifests_train(self):
        job = [d for d in self.documents("kubernetes.yaml") if d["kind"] == "Job"][0]["spec"]
        container = job["template"]["spec"]["containers"][0]
        given = {e["name"]: e.get("value") for e in container["env"]}
        self.assertEqual(int(given["WORLD_SIZE"]), job["completions"])
        self.start_workers("job", [container] * 2, free_port())
        replicas = self.documents("kubeflow-pytorchjob.yaml")[0]["spec"]["pytorchReplicaSpecs"]
        containers = [replicas[kind]["template"]["spec"]["containers"][0] for kind in ("Master", "Worker")]
        self.assertEqual(containers[0]["name"], "pytorch")
        self.start_workers("pytorchjob", containers, free_port())

    def test_the_exit_codes_of_the_manifest_are_those_that_repeat(self):
        rules = [d for d in self.documents("kubernetes.yaml") if d["kind"] == "Job"][0]["spec"]["podFailurePolicy"]["rules"]
        codes = [rule["onExitCodes"]["values"] for rule in rules if "onExitCodes" in rule]
        self.assertEqual(codes, [[2, 3, 4, 7, 8]])  # all others may succeed another time (dist/launch/restarts.h)

    def small_reigen(self):
        """`reigen` with a small model and few steps, whatever the script says."""
        self.program("reigen", f"#!/bin/sh\ncase $1 in train) exec {REIGEN} \"$@\" {' '.join(SMALL)} --max-steps ${{STEPS:-60}};; esac\n"
                               f"exec {REIGEN} \"$@\"\n")
        self.program("aws", AWS)
        os.makedirs(self.path("bucket/my-bucket/reigen"))
        subprocess.run(["cp", "-r", self.data, self.path("bucket/my-bucket/reigen/data")], check=True)
        subprocess.run(["cp", os.path.join(CLUSTER, "bucket-copy.sh"), self.path("bucket/my-bucket/reigen")], check=True)

    def test_a_spot_instance_continues_where_the_one_before_ended(self):
        self.small_reigen()

        def start(work, **more):
            return subprocess.Popen(["bash", os.path.join(CLUSTER, "spot-start.sh")], stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                    env=self.environment(WORK=self.path(work), BUCKET_FOLDER=self.path("bucket"),
                                                         POWEROFF=f"touch {self.path('off')}", **more), start_new_session=True)
        first = start("vm1", STEPS=100000)
        deadline = time.time() + 120
        while not os.path.exists(self.path("bucket/my-bucket/reigen/copy/last")) and time.time() < deadline and first.poll() is None:
            time.sleep(0.02)
        os.killpg(first.pid, signal.SIGKILL)  # the machine is gone, and its disk
        first.communicate()
        subprocess.run(["rm", "-rf", self.path("vm1")], check=True)
        self.assertFalse(os.path.exists(self.path("off")))
        step = int(self.read("bucket/my-bucket/reigen/copy/last").strip()[-8:])
        second = start("vm2", STEPS=step + 20)
        error = second.communicate(timeout=120)[1]
        self.assertEqual(second.returncode, 0, error)
        self.assertEqual(sorted(self.losses("vm2/run")), list(range(step + 1, step + 21)))
        self.assertTrue(os.path.exists(self.path("off")))

    def test_a_name_from_the_bucket_leads_nowhere_else(self):
        self.program("aws", AWS)
        place = "bucket/my-bucket"
        os.makedirs(self.path(f"{place}/copy/step-1"))
        os.makedirs(self.path(f"{place}/outside"))
        self.write(f"{place}/copy/step-1/a", "a")
        self.write(f"{place}/outside/a", "a")
        for name, code in (("step-1", 0), ("../outside", 1), ("step-1/../../outside", 1), ("", 1), ("step-", 1)):
            self.write(f"{place}/copy/last", name + "\n")
            done = subprocess.run(["sh", os.path.join(CLUSTER, "bucket-copy.sh"), "get", self.path("new/folder")], capture_output=True, text=True,
                                  env=self.environment(BUCKET_FOLDER=self.path("bucket"), REIGEN_COPY="s3://my-bucket/copy"))
            self.assertEqual(done.returncode, code, (name, done.stderr))
            self.assertEqual(os.listdir(self.path("new")), ["folder"])

    def test_the_task_of_skypilot_trains_and_continues_from_its_bucket(self):
        self.small_reigen()
        task = self.documents("skypilot.yaml")[0]
        self.assertEqual(task["secrets"], {"REIGEN_TOKEN": None})
        os.symlink(self.data, self.path("data"))
        script = task["run"].replace("/training/data", self.data).replace("/training/bucket-copy.sh", os.path.join(CLUSTER, "bucket-copy.sh"))

        def train(home, steps):
            port = free_port()
            nodes = []
            for rank in range(task["num_nodes"]):
                os.makedirs(self.path(f"{home}{rank}"))
                environment = self.environment(SKYPILOT_NODE_RANK=rank, SKYPILOT_NUM_NODES=2, SKYPILOT_NODE_IPS="127.0.0.1\n127.0.0.2",
                                               REIGEN_TOKEN="0123456789abcdef0123456789abcdef", HOME=self.path(f"{home}{rank}"),
                                               BUCKET_FOLDER=self.path("bucket"), STEPS=steps, **task["envs"])
                nodes.append(subprocess.Popen(["bash", "-c", script.replace("29700", str(port))], env=environment, stderr=subprocess.PIPE, text=True))
            for node in nodes:
                error = node.communicate(timeout=120)[1]
                self.assertEqual(node.returncode, 0, error)
        train("a", 20)
        train("b", 30)
        self.assertEqual(sorted(self.losses("b0/run")), list(range(21, 31)))
        self.assertFalse(os.path.exists(self.path("b1/run")))

    def test_slurm_requeues_a_job_and_its_run_resumes(self):
        try:
            slurm = Slurm(self.path("slurm"))
        except (FileNotFoundError, RuntimeError) as error:
            self.skipTest(str(error))
        with slurm:
            def call(*command):
                return subprocess.run(command, env={**slurm.environment, "REIGEN": REIGEN}, capture_output=True, text=True, cwd=self.folder)
            # The node of the test has few cores and no GPU; all else is the script's.
            done = call("sbatch", "--parsable", "--nodes=1", "--ntasks-per-node=2", "--gpus-per-node=0", "--overcommit", "--output=out",
                        os.path.join(CLUSTER, "slurm.sbatch"), "--data", self.data, "--run", self.path("run"), *SMALL, "--max-steps", "600")
            self.assertEqual(done.returncode, 0, done.stderr)
            job = done.stdout.strip()
            self.addCleanup(call, "scancel", job)
            self.wait(lambda: os.path.islink(self.path("run/last")), call, job)
            self.assertEqual(call("scontrol", "requeue", job).returncode, 0)
            self.wait(lambda: "JobState=PENDING" in call("scontrol", "show", "job", job).stdout, call, job)
            call("scontrol", "update", f"jobid={job}", "StartTime=now")  # Slurm waits two minutes before it starts a job again
            self.wait(lambda: "JobState=COMPLETED" in call("scontrol", "show", "job", job).stdout, call, job)
        starts = self.starts("run")
        self.assertEqual([s["workers"] for s in starts], [2, 2])
        self.assertGreater(starts[1]["step"], 0)
        self.assertEqual(sorted(self.losses("run")), list(range(1, 601)))

    def wait(self, condition, call, job):
        deadline = time.time() + 180
        while not condition():
            if time.time() > deadline:
                output = self.read("out") if os.path.exists(self.path("out")) else ""
                self.fail(call("scontrol", "show", "job", job).stdout + output[-3000:])
            time.sleep(0.2)


if __name__ == "__main__":
    harness.main()

"""A cluster of Slurm's own making: its controller and one node, on ports and in a folder of their own."""

import getpass
import os
import shutil
import socket
import subprocess
import time

from harness import free_port

CONFIG = """ClusterName=reigen-test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores}
PartitionName=all Nodes=ALL Default=YES OverSubscribe=YES
"""


class Slurm:
    """`with Slurm(folder) as slurm: subprocess.run(slurm.command(2, ...), env=slurm.environment)`.

    Raises FileNotFoundError where Slurm is not installed, RuntimeError where it does not start."""

    def __init__(self, folder):
        for program in ("slurmctld", "slurmd", "srun"):
            if shutil.which(program) is None:
                raise FileNotFoundError(f"{program} is not installed")
        self.folder = folder
        for name in ("state", "spool"):
            os.makedirs(os.path.join(folder, name))
        path = os.path.join(folder, "slurm.conf")
        with open(path, "w") as file:
            file.write(CONFIG.format(host=socket.gethostname().split(".")[0], controller=free_port(), node=free_port(),
                                     user=getpass.getuser(), folder=folder, cores=len(os.sched_getaffinity(0))))
        self.environment = {**os.environ, "SLURM_CONF": path}
        self.parts = [self._start(program, "-D", "-f", path) for program in ("slurmctld", "slurmd")]
        try:
            self._wait()
        except RuntimeError:
            self.close()
            raise

    def _start(self, *command):
        with open(os.path.join(self.folder, f"{command[0]}.log"), "w") as log:
            return subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)

    def _wait(self):
        deadline = time.time() + 30
        while time.time() < deadline:
            state = subprocess.run(["sinfo", "-h", "-o", "%T"], env=self.environment, capture_output=True, text=True)
            if state.stdout.strip() == "idle":
                return
            time.sleep(0.2)
        logs = "".join(open(os.path.join(self.folder, f"{p}.log")).read()[-500:] for p in ("slurmctld", "slurmd"))
        raise RuntimeError(f"Slurm did not start: {logs}")

    @staticmethod
    def command(tasks):
        return ["srun", "-n", str(tasks), "--overcommit"]

    def close(self):
        for part in self.parts:
            part.terminate()
            try:
                part.wait(10)
            except subprocess.TimeoutExpired:
                part.kill()
                part.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

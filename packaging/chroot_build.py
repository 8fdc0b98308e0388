#!/usr/bin/env python3
"""Carries out a Containerfile in root directories, where no container tool works:

    sudo packaging/chroot_build.py OUTPUT_FOLDER [COMMAND...]

Each stage is a Debian root made with debootstrap (from $MIRROR, or its default). COMMAND is then run
through the entry point of the last stage, as its user: `chroot_build.py /tmp/image -- --version`.
Of the instructions it knows those that the Containerfile has; a different one is an error.
"""

import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
SUITES = {"debian:12-slim": "bookworm"}


class Stage:
    def __init__(self, image, folder):
        self.folder = folder
        self.directory = "/"
        self.user = "root"
        self.entry_point = []
        mirror = [os.environ["MIRROR"]] if os.environ.get("MIRROR") else []
        subprocess.run(["debootstrap", "--variant=minbase", SUITES[image], folder, *mirror], check=True,
                       stdout=subprocess.DEVNULL)

    def call(self, command):
        os.makedirs(self.folder + self.directory, exist_ok=True)
        inside = f"cd {shlex.quote(self.directory)} && {command}"
        # Without the network's names in it a root cannot install anything.
        shutil.copy("/etc/resolv.conf", f"{self.folder}/etc/resolv.conf")
        return subprocess.run(["chroot", f"--userspec={self.user}", self.folder, "/bin/sh", "-c", inside],
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive",
                                   "HOME": "/root"})

    def copy(self, sources, target):
        for source in sources:
            name = self.folder + os.path.join(self.directory, target)
            if os.path.isdir(source):
                shutil.copytree(source, name, symlinks=True, dirs_exist_ok=True, ignore=ignored)
            else:
                os.makedirs(name, exist_ok=True)
                shutil.copy(source, name)


def ignored(folder, names):
    with open(f"{SOURCE}/.containerignore", encoding="utf-8") as file:
        unwanted = file.read().split()
    return [n for n in names if os.path.samefile(folder, SOURCE) and n in unwanted]


def instructions():
    with open(f"{SOURCE}/Containerfile", encoding="utf-8") as file:
        text = re.sub(r"^\s*#.*\n", "", file.read(), flags=re.M)
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip():
            yield line.split(None, 1)


def build(output):
    stages = {}
    stage = None
    for kind, rest in instructions():
        print(f"{kind} {rest}", flush=True)
        if kind == "FROM":
            image, _, name = rest.partition(" AS ")
            name = name or "last"
            stage = stages[name] = Stage(image, os.path.join(output, name))
        elif kind == "COPY":
            *sources, target = rest.split()
            origin = SOURCE
            if sources[0].startswith("--from="):
                origin = stages[sources.pop(0).removeprefix("--from=")].folder
            stage.copy([path for s in sources for path in glob.glob(os.path.join(origin, s.lstrip("/")))], target)
        elif kind == "RUN":
            if stage.call(rest).returncode != 0:
                sys.exit(f"this step failed: RUN {rest}")
        elif kind == "USER":
            stage.user = rest
        elif kind == "WORKDIR":
            stage.directory = rest
        elif kind == "ENTRYPOINT":
            stage.entry_point = json.loads(rest)
        else:
            sys.exit(f"{kind} is not known to this script")
    return stage


def main():
    arguments = [a for a in sys.argv[1:] if a != "--"]
    if not arguments:
        sys.exit(__doc__)
    stage = build(arguments[0])
    if arguments[1:]:
        sys.exit(stage.call(shlex.join([*stage.entry_point, *arguments[1:]])).returncode)


if __name__ == "__main__":
    main()

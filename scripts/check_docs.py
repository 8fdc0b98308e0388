"""Checks that files named in documents exist (run by lint.sh).

Links in all pages, and in ARCHITECTURE.md and the references also paths in backticks that begin with
a folder of src/ or of the repository: a map with wrong names is worse than none.
"""

import glob
import os
import re
import sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
roots = set(os.listdir("src")) | set(os.listdir("."))
errors = []
maps = ("ARCHITECTURE.md", "docs/run-directory.md", "docs/environment.md")
for page in sorted(glob.glob("*.md") + glob.glob("docs/**/*.md", recursive=True)):
    with open(page, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            for path in re.findall(r"`([\w./-]+/[\w./-]*)`", line) if page in maps else []:
                known = "NAME" in path or os.path.exists("src/" + path) or os.path.exists(path)
                if path.split("/")[0] in roots and not known:
                    errors.append(f"{page}:{number}: {path} does not exist")
            for target in re.findall(r"\]\(([\w./-]+)(?:#[\w-]*)?\)", line):
                if not os.path.exists(os.path.join(os.path.dirname(page), target)):
                    errors.append(f"{page}:{number}: link to {target} does not exist")
sys.exit("\n".join(errors) or None)

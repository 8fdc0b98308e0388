"""Checks that names in documents exist (run by lint.sh): a map with wrong names is worse than none.

Links; and in backticks paths that begin with a folder of src/ or of the repository, names of source
files, names of classes, with members, and in documents for developers names of functions and fields.
Placeholders are NAME, * and {h,cpp}. In comments of sources: paths of source files and documents.
"""

import glob
import os
import re
import sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
CODE = (".h", ".cpp", ".cu", ".cuh", ".py", ".sh")
GENERATED = ("docs/measurement-log.md", "docs/options.md")  # their tags look like paths
EXAMPLES = {"CamelCase", "snake_case", "src/a/b.cpp", "tests/a/b_test.cpp"}
OWN_NAMES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "docs/design/")  # name no other program's functions

roots = set(os.listdir("src")) | set(os.listdir("."))
names = set()
words = set()
for top in ("src", "tests", "scripts", "bench", "recipes", "web"):
    for folder, _, files in os.walk(top):
        for name in files:
            names.add(name)
            if name.endswith(CODE):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    words.update(re.findall(r"\w+", file.read()))
errors = []


def exists(path):
    choice = re.search(r"\{(.*?)\}", path)
    if choice:
        return all(exists(path.replace(choice[0], one)) for one in choice[1].split(","))
    if "NAME" in path or path.startswith("build/"):
        return True
    return bool(glob.glob("src/" + path) or glob.glob(path))


def check_name(where, text):
    if text in EXAMPLES:
        return
    path = re.match(r"[\w-]+/[\w./*{,}-]*", text)
    if path and path[0].split("/")[0] in roots and not exists(path[0]):
        errors.append(f"{where}: {path[0]} does not exist")
    if re.fullmatch(r"[\w-]+", text.split(".")[0]) and text.endswith(CODE) and text not in names:
        if "/" not in text:
            errors.append(f"{where}: no file is named {text}")
    kind = re.fullmatch(r"((?:[A-Z][a-z0-9]+){2,}|[A-Z][a-z]+(?=::))((?:::\w+)*)(?:\(\))?", text)
    function = where.startswith(OWN_NAMES) and re.fullmatch(r"([a-z]+(?:_[a-z0-9]+)+)(?:\(\))?", text)
    for word in re.findall(r"\w+", (kind or function)[0]) if kind or function else []:
        if word not in words and f"{word}.cpp" not in names and not word.startswith("fuzz_"):
            errors.append(f"{where}: {word} is in no source file")


for page in sorted(glob.glob("*.md") + glob.glob("docs/**/*.md", recursive=True)):
    with open(page, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            for text in re.findall(r"`([^`]+)`", line) if page not in GENERATED else []:
                check_name(f"{page}:{number}", text)
            for target in re.findall(r"\]\(([\w./-]+)(?:#[\w-]*)?\)", line):
                if not os.path.exists(os.path.join(os.path.dirname(page), target)):
                    errors.append(f"{page}:{number}: link to {target} does not exist")
for folder, _, files in os.walk("src"):
    for name in sorted(files):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            lines = file.read().split("\n")
        for number, line in enumerate(lines, 1):
            comment = re.search(r"//(.*)|^#(?!include|define)(.*)", line)
            for path in re.findall(r"(?<![\w/.$-])(\w+/[\w./-]*\w\.(?:h|cpp|cuh?|c|py|sh|md|pml))\b",
                                   comment[0] if comment else ""):
                if path.split("/")[0] in roots and not exists(path):
                    errors.append(f"{folder}/{name}:{number}: {path} does not exist")
sys.exit("\n".join(errors) or None)

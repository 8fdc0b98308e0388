"""Checks that ctest runs every whole-run test (run by lint.sh).

tests/CMakeLists.txt runs some scripts of tests/cli class by class; a class that it does not name would
never run.
"""

import glob
import os
import re
import sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests"))
with open("CMakeLists.txt", encoding="utf-8") as file:
    named = {}
    for script, classes in re.findall(r"^ *reigen_cli_test\(\S+ \d+ (\w+)((?: \w+)*)\)", file.read(), re.M):
        named.setdefault(script, []).extend(classes.split() or ["(all)"])

errors = []
for path in sorted(glob.glob("cli/*_test.py")):
    script = os.path.basename(path).removesuffix("_test.py")
    with open(path, encoding="utf-8") as file:
        parts = re.split(r"^class (\w+)", file.read(), flags=re.M)
    classes = [name for name, body in zip(parts[1::2], parts[2::2]) if "    def test_" in body]
    if script not in named:
        errors.append(f"tests/{path}: not in tests/CMakeLists.txt")
    elif "(all)" not in named[script]:
        errors += [f"tests/{path}: class {name} is not in tests/CMakeLists.txt"
                   for name in classes if name not in named[script]]
sys.exit("\n".join(errors) or None)

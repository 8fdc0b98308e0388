"""Checks the layers of src/ (run by check_layers.sh in src/).

A folder includes only itself and folders above it in LAYERS. A type that is only forward-declared
counts as an include of the header that defines it, so a cycle cannot hide behind one. Each outside
library is included only by the files in DOORS.
"""

import os
import re
import sys

# From the bottom up. Folders on one line are one layer: they may include each other's headers.
LAYERS = [
    ["base"],
    ["base/file"],
    ["base/json"],
    ["base/process"],
    ["config"],
    ["text"],
    ["corpus"],
    ["data/input"],
    ["data"],
    ["data/prepare"],
    ["device", "device/cuda", "device/loaded"],
    ["tensor"],
    ["ops"],
    ["ops/cpu"],
    ["ops/cuda", "ops/cuda/attention"],
    ["ops/stub", "ops/loaded"],
    ["model"],
    ["optim"],
    ["dist/net"],
    ["dist/mesh"],
    ["dist/group"],
    ["dist/group/nccl", "dist/group/stub", "dist/group/loaded"],
    ["dist/members/forming"],
    ["dist/members"],
    ["dist/compress"],
    ["dist/launch"],
    ["dist/launch/hosts"],
    ["observe/record"],
    ["observe/sample"],
    ["observe/tensorboard"],
    ["decode"],
    ["eval"],
    ["convert"],
    ["report/verdict"],
    ["report/verdict/learning"],
    ["report/verdict/machine"],
    ["report"],
    ["report/live/http"],
    ["report/live"],
    ["plan"],
    ["train/directory"],
    ["train/run"],
    ["train/workers"],
    ["train/step"],
    ["train"],
    ["doctor"],
    ["cli"],
]

# Implementations behind a contract: private to the folder of the contract.
PRIVATE = {"ops/cpu": "ops", "ops/cuda": "ops", "ops/cuda/attention": "ops", "ops/stub": "ops",
           "ops/loaded": "ops"}

# Library header -> the only files that may include it.
DOORS = {
    r"fmt/": r"base/format\.h",
    r"nlohmann/": r"base/json/json\.h",
    r"openssl/(ssl|err)": r"dist/net/channel\.cpp",
    r"openssl/(?!ssl|err)|xxhash": r"base/hash\.cpp",
    r"yaml-cpp/": r"config/yaml\.cpp",
    r"unicode/": r"text/unicode\.cpp|corpus/speller\.cpp",
    r"sentencepiece": r"text/(vocabulary_impl\.h|vocab_trainer\.cpp)",
    r"zlib|zstd|lzma": r"data/input/byte_source\.cpp",
    r"expat": r"data/input/tmx_reader\.cpp",
    r"omp\.h": r"device/device\.cpp|ops/cpu/library_weight\.cpp",
    r"dnnl": r"ops/cpu/(matmul|library_weight)\.cpp",
    r"hwy/": r"ops/cpu/(vector_inl\.h|row_kernels\.cpp|attention_kernels\.cpp|decode_kernels\.cpp|rounding_kernels\.cpp|bf16_kernels\.cpp)",
    r"cuda": r"device/cuda/.*",
    r"simdjson": r"observe/record/simdjson_value\.h",
    r"pmix": r"dist/launch/pmix\.cpp",
    r"nccl": r"dist/group/nccl/library\.h",
    r"cublas": r"ops/cuda/matmul\.cpp",
}

SOURCE = (".h", ".cpp", ".cu", ".cuh")
HEADER = (".h", ".cuh")
DEFINITION = re.compile(r"^(?:class|struct|enum class)\s+(\w+)\b[^;]*$", re.M)
DECLARATION = re.compile(r"^(?:class|struct|enum class)\s+(\w+)\s*;", re.M)


def sources():
    for folder, _, names in os.walk("."):
        for name in names:
            if name.endswith(SOURCE):
                yield os.path.relpath(os.path.join(folder, name), ".")


def check():
    rank = {folder: i for i, layer in enumerate(LAYERS) for folder in layer}
    texts = {path: open(path, encoding="utf-8").read() for path in sources()}
    defined = {}
    for path, text in texts.items():
        if path.endswith(HEADER):
            for name in DEFINITION.findall(text):
                defined.setdefault(name, set()).add(os.path.dirname(path))
    errors = []

    def uses(path, line, other, how):
        folder = os.path.dirname(path)
        if folder not in rank:
            errors.append(f"src/{folder} is not in the list of layers (scripts/check_layers.py)")
        elif other not in rank or rank[other] > rank[folder]:
            errors.append(f"src/{path}:{line}: {folder} must not use {other} ({how})")
        elif other in PRIVATE and not folder.startswith(PRIVATE[other]):
            errors.append(f"src/{path}:{line}: {other} is private to {PRIVATE[other]} ({how})")

    for path, text in texts.items():
        folder = os.path.dirname(path)
        for number, line in enumerate(text.splitlines(), 1):
            included = re.match(r'#include "([^"]+)"', line)
            if included:
                uses(path, number, os.path.dirname(included[1]), f'"{included[1]}"')
            declared = DECLARATION.match(line)
            if declared and folder not in defined.get(declared[1], {folder}):
                for other in defined[declared[1]]:
                    uses(path, number, other, f"declares {declared[1]}")
            library = re.match(r"#include <([^>]+)>", line)
            if library:
                for pattern, allowed in DOORS.items():
                    if re.match(pattern, library[1]) and not re.fullmatch(allowed, path):
                        errors.append(f"src/{path}:{number}: may not include <{library[1]}>; "
                                      f"only {allowed} may")
    return sorted(set(errors))


found = check()
print("\n".join(found), file=sys.stderr if found else sys.stdout, end="\n" if found else "")
sys.exit(1 if found else 0)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when an include points up the layer stack, or when a foreign header appears outside its home.

The rows are those of bazel/layers.bzl. A file may include its own layer and what its row names.
"""
import pathlib
import re
import sys

TABLE = {}
exec((pathlib.Path(__file__).parents[2] / "bazel/layers.bzl").read_text(), TABLE)
LAYERS, TOP = TABLE["LAYERS"], TABLE["TOP"]
# device/base is seen in two halves: these headers bring in the execution model and belong to kernels.
KERNEL_ONLY = {f"device/base/{name}.h" for name in ("launch", "named_kernel", "place", "scope", "spin", "stream")}
NO_KERNELS = (*(name for name in LAYERS if name.startswith(("softnic", "host"))), "bootstrap", "doctor")
HOMES = {
    r"^mpi\.h$": r"^(bootstrap/mpi\.cc|compat/examples/|tests/)",
    r"^infiniband/mlx5dv": r"^(host/nic/mlx5/|softnic/abi/|tests/)",
    r"^infiniband/": r"^(host/nic/|softnic/abi/|tests/)",
    r"^boost/": r"^(simt/lanes/|tests/)",
    r"^nettle/": r"^(bootstrap/|host/job/packet\.cc|tests/)",
    r"^cuda": r"^(device/base/|compat/|softnic/engine/word\.h|softnic/gpu/|tests/|.*\.cu$)",
}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)


def layer_of(path):
    parts = path.split("/")
    for depth in (3, 2, 1):
        name = "/".join(parts[:depth])
        if len(parts) > depth and (name in LAYERS or name in TOP):
            return name
    return None


def violations(path, text):
    layer = layer_of(path)
    for quote, target in INCLUDE.findall(text):
        below = layer_of(target) if quote == '"' else None
        if below is None:
            for header, home in HOMES.items():
                if re.match(header, target) and not re.match(home, path):
                    yield f"{path}: <{target}> may only be included from {home}"
            continue
        if layer not in LAYERS:
            continue
        if target in KERNEL_ONLY and layer in NO_KERNELS:
            yield f"{path}: {target} is for kernels, not for {layer}"
        if below != layer and not {below, target} & set(LAYERS[layer]):
            yield f"{path}: {layer} may not include {target}"


def sources(root):
    for pattern in ("*.h", "*.cuh", "*.cc", "*.cu"):
        for folder in (*{name.split("/")[0] for name in LAYERS}, *TOP):
            yield from (root / folder).rglob(pattern)


def main(root):
    files = sorted(set(sources(root)))
    bad = [line for file in files for line in violations(file.relative_to(root).as_posix(), file.read_text())]
    print("\n".join(bad) or f"layers: {len(files)} files, ok")
    return bool(bad) or not files


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))

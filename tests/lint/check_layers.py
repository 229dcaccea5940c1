#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when an include points up the layer stack, or when a foreign header appears outside its home.

The rows are docs/architecture.md's layers, lowest first. A file may include its own layer and the layers its row names.
"""
import pathlib
import re
import sys

LAYERS = {
    "simt": [],
    "device/base": ["simt"],
    "device/mlx5": ["device/base"],
    "device/transport": ["device/base", "device/mlx5"],
    "device/detail": ["device/base", "device/mlx5", "device/transport"],
    "device": ["device/base", "device/mlx5", "device/transport", "device/detail"],
    "softnic/engine": ["device/base"],
    "softnic/presentation": ["softnic/engine"],
    "softnic/control": ["softnic/engine"],
    "softnic/wire": ["softnic/engine", "softnic/presentation"],
    "softnic/gpu": ["device/base", "softnic/engine", "softnic/control"],
    "softnic": ["softnic/engine", "softnic/presentation", "softnic/control", "softnic/wire", "softnic/gpu"],
    "softnic/abi": ["device/base", "softnic", "softnic/engine", "softnic/presentation", "softnic/control", "softnic/wire"],
    "softnic/sysfs": ["softnic/presentation"],
    "host/base": [],
    "host/memory": ["host/base"],
    "host/nic": ["host/base", "device/base"],
    "host/transport": ["host/base", "host/memory", "host/nic", "device/base"],
    "host/job": ["host/base"],
    "host/contexts": ["host/base", "host/memory", "host/nic", "host/transport", "host/job"],
    "host/failures": ["host/base", "host/contexts", "host/job"],
    "host": ["host/base", "host/memory", "host/nic", "host/transport", "host/job", "host/contexts", "host/failures"],
    "bootstrap": ["host/base"],
    "doctor": ["host/base", "host/memory", "host/nic"],
    "peal": ["bootstrap", "host", "host/base", "device"],
}
TOP = ("tests", "perf", "examples")  # may include anything; nothing includes them
# Single headers a layer may reach for, because the header and not its layer is the contract.
EXTRA = {
    ("device/mlx5", "device/status.h"),
    ("device/transport", "device/types.h"),
    ("device/detail", "device/context.h"),
    ("device/detail", "device/status.h"),
    ("device/detail", "device/types.h"),
    ("softnic/engine", "device/mlx5/layout.h"),  # the wire format, never the code that writes it
    ("softnic/control", "device/mlx5/layout.h"),
    ("softnic/gpu", "device/mlx5/layout.h"),
    ("softnic/gpu", "softnic/rest.h"),
    ("softnic/abi", "device/mlx5/layout.h"),
    ("host/nic", "device/mlx5/layout.h"),
    ("host/transport", "device/mlx5/queue.h"),
    ("host/transport", "device/mlx5/layout.h"),
    ("host/transport", "device/mlx5/wqe.h"),  # for the self-test, which posts as a kernel does
    ("host/memory", "host/bootstrap.h"),
    ("host/transport", "host/bootstrap.h"),
    ("host/memory", "host/job/together.h"),
    ("host/transport", "host/job/together.h"),  # a step that may fail on one PE fails on all
    ("host/job", "host/bootstrap.h"),
    ("host/contexts", "host/bootstrap.h"),
    ("host/contexts", "host/failures/failure.h"),  # what a context tells of itself
    ("host", "device/context.h"),  # plain data that crosses the bus
    ("host/contexts", "device/context.h"),
    ("host/failures", "device/context.h"),
    ("bootstrap", "host/bootstrap.h"),
    ("peal", "device/base/launch.h"),  # for programs; kernels need not include it
}
# device/base is seen in two halves: these headers bring in the execution model and belong to kernels.
KERNEL_ONLY = {"device/base/spin.h", "device/base/scope.h", "device/base/launch.h"}
NO_KERNELS = (*(name for name in LAYERS if name.startswith(("softnic", "host"))), "bootstrap", "doctor")
HOMES = {
    r"^mpi\.h$": r"^(bootstrap/mpi\.cc|tests/)",
    r"^infiniband/": r"^(host/nic/|softnic/abi/|tests/)",
    r"^boost/": r"^(simt/|tests/)",
    r"^cuda": r"^(device/base/|softnic/engine/word\.h|softnic/gpu/|tests/|.*\.cu$)",
}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)


def layer_of(path):
    parts = path.split("/")
    for depth in (2, 1):
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
        if below != layer and below not in LAYERS[layer] and (layer, target) not in EXTRA:
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

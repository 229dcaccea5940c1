# SPDX-License-Identifier: Apache-2.0
"""The layers, lowest first: which folder may include which. The one table of it: tests/lint/check_layers.py reads every
include by it, and Bazel's visibility is made from it (package_groups()).

A row names what the folder may include beside its own files: whole folders, and single headers where the header and not
its folder is the contract. Read by Bazel and by Python."""

LAYERS = {
    "base": [],
    "simt": ["base"],
    # peal-cc, a program of its own: shares nothing with what it compiles for.
    "simt/cc": [],
    "device/base": ["simt"],
    "device/mlx5": ["device/base", "device/status.h"],
    "device/transport": ["device/base", "device/mlx5", "device/types.h"],
    # What the contracts of device/ do.
    "device/detail": [
        "device/base", "device/mlx5", "device/transport", "device/context.h", "device/reduce_op.h", "device/status.h",
        "device/types.h",
    ],
    # Collective calls; layout.h is also the host's.
    "device/collective": [
        "device/base", "device/transport", "device/detail", "device/context.h", "device/reduce_op.h", "device/status.h",
        "device/team.h", "device/types.h",
    ],
    "device": ["device/base", "device/mlx5", "device/transport", "device/detail", "device/collective"],
    "kernels": ["device", "device/base", "device/detail", "device/collective"],
    # device/mlx5/layout.h is the wire format; the code that writes it is beyond softnic's reach.
    "softnic/engine": ["device/base", "device/mlx5/layout.h"],
    "softnic/presentation": ["softnic/engine"],
    "softnic/control": ["base", "softnic/engine", "device/mlx5/layout.h"],
    "softnic/wire": ["base", "softnic/engine", "softnic/presentation"],
    "softnic/gpu": ["base", "device/base", "softnic/engine", "softnic/control", "device/mlx5/layout.h"],
    "softnic": ["base", "softnic/engine", "softnic/presentation", "softnic/control", "softnic/wire", "softnic/gpu"],
    # What peal calls; what only other clients call; the libraries, which put the two together.
    "softnic/abi/core": [
        "base", "device/base", "softnic", "softnic/engine", "softnic/presentation", "softnic/control", "softnic/wire",
        "device/mlx5/layout.h",
    ],
    "softnic/abi/extras": ["softnic/abi/core", "softnic/engine", "softnic/wire", "device/mlx5/layout.h"],
    "softnic/abi": ["softnic/abi/core", "softnic/abi/extras"],
    "softnic/sysfs": ["softnic/presentation"],
    "host/base": ["base"],
    # host/job/together.h: a step that may fail on one PE fails on all.
    "host/memory": ["base", "host/base", "host/bootstrap.h", "host/job/together.h"],
    "host/nic": ["base", "host/base", "device/base", "device/mlx5/layout.h"],
    "host/job": ["base", "host/base", "host/bootstrap.h"],
    # device/mlx5/wqe.h: the self-test posts as a kernel does.
    "host/transport": [
        "base", "host/base", "host/memory", "host/nic", "device/base", "device/mlx5/queue.h", "device/mlx5/layout.h",
        "device/mlx5/wqe.h", "host/bootstrap.h", "host/job/together.h",
    ],
    # device/context.h is plain data that crosses the bus; a context tells of itself in host/failures/failure.h, and of
    # kernels that ran on a CPU by their names.
    "host/contexts": [
        "base", "host/base", "host/memory", "host/nic", "host/transport", "host/job", "device/context.h",
        "host/bootstrap.h", "host/failures/failure.h", "kernels", "simt/symbol.h",
    ],
    # Where the library's kernels run, and in which order.
    "host/stream": ["base", "simt", "kernels", "host/base", "host/memory"],
    "host/failures": ["base", "host/base", "host/contexts", "host/job", "device/context.h"],
    "host": [
        "base", "host/base", "host/memory", "host/nic", "host/transport", "host/job", "host/contexts",
        "host/failures", "host/stream", "kernels", "device/context.h", "device/team.h", "device/types.h",
        "device/reduce_op.h", "device/collective/layout.h",
    ],
    "bootstrap": ["base", "host/base", "host/bootstrap.h"],
    # peal-run and peal-id: an id, and the address that goes into it.
    "run": ["base", "host/base", "bootstrap"],
    "doctor": ["base", "host/base", "host/memory", "host/nic"],
    # device/base/launch.h is for programs; kernels need not include it.
    "peal": ["bootstrap", "host", "host/base", "device", "device/base/launch.h", "device/base/stream.h", "kernels"],
    # The calls of NVSHMEM's guide upon peal.h. On a CPU they ask simt whether a kernel calls.
    "compat": [
        "bootstrap", "host/base", "host/calls.h", "device", "device/base/target.h", "kernels", "peal", "simt",
    ],
}

# These may include anything, and nothing includes them.
TOP = ["tests", "perf", "examples", "packaging"]

def package_groups():
    """users_of/F for each folder F: who may depend on its targets."""
    for mine in LAYERS:
        above = [
            name
            for name, rows in LAYERS.items()
            if [row for row in rows if row == mine or row.endswith(".h") and row.rpartition("/")[0] == mine]
        ]
        native.package_group(
            name = "users_of/" + mine,
            packages = ["//" + name for name in above] + ["//%s/..." % name for name in TOP],
        )

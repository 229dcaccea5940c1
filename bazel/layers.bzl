# SPDX-License-Identifier: Apache-2.0
"""The layers, lowest first: which folder may include which. The one table of it: tests/lint/check_layers.py reads every
include by it, and Bazel's visibility is made from it (package_groups()).

A row names what the folder may include beside its own files: whole folders, and single headers where the header and not
its folder is the contract. Read by Bazel and by Python."""

LAYERS = {
    "base": [],
    # CUDA's execution model on a CPU. What a simulation does otherwise lanes ask of simt/lanes/scheduler.h.
    "simt/lanes": ["base"],
    "simt/simulation": ["base", "simt/lanes"],
    # The CUDA runtime: streams and memory are the simulation's where one runs.
    "simt/runtime": ["base", "simt/lanes", "simt/simulation"],
    # The package that compiles those three; no file lies here.
    "simt": ["base"],
    # What compilers call for accesses of kernels; apart from simt, for programs with ThreadSanitizer have their own.
    "simt/hooks": ["simt/lanes/plain_access.h", "simt/simulation/simulated_program.h"],
    # peal-cc, a program of its own: shares no more with what it compiles for than how it handles files.
    "simt/cc": ["base"],
    # Compiled into users' programs, by no build of this tree.
    "simt/cc/race": [],
    "device/base": [
        "simt/lanes", "simt/simulation/simulation.h", "simt/runtime/cuda_names.h", "simt/runtime/stream.h",
    ],
    # Plain data that host and kernels share. context.h, team.h, types.h: of what kernels take as arguments.
    "device/shared": [
        "device/base", "device/context.h", "device/status.h", "device/team.h", "device/types.h",
    ],
    # Requests, and the protocol of queues over any model of a NIC.
    "device/nic": ["device/base", "device/shared", "device/status.h", "device/types.h"],
    # The first model.
    "device/mlx5": ["device/base", "device/shared", "device/nic", "device/status.h"],
    # model.h chooses one: nothing above names it.
    "device/transport": ["device/base", "device/shared", "device/nic", "device/mlx5", "device/types.h"],
    # What the contracts of device/ do.
    "device/detail": [
        "device/base", "device/shared", "device/nic", "device/transport", "device/context.h", "device/reduce_op.h",
        "device/status.h", "device/types.h", "device/window.h",
    ],
    # Collective calls.
    "device/collective": [
        "device/base", "device/shared", "device/transport", "device/detail", "device/context.h", "device/reduce_op.h",
        "device/status.h", "device/team.h", "device/types.h",
    ],
    "device": ["device/base", "device/shared", "device/nic", "device/transport", "device/detail", "device/collective"],
    "kernels": ["device", "device/base", "device/shared", "device/detail", "device/collective"],
    # device/mlx5/layout.h is the wire format; the code that writes it is beyond softnic's reach.
    "softnic/engine": ["base", "device/base", "device/mlx5/layout.h"],
    "softnic/presentation": ["base", "softnic/engine"],
    "softnic/control": ["base", "softnic/engine", "device/mlx5/layout.h"],
    "softnic/wire/roce": ["base", "device/base", "softnic/engine"],
    "softnic/wire": ["base", "softnic/engine", "softnic/presentation", "softnic/wire/roce"],
    "softnic/gpu": ["base", "device/base", "softnic/engine", "softnic/control", "device/mlx5/layout.h"],
    "softnic": [
        "base", "softnic/engine", "softnic/presentation", "softnic/control", "softnic/wire", "softnic/wire/roce",
        "softnic/gpu",
    ],
    # What peal calls; what only other clients call; the libraries, which put the two together.
    "softnic/abi/core": [
        "base", "device/base", "softnic", "softnic/engine", "softnic/presentation", "softnic/control", "softnic/wire",
        "device/mlx5/layout.h",
    ],
    "softnic/abi/extras": ["softnic/abi/core", "softnic/engine", "softnic/wire", "device/mlx5/layout.h"],
    "softnic/abi": ["softnic/abi/core", "softnic/abi/extras"],
    "softnic/sysfs": ["base", "softnic/presentation"],
    # The lists of calls and of algorithms, and their names.
    "host/base": ["base", "device/shared/algorithms.h", "device/shared/call_list.h", "device/shared/call_names.h"],
    # Names of what the host does, for profilers.
    "host/nvtx": [],
    # host/job/together.h: a step that may fail on one PE fails on all.
    # device/context.h: CheckTable, whose extents lie in memory. simulation.h: models what kernels use.
    # device/base/mapped.h: a GPU's memory that the CPU has mapped.
    "host/memory": [
        "base", "host/base", "host/bootstrap.h", "host/job/together.h", "device/base/mapped.h", "device/context.h",
        "simt/simulation/simulation.h",
    ],
    # Beside mlx5/ it knows no model of a NIC: model.h, model_library.h and what they name are what others see of one.
    "host/nic": [
        "base", "host/base", "host/memory/backing.h", "device/base", "device/shared", "device/nic/request.h",
        "device/transport/model.h",
    ],
    # The host's side of the first model. backing_cuda.h: a GPU may have the software NIC's doorbell page.
    "host/nic/mlx5": [
        "base", "host/base", "host/memory", "host/nic", "device/base", "device/shared", "device/mlx5",
    ],
    "host/job": ["base", "host/base", "host/bootstrap.h"],
    # Files into and out of memory. host/job/together.h: all PEs have saved, or none has.
    "host/storage": ["base", "host/base", "host/memory", "host/bootstrap.h", "host/job/together.h", "host/stream"],
    # device/nic/request.h: the self-test posts what a kernel would. host/job/channel.h: descriptors go from PE to PE.
    "host/transport": [
        "base", "host/base", "host/memory", "host/nic", "device/base", "device/shared", "device/nic/request.h",
        "device/transport/model.h", "host/bootstrap.h", "host/job/channel.h", "host/job/together.h",
    ],
    # Memory that kernels transfer from and to. What programs ask of a window is in host/options.h.
    "host/windows": [
        "base", "host/base", "host/memory", "host/nic", "host/transport", "host/job", "host/bootstrap.h",
        "host/options.h", "device/context.h", "device/window.h",
    ],
    # device/context.h is plain data that crosses the bus; a context tells of itself in host/failures/failure.h, and of
    # kernels that ran on a CPU by their names. device/base/scaled.h: a length that is none, as kernels know it.
    "host/contexts": [
        "base", "host/base", "host/memory", "host/nic", "host/transport", "host/job", "host/windows",
        "device/base/scaled.h", "device/shared", "device/transport/model.h", "device/context.h", "device/window.h",
        "host/bootstrap.h", "host/failures/failure.h", "host/options.h", "kernels",
        "simt/lanes/symbol.h", "simt/lanes/place.h",
    ],
    # What calls of kernels on a CPU do, by their notes; a lane's place in the program's text.
    "host/check": [
        "base", "host/base", "simt/lanes", "device/shared", "device/context.h",
    ],
    # Where the library's kernels run, and in which order.
    "host/stream": ["base", "simt/lanes", "simt/runtime/stream.h", "kernels", "host/base", "host/memory"],
    "host/failures": [
        "base", "host/base", "host/contexts", "host/job", "device/shared", "device/context.h",
    ],
    # What programs include of the host, and no more: what stands behind it is in host/runtime.
    "host": [
        "host/base", "host/failures/counters.h", "host/failures/failure.h",
        "host/memory/heap_block.h", "device/base/scaled.h", "device/context.h", "device/reduce_op.h", "device/shared",
        "device/team.h", "device/types.h", "device/window.h",
    ],
    # device/shared/team_memory.h: how a team's memory is divided, which kernels know, too.
    "host/teams": [
        "host/base", "host/memory", "host/job", "host/bootstrap.h", "host/options.h", "device/team.h",
        "device/shared",
    ],
    # What host/calls.h declares. Files are among it, for streams wait for them.
    "host/calls": [
        "base", "host/base", "host/memory", "host/job", "host/contexts", "host/failures", "host/storage", "host/stream",
        "host/nvtx", "host/teams", "host/windows", "host/calls.h", "kernels", "device/base/scaled.h", "device/shared",
    ],
    # Puts all of it together. plain_access.h, place.h: kernels' own loads and stores, in checked mode. simulation.h:
    # whether a program is simulated. crash.h: what a crash of a kernel is told by.
    "host/runtime": [
        "base", "host", "host/base", "host/memory", "host/nic", "host/transport", "host/job", "host/contexts",
        "host/windows", "host/teams", "host/failures", "host/check", "host/storage", "host/stream", "host/calls",
        "host/nvtx", "simt/lanes/crash.h", "simt/lanes/plain_access.h", "simt/lanes/place.h",
        "simt/simulation/simulation.h",
    ],
    # The PEs of a simulation are a job.
    "bootstrap": ["base", "host/base", "host/bootstrap.h", "simt/simulation", "simt/lanes/lane.h"],
    # peal-run and peal-id: an id, and the address that goes into it.
    "run": ["base", "host/base", "bootstrap"],
    "doctor": ["base", "host/base", "host/memory", "host/nic"],
    # device/base/launch.h is for programs; kernels need not include it.
    # simulation.h: whether a program is simulated. base/immortal.h: the one Runtime of C programs. base/of_thread.h:
    # their last error. main_frame.h: how a main() that throws ends.
    "peal": [
        "base/immortal.h", "base/of_thread.h", "bootstrap", "host", "host/base", "host/runtime/main_frame.h", "device", "device/base/launch.h", "device/base/stream.h",
        "device/base/target.h", "device/shared/call_names.h", "kernels", "simt/simulation/simulation.h",
    ],
    # The calls of NVSHMEM's guide upon peal.h. On a CPU they ask simt whether a kernel calls.
    "compat": [
        "base/immortal.h", "bootstrap", "host/base", "host/calls.h", "device", "device/base/target.h", "device/shared",
        "kernels", "peal", "simt/lanes", "simt/runtime",
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

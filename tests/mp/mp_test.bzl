"""mp_test: a GoogleTest program that runs as several PEs under mpirun; every rank runs every test."""

load("//tests:test.bzl", "FAST")

def mp_test(name, srcs, np, deps = [], data = [], variants = {}, tags = [], size = "medium", **kwargs):
    """Programs under mpirun.

    `name`_program by itself (`name`_cases are its sources), `name` under mpirun -np `np`; `name`_`n` for each n when np is a list. For each entry
    (word, (np, arguments)) of variants the same program again: with a name of NAME_mptest, NAME_WORD_mptest. Where np
    is a list, `name` is all of these together.
    """
    program = name + "_program"
    # Compiled once: tests/integration/threads runs some of them in one process.
    native.cc_library(
        name = name + "_cases",
        srcs = srcs,
        alwayslink = True,
        copts = FAST,
        linkstatic = True,
        testonly = True,
        deps = deps + [
            "//tests/support:often",
            "@system//:gtest",
        ],
    )
    native.cc_binary(
        name = program,
        deps = [":" + name + "_cases"],
        testonly = True,
    )
    runs = {name + ("_%d" % n if type(np) == "list" else ""): (n, []) for n in (np if type(np) == "list" else [np])}
    for word, run in variants.items():
        runs[name.replace("_mptest", "_%s_mptest" % word)] = run
    for run, (n, args) in runs.items():
        native.sh_test(
            name = run,
            srcs = ["run_mp.sh"],
            args = [str(n), "$(rootpath :%s)" % program] + args,
            data = [":" + program, "//bootstrap:libpeal_mpi.so"] + data,
            # Its ranks share the machine's cores among themselves; another test beside them would only slow both.
            tags = ["cpu:2", "exclusive", "mp"] + tags,
            size = size,
            **kwargs
        )
    if type(np) == "list":
        native.test_suite(name = name, tests = [":" + run for run in runs])

"""mp_test: a GoogleTest program that runs as several PEs; every rank runs every test. mp_run: a run of such a program.
mp_script: a script that starts some."""

load("//tests:test.bzl", "JOINED", "fast", "one_of_several")

def _started(name, src, args, data, env, by, tags, size = "medium", **kwargs):
    """The script `src`, which starts programs by run_mp.sh, and what it needs of the launcher `by`."""
    native.sh_test(
        name = name,
        srcs = [src],
        args = args,
        data = data + ["//bootstrap:libpeal_mpi.so"] + (["//run:peal-run"] if by == "peal-run" else []),
        env = dict(env, PEAL_MP_BY = "run/peal-run") if by == "peal-run" else env,
        # mpirun starts for a second or two, in which its ranks wait for each other; later they ask for news all the time.
        tags = ["mp"] + ([] if by == "peal-run" else ["cpu:2"]) + tags,
        size = size,
        **kwargs
    )

def mp_run(name, program, np, args = [], data = [], env = {}, by = "peal-run", tags = [], **kwargs):
    """`program`, a label, as `np` PEs.

    `by` peal-run, which starts a job in a tenth of mpirun's time; or mpirun, for programs that call MPI or are about it.
    """
    run_args = [str(np), "$(rootpath %s)" % program] + args
    _started(name, "//tests/mp:run_mp.sh", run_args, [program] + data, env, by, tags, **kwargs)

def mp_script(name, programs, data = [], by = "peal-run", tags = [], **kwargs):
    """`name`.sh, whose arguments are run_mp.sh and `programs`; it starts these by that."""
    started = ["//tests/mp:run_mp.sh"] + programs
    _started(name, name + ".sh", ["$(rootpath %s)" % program for program in started], started + data, {}, by, tags, **kwargs)

def mp_test(name, srcs, np, deps = [], variants = {}, precompiled = "with_peal", **kwargs):
    """A program, and runs of it.

    `name`_program by itself (`name`_cases are its sources), `name` as `np` PEs; `name`_`n` for each n when np is a
    list. For each entry (word, (np, arguments)) of variants the same program again: with a name of NAME_mptest,
    NAME_WORD_mptest. Where np is a list, `name` is all of these together. Several `srcs` are compiled as one file. The
    rest is for mp_run.
    """
    program = name + "_program"
    copts = fast(precompiled)
    if len(srcs) > 1:
        one_of_several(
            name = name + "_as_one",
            testonly = True,
            out = name + "_as_one.cc",
            srcs = srcs,
        )
        srcs = [name + "_as_one.cc"]
        copts = copts + JOINED
    # Compiled once: tests/integration/threads runs some of them in one process.
    native.cc_library(
        name = name + "_cases",
        srcs = srcs,
        alwayslink = True,
        copts = copts,
        linkstatic = True,
        testonly = True,
        deps = deps + [
            "//tests/support:" + precompiled,
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
        mp_run(run, ":" + program, n, args, **kwargs)
    if type(np) == "list":
        native.test_suite(name = name, tests = [":" + run for run in runs])

"""mp_test: a GoogleTest program that runs as several PEs under mpirun; every rank runs every test."""

def mp_test(name, srcs, np, deps = [], data = [], args = [], tags = [], size = "medium", **kwargs):
    """`name`_program by itself, `name` under mpirun -np `np`."""
    program = name + "_program"
    native.cc_binary(
        name = program,
        srcs = srcs,
        deps = deps + ["@system//:gtest"],
        testonly = True,
    )
    native.sh_test(
        name = name,
        srcs = ["run_mp.sh"],
        args = [str(np), "$(rootpath :%s)" % program] + args,
        data = [":" + program, "//bootstrap:libpeal_mpi.so"] + data,
        # Its ranks share the machine's cores among themselves; another test beside them would only slow both.
        tags = ["cpu:2", "exclusive", "mp"] + tags,
        size = size,
        **kwargs
    )

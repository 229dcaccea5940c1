"""mp_test: a GoogleTest program that runs as several PEs under mpirun; every rank runs every test."""

def mp_test(name, srcs, np, deps = [], data = [], args = [], tags = [], size = "medium", **kwargs):
    """`name`_program by itself, `name` under mpirun -np `np`; `name`_`n` for each n when np is a list."""
    program = name + "_program"
    native.cc_binary(
        name = program,
        srcs = srcs,
        deps = deps + ["@system//:gtest"],
        testonly = True,
    )
    for n in np if type(np) == "list" else [np]:
        native.sh_test(
            name = name + ("_%d" % n if type(np) == "list" else ""),
            srcs = ["run_mp.sh"],
            args = [str(n), "$(rootpath :%s)" % program] + args,
            data = [":" + program, "//bootstrap:libpeal_mpi.so"] + data,
            # Its ranks share the machine's cores among themselves; another test beside them would only slow both.
            tags = ["cpu:2", "exclusive", "mp"] + tags,
            size = size,
            **kwargs
        )

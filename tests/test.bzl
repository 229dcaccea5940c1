"""unit_tests: one GoogleTest program of each name. by_record_tests: the same programs on other software NICs."""

# Neither optimizer nor, but by --config=dbg, debug information.
UNOPTIMIZED = ["-O0"] + select({
    "//tests:dbg": [],
    "//conditions:default": ["-g0"],
})

def fast(precompiled):
    """Options for a test, which runs for a moment: compiling is the most of it.

    Behind a precompiled header of tests/support: "often", or "with_peal" for what includes peal/peal.h."""
    return UNOPTIMIZED + ["-Winvalid-pch", "-include", "tests/support/%s_precompiled.h" % precompiled]

def unit_tests(names, deps = [], hdrs = [], size = "small", precompiled = "often", copts = None, **kwargs):
    """`name` is built from name.cc, `hdrs` of its folder and `deps`; `copts` are instead of fast(precompiled)."""
    for name in names:
        native.cc_test(
            name = name,
            size = size,
            srcs = [name + ".cc"] + hdrs,
            copts = fast(precompiled) if copts == None else copts,
            deps = deps + [
                "//tests/support:" + precompiled,
                "@system//:gtest_main",
            ],
            **kwargs
        )

def by_record_tests(names, args = [], **kwargs):
    """X_by_record_test: X_test on a software NIC that goes by doorbell records; by default its register counts.

    X_test's own `args` do not come along: they are given here again.
    """
    for name in names:
        native.sh_test(
            name = name.replace("_test", "_by_record_test"),
            size = "medium",
            srcs = ["//tests/support:by_record.sh"],
            args = ["$(rootpath :%s)" % name] + args,
            data = [":" + name],
            **kwargs
        )

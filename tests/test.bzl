"""unit_tests: one GoogleTest program of each name. by_record_tests: the same programs on other software NICs."""

# Of a test, which runs for a moment, compiling is the most: without the optimizer, and behind a precompiled header.
FAST = ["-O0", "-Winvalid-pch", "-include", "tests/support/often_precompiled.h"]

def unit_tests(names, deps = [], hdrs = [], size = "small", copts = FAST, **kwargs):
    """`name` is built from name.cc, `hdrs` of its folder and `deps`."""
    for name in names:
        native.cc_test(
            name = name,
            size = size,
            srcs = [name + ".cc"] + hdrs,
            copts = copts,
            deps = deps + [
                "//tests/support:often",
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

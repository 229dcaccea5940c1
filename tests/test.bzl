"""unit_tests: GoogleTest programs, of one file each or of several. by_record_tests: the same programs on other software
NICs."""

# Neither optimizer nor, but by --config=dbg, debug information.
UNOPTIMIZED = ["-O0"] + select({
    "//tests:dbg": [],
    "//conditions:default": ["-g0"],
})

# Of what one_of_several() makes: types of headers have members of a file's own namespace.
JOINED = ["-Wno-subobject-linkage"]

def fast(precompiled):
    """Options for a test, which runs for a moment: compiling is the most of it.

    Behind a precompiled header of tests/support: "often", or "with_peal" for what includes peal/peal.h."""
    # -fpch-deps: else a test names none of the headers that were precompiled, and is not compiled again when one changes.
    header = "tests/support/%s_precompiled.h" % precompiled
    return UNOPTIMIZED + ["-Winvalid-pch", "-fpch-deps", "-include", header]

# One file of several tests. What a file has in an anonymous namespace lies in one with the file's name here, so that two
# files may use a name for different things, as for macros, which end with their file; __FILE__ and __LINE__ stay those of
# the file.
_ONE_OF_SEVERAL = """
out=$1; shift
awk '
FNR == 1 { for (macro in macros) print "#undef " macro; split("", macros) }
FNR == 1 { printf "#line 1 \\"%s\\"\\n", FILENAME; name = FILENAME; gsub(/.*\\/|[.]cc$/, "", name) }
$1 == "#define" { macro = $2; sub(/[(].*/, "", macro); macros[macro] }
/^namespace {$/ { $0 = "namespace " name " {" }
{ print }' "$@" >"$out"
"""

def _one_of_several_impl(ctx):
    ctx.actions.run_shell(
        command = _ONE_OF_SEVERAL,
        arguments = [file.path for file in [ctx.outputs.out] + ctx.files.srcs],
        inputs = ctx.files.srcs,
        outputs = [ctx.outputs.out],
        mnemonic = "OneOfSeveral",
    )

one_of_several = rule(
    doc = "`out`: the tests `srcs` as one file, which takes g++ less than half the time of ten. Wants JOINED of its compiler.",
    implementation = _one_of_several_impl,
    attrs = {
        "out": attr.output(),
        "srcs": attr.label_list(allow_files = [".cc"]),
    },
)

def unit_tests(names, deps = [], hdrs = [], size = "small", precompiled = "often", copts = None, together = None, tags = [], **kwargs):
    """`name` is built from name.cc, `hdrs` of its folder and `deps`; `copts` are instead of fast(precompiled).

    together: the name of a program of all of them, compiled as one file: g++ takes less than half the time for ten files
    at once. //... has this program alone, and each `name` is built when it is asked for.
    """
    programs = {name: name + ".cc" for name in names}
    if together:
        programs[together] = together + "_as_one.cc"
        one_of_several(
            name = together + "_as_one",
            testonly = True,
            out = programs[together],
            srcs = [name + ".cc" for name in names],
        )
    for name, source in programs.items():
        native.cc_test(
            name = name,
            size = size,
            srcs = [source] + hdrs,
            copts = (fast(precompiled) if copts == None else copts) + (JOINED if name == together else []),
            deps = deps + [
                "//tests/support:" + precompiled,
                "@system//:gtest_main",
            ],
            tags = tags + (["manual"] if together and name != together else []),
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

# Regions, queues or both in memory of a GPU; the last by records as well.
_IN_GPU = "PEAL_TEST_REGIONS PEAL_TEST_QUEUES PEAL_TEST_REGIONS,PEAL_TEST_QUEUES " + \
          "PEAL_TEST_REGIONS,PEAL_TEST_QUEUES,PEAL_SOFTNIC_DOORBELL=record"

def gpu_memory_tests(names, variants = _IN_GPU, **kwargs):
    """X_gpu_memory_test: X_tests once for each of `variants`, which say what is taken for memory of a GPU."""
    for name in names:
        native.sh_test(
            name = name.replace("_tests", "_gpu_memory_test"),
            size = "medium",
            srcs = ["//tests/support:gpu_memory.sh"],
            args = ["'%s'" % variants, "$(rootpath :%s)" % name],
            data = [":" + name],
            **kwargs
        )

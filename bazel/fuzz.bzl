"""fuzz_target: one libFuzzer target. NAME_fuzz is the program, built by clang with ASan and UBSan; NAME_fuzz_test runs
it for a few seconds; NAME_corpus_test runs the corpus through the same source, built as any other test is.

The libraries a target needs are compiled once more by clang: an aspect walks `deps` and makes one action of every
source, so that Bazel keeps the objects as it keeps its own."""

load("@clang//:config.bzl", "CLANG")

_FLAGS = [
    "-std=c++20",
    "-gline-tables-only",  # what reports show: all of debug information takes a fifth of the time
    "-w",  # warnings are g++'s business: it compiles the same sources
    "-fno-omit-frame-pointer",
    "-fsanitize=fuzzer-no-link,address,undefined",
    "-fno-sanitize-recover=all",
    "-I.",
]

_Objects = provider(fields = ["objects", "linkopts"])

def _compile(ctx, source, deps, headers):
    contexts = [d[CcInfo].compilation_context for d in deps]
    object_file = ctx.actions.declare_file("_fuzz/%s/%s.o" % (ctx.label.name, source.basename))
    args = ctx.actions.args()
    args.add_all(_FLAGS)
    # A test runs its target for seconds, and clang takes twice as long with its optimizer; tests/fuzz/build.sh asks for it.
    args.add("-O1" if ctx.var.get("peal_fuzz") == "optimized" else "-O0")
    for context in contexts:
        args.add_all(context.includes, before_each = "-I")
        args.add_all(context.system_includes, before_each = "-isystem")
        args.add_all(context.defines, format_each = "-D%s")
    args.add_all(["-c", source.path, "-o", object_file.path])
    ctx.actions.run(
        executable = CLANG,
        arguments = [args],
        inputs = depset([source] + headers, transitive = [c.headers for c in contexts]),
        outputs = [object_file],
        mnemonic = "ClangFuzz",
        progress_message = "Compiling %s with clang" % source.short_path,
        use_default_shell_env = True,
    )
    return object_file

def _objects_of(ctx, srcs, deps, linkopts):
    headers = [f for f in srcs if f.extension == "h"]
    own = [_compile(ctx, f, deps, headers) for f in srcs if f.extension == "cc"]
    below = [d[_Objects] for d in deps if _Objects in d]
    return _Objects(
        objects = depset(own, transitive = [o.objects for o in below]),
        linkopts = depset(linkopts, transitive = [o.linkopts for o in below]),
    )

def _aspect(target, ctx):
    rule = ctx.rule
    if rule.kind != "cc_library" or CcInfo not in target:
        return [_Objects(objects = depset(), linkopts = depset())]
    linkopts = ["-l:libnettle.a" if o == "-lnettle" else o for o in rule.attr.linkopts if o != "-lfmt"]
    srcs = rule.files.srcs + (rule.files.hdrs if hasattr(rule.files, "hdrs") else [])
    return [_objects_of(ctx, srcs, rule.attr.deps, linkopts)]

_clang_objects = aspect(implementation = _aspect, attr_aspects = ["deps"])

def _fuzz_binary(ctx):
    found = _objects_of(ctx, ctx.files.srcs, ctx.attr.deps, [])
    program = ctx.actions.declare_file(ctx.label.name)
    args = ctx.actions.args()
    args.add_all(["-fsanitize=fuzzer,address,undefined", "-o", program])
    args.add_all(found.objects)
    args.add_all(found.linkopts)
    ctx.actions.run(
        executable = CLANG,
        arguments = [args],
        inputs = found.objects,
        outputs = [program],
        mnemonic = "ClangFuzzLink",
        progress_message = "Linking %s" % ctx.label.name,
        use_default_shell_env = True,
    )
    return [DefaultInfo(executable = program, files = depset([program]))]

_fuzz_binary_rule = rule(
    implementation = _fuzz_binary,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cc", ".h"]),
        "deps": attr.label_list(aspects = [_clang_objects], providers = [CcInfo]),
    },
    executable = True,
)

def fuzz_target(name, srcs = [], deps = []):
    """`name`_fuzz.cc and its corpus in corpus/`name`, with a dictionary `name`.dict where there is one."""
    sources = [name + "_fuzz.cc", "input.h"] + srcs
    corpus = native.glob(["corpus/%s/*" % name], allow_empty = False)
    native.cc_test(
        name = name + "_corpus_test",
        size = "small",
        srcs = sources + ["replay.cc"],
        args = ["tests/fuzz/corpus/" + name],
        data = corpus,
        deps = deps,
    )
    if not CLANG:
        return
    _fuzz_binary_rule(
        name = name + "_fuzz",
        srcs = sources,
        # The program is to run where fmt is not.
        deps = deps + [":fmt"],
    )
    native.sh_test(
        name = name + "_fuzz_test",
        size = "small",
        srcs = ["run.sh"],
        args = ["--seconds", "3", "--binaries", "tests/fuzz", name],
        data = corpus + native.glob([name + ".dict"]) + [":" + name + "_fuzz"],
        # It brings its own sanitizers.
        tags = ["nosan"],
    )

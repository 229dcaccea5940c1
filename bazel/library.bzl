"""joined_library: one static and one shared library of a cc_library and all it is made of, for programs built elsewhere.
headers_of: the headers of this tree that a cc_library is made of."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("//bazel:unity.bzl", "without_parts")

# For programs: a wheel has the libraries that they need in lib/ beside their folder (packaging/wheel.py).
FINDS_LIBRARIES = ["-Wl,--enable-new-dtags,-rpath,'$$ORIGIN/../lib'"]

def _joined_archive_impl(ctx):
    linking = ctx.attr.dep[CcInfo].linking_context
    archives = []
    flags = []
    for linker_input in linking.linker_inputs.to_list():
        flags += linker_input.user_link_flags
        archives += [library.pic_static_library or library.static_library for library in linker_input.libraries]
    commands = ctx.actions.declare_file(ctx.label.name + ".mri")
    lines = ["CREATE " + ctx.outputs.archive.path]
    lines += ["ADDLIB " + archive.path for archive in archives]
    ctx.actions.write(commands, "\n".join(lines + ["SAVE", "END", ""]))
    ctx.actions.run_shell(
        command = "ar -M < " + commands.path,
        inputs = archives + [commands],
        outputs = [ctx.outputs.archive],
        mnemonic = "JoinArchives",
        progress_message = "Joining " + ctx.outputs.archive.short_path,
        use_default_shell_env = True,
    )

    # All of it goes into whatever is linked with this target.
    toolchain = find_cpp_toolchain(ctx)
    whole = cc_common.create_library_to_link(
        actions = ctx.actions,
        alwayslink = True,
        cc_toolchain = toolchain,
        feature_configuration = cc_common.configure_features(ctx = ctx, cc_toolchain = toolchain),
        pic_static_library = ctx.outputs.archive,
    )
    linker_input = cc_common.create_linker_input(
        owner = ctx.label,
        libraries = depset([whole]),
        user_link_flags = depset(flags),
    )
    return [
        CcInfo(linking_context = cc_common.create_linking_context(linker_inputs = depset([linker_input]))),
        DefaultInfo(files = depset([ctx.outputs.archive])),
    ]

_joined_archive = rule(
    implementation = _joined_archive_impl,
    attrs = {
        "archive": attr.output(),
        "dep": attr.label(providers = [CcInfo]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def _with_files_impl(ctx):
    runfiles = ctx.runfiles(files = ctx.files.data).merge(ctx.attr.dep[DefaultInfo].default_runfiles)
    return [
        ctx.attr.dep[CcInfo],
        DefaultInfo(files = depset(ctx.files.files), runfiles = runfiles),
    ]

_with_files = rule(
    implementation = _with_files_impl,
    attrs = {
        "data": attr.label_list(allow_files = True),
        "dep": attr.label(providers = [CcInfo]),
        "files": attr.label_list(allow_files = True),
    },
)

def joined_library(name, dep, whole, soname, exports, data = []):
    """`name` is to other targets what `dep` is; it builds libNAME.so and libNAME.a of `whole`, each of which links by itself.

    `exports`: the version script with the names that libNAME.so shows. `data`: what programs need beside it.
    """
    shared = "lib%s.so" % name
    archive = "lib%s.a" % name
    _joined_archive(
        name = name + "_joined",
        archive = archive,
        dep = whole,
    )
    native.cc_binary(
        name = shared,
        additional_linker_inputs = [exports],
        linkopts = [
            "-Wl,-soname," + soname,
            "-Wl,--version-script=$(location %s)" % exports,
            "-Wl,--enable-new-dtags,-rpath,'$$ORIGIN'",
            # Its threads live as long as the process, also where a library that was dlopen()ed brought it.
            "-Wl,-z,nodelete",
        ],
        linkshared = True,
        deps = [":%s_joined" % name],
    )
    _with_files(
        name = name,
        data = data,
        dep = dep,
        files = [
            archive,
            shared,
        ],
    )

def _headers_of_impl(ctx):
    headers = depset(transitive = [dep[CcInfo].compilation_context.headers for dep in ctx.attr.deps])
    ours = [header for header in without_parts(headers) if not header.short_path.startswith("../")]
    return [DefaultInfo(files = depset(ours))]

headers_of = rule(
    implementation = _headers_of_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)

"""precompiled_header: a header that g++ has read once for all files that begin with it. (clang and nvcc do not use it.)

    precompiled_header(name = "gtest", src = "often.h", copts = ["-O0"], deps = ["@system//:gtest"])
    cc_test(..., copts = ["-O0", "-include", "tests/support/gtest_precompiled.h"], deps = [":gtest"])

g++ takes it only where the options are those it was made with; the header itself is read where they are not. With
-fpch-deps a file's list of headers has those in it: Bazel compiles again what is behind an edit, and only that."""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(ctx = ctx, cc_toolchain = toolchain)
    below = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    context = below.compilation_context
    header = ctx.actions.declare_file(ctx.label.name + "_precompiled.h")
    compiled = ctx.actions.declare_file(header.basename + ".gch", sibling = header)
    ctx.actions.write(header, "#include \"%s\"\n" % ctx.file.src.path)
    variables = cc_common.create_compile_variables(
        cc_toolchain = toolchain,
        feature_configuration = features,
        include_directories = context.includes,
        output_file = compiled.path,
        preprocessor_defines = context.defines,
        quote_include_directories = depset(["."], transitive = [context.quote_includes]),
        source_file = header.path,
        system_include_directories = context.system_includes,
        use_pic = True,
        # -MD: else g++ keeps no list in it of what it has, and who uses it cannot name that to Bazel (-fpch-deps).
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts +
                             ["-x", "c++-header", "-MD", "-MF", "/dev/null"],
    )
    arguments = {"action_name": CPP_COMPILE_ACTION_NAME, "feature_configuration": features}
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(**arguments),
        arguments = cc_common.get_memory_inefficient_command_line(variables = variables, **arguments),
        env = cc_common.get_environment_variables(variables = variables, **arguments),
        inputs = depset([header, ctx.file.src], transitive = [context.headers, toolchain.all_files]),
        outputs = [compiled],
        mnemonic = "PrecompileHeader",
        progress_message = "Precompiling " + ctx.file.src.short_path,
    )
    own = CcInfo(compilation_context = cc_common.create_compilation_context(
        headers = depset([header, compiled, ctx.file.src]),
    ))
    return [cc_common.merge_cc_infos(direct_cc_infos = [own], cc_infos = [below])]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "src": attr.label(allow_single_file = [".h"], mandatory = True),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

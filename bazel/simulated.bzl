"""simulated_files: files of targets as they are built with PEAL_SIM=1 (docs/simulation.md), under names of their own."""

def _simulated_impl(settings, _attr):
    return {
        "//command_line_option:copt": settings["//command_line_option:copt"] + ["-DPEAL_SIM=1"],
        "//command_line_option:platform_suffix": "sim",
    }

_simulated = transition(
    implementation = _simulated_impl,
    inputs = ["//command_line_option:copt"],
    outputs = [
        "//command_line_option:copt",
        "//command_line_option:platform_suffix",
    ],
)

def _simulated_files_impl(ctx):
    copies = []
    for dep in ctx.attr.deps:
        for file in dep[DefaultInfo].files.to_list():
            copy = ctx.actions.declare_file(ctx.attr.folder + "/" + file.basename)
            ctx.actions.symlink(output = copy, target_file = file)
            copies.append(copy)
    return [DefaultInfo(files = depset(copies), runfiles = ctx.runfiles(files = copies))]

simulated_files = rule(
    implementation = _simulated_files_impl,
    attrs = {
        "deps": attr.label_list(cfg = _simulated),
        "folder": attr.string(mandatory = True),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
)

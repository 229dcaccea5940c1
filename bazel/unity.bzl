"""unity_library: a cc_library whose source files are compiled as one, in the order of their names.

g++ spends most of a file of this tree on the standard library: reading it, and making the same instances of it again.
One translation unit of a folder takes a third of the time of its files, in each of the builds that tests make (plain,
two sanitizers, libFuzzer, simulation, a user's workspace). So names in anonymous namespaces are one set for a folder.
"""

def _unity_source_impl(ctx):
    lines = ["#include \"%s\"" % file.short_path.replace("../%s/" % ctx.label.workspace_name, "") for file in ctx.files.srcs]
    ctx.actions.write(ctx.outputs.out, "\n".join(lines + [""]))

_unity_source = rule(
    implementation = _unity_source_impl,
    attrs = {
        "out": attr.output(),
        "srcs": attr.label_list(allow_files = [".cc"]),
    },
)

def without_parts(headers):
    """A list of a compilation context's headers but for the parts of unity libraries, which lie among them."""
    return [file for file in headers.to_list() if file.extension != "cc"]

def unity_library(name, srcs, copts = [], deps = [], **kwargs):
    """A cc_library. What of `srcs` is no .cc file is a header of its own."""
    parts = [src for src in srcs if src.endswith(".cc")]
    unity = name + "_unity.cc"
    _unity_source(
        name = name + "_unity",
        out = unity,
        srcs = parts,
    )
    native.cc_library(
        name = name + "_parts",
        textual_hdrs = parts,
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name,
        srcs = [unity] + [src for src in srcs if src not in parts],
        # The warning is about headers; a part is none.
        copts = copts + ["-Wno-subobject-linkage"],
        deps = deps + [":%s_parts" % name],
        **kwargs
    )

def folder_library(deps, srcs = [], **kwargs):
    """The unity_library of all files of a folder, named as that, for the folders that may include it (layers.bzl)."""
    folder = native.package_name()
    unity_library(
        name = folder.rpartition("/")[2],
        srcs = native.glob(["*.cc"]) + srcs,
        hdrs = native.glob(["*.h"]),
        deps = deps,
        visibility = ["//bazel:users_of/" + folder],
        **kwargs
    )

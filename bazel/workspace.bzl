"""peal_dependencies: what peal's build needs from a workspace, its own or another one.

    local_repository(name = "peal", path = "...")
    load("@peal//bazel:workspace.bzl", "peal_dependencies")
    peal_dependencies()

Everything is on the machine already: Debian packages and folders of this tree. No download."""

load("//bazel:toolchain.bzl", "clang", "cuda_toolkit", "nvtx", "system_libraries")

def _folder(ctx):
    place = ctx.attr.path or ctx.path(ctx.attr.beside).dirname
    for entry in ctx.path(place).readdir():
        ctx.symlink(entry, entry.basename)

# A folder of the machine, or the folder of a file of peal's tree, as a repository.
_folder_repository = repository_rule(
    implementation = _folder,
    attrs = {
        "beside": attr.label(),
        "path": attr.string(),
    },
    local = True,
)

def _once(rule, name, **kwargs):
    if not native.existing_rule(name):
        rule(name = name, **kwargs)

def peal_dependencies(debian = True):
    """What is declared already stays as it is.

    Args:
      debian: Bazel is Debian's, whose own rules lie in /usr/share/bazel. Others bring them along.
    """
    if debian:
        _once(_folder_repository, "rules_cc", beside = Label("//bazel/rules_cc:WORKSPACE"))
        _once(_folder_repository, "remote_coverage_tools", beside = Label("//bazel/coverage:WORKSPACE"))
        _once(_folder_repository, "rules_java", path = "/usr/share/bazel/rules/java")
        _once(_folder_repository, "rules_proto", path = "/usr/share/bazel/rules/proto")
        _once(_folder_repository, "platforms", path = "/usr/share/bazel/tools/platforms")

    # Debian packages: MPI, GoogleTest, Google Benchmark, fmt, Boost.Context, Nettle.
    _once(system_libraries, "system")

    # nvcc when there is one; an empty shell when there is not.
    _once(cuda_toolkit, "cuda")

    # The headers of NVTX, likewise.
    _once(nvtx, "nvtx")

    # clang for the fuzz targets, likewise.
    _once(clang, "clang")

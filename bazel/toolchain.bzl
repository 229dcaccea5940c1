"""What the machine provides: system libraries as Bazel targets, and nvcc and clang when they are installed."""

_SYSTEM_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "gtest",
    srcs = ["googletest/src/gtest-all.cc"],
    hdrs = glob(["googletest/include/**/*.h"]),
    textual_hdrs = glob(["googletest/src/*"]),
    copts = ["-w", "-O0", "-Iexternal/system/googletest"],
    includes = ["googletest/include"],
    linkopts = ["-lpthread"],
)

cc_library(
    name = "gtest_main",
    srcs = ["googletest/src/gtest_main.cc"],
    copts = ["-w"],
    deps = [":gtest"],
)

cc_library(
    name = "mpi",
    hdrs = glob(["mpi/**/*.h"]),
    # Without the C++ bindings, which MPI has dropped and which want a library of their own.
    defines = ["OMPI_SKIP_MPICXX"],
    includes = ["mpi"],
    linkopts = ["-lmpi"],
)

cc_library(name = "benchmark", linkopts = ["-lbenchmark", "-lpthread"])
cc_library(name = "boost_context", linkopts = ["-lboost_context"])
cc_library(name = "fmt", linkopts = ["-lfmt"])
cc_library(name = "nettle", linkopts = ["-lnettle"])
cc_library(name = "dl", linkopts = ["-ldl"])
"""

_MPI_INCLUDE = "/usr/lib/x86_64-linux-gnu/openmpi/include"

def _system_libraries(ctx):
    # GoogleTest is Debian's source package, so that sanitizer builds instrument it too.
    ctx.symlink("/usr/src/googletest/googletest", "googletest")
    ctx.symlink(_MPI_INCLUDE, "mpi")
    ctx.file("BUILD.bazel", _SYSTEM_BUILD)

system_libraries = repository_rule(
    implementation = _system_libraries,
    local = True,
)

def _cuda_toolkit(ctx):
    # NVCC: the compiler's path, or "none" for a build without GPUs.
    nvcc = ctx.os.environ.get("NVCC") or ctx.which("nvcc")
    if nvcc == "none":
        nvcc = None
    elif not nvcc and ctx.path("/usr/local/cuda/bin/nvcc").exists:
        nvcc = ctx.path("/usr/local/cuda/bin/nvcc")

    # PEAL_CUDA_ARCHS: numbers of architectures, such as 80,90,100.
    archs = [arch.strip() for arch in (ctx.os.environ.get("PEAL_CUDA_ARCHS") or "90").split(",")]
    for arch in archs:
        if not arch.rstrip("af").isdigit():
            fail("PEAL_CUDA_ARCHS: '%s' is no architecture of GPUs; give numbers such as 80,90,100" % arch)
    ctx.file("BUILD.bazel", "")

    # The driver's device: kernels can run here.
    gpu = ctx.path("/dev/nvidiactl").exists
    ctx.file("config.bzl", 'NVCC = "{}"\nARCHS = {}\nGPU = {}\n'.format(nvcc if nvcc else "", archs, gpu))

cuda_toolkit = repository_rule(
    implementation = _cuda_toolkit,
    environ = ["NVCC", "PATH", "PEAL_CUDA_ARCHS"],
    local = True,
)

_NVTX_BUILD = """
package(default_visibility = ["//visibility:public"])

filegroup(name = "headers", srcs = glob(["include/**/*.h"]))
"""

def _nvtx(ctx):
    # NVIDIA's headers for names in profilers: with the CUDA toolkit, or by themselves.
    found = False
    for folder in ["/usr/local/cuda/include", "/usr/include"]:
        if not found and ctx.path(folder + "/nvtx3/nvToolsExt.h").exists:
            ctx.symlink(folder + "/nvtx3", "include/nvtx3")
            found = True
    ctx.file("BUILD.bazel", _NVTX_BUILD)
    ctx.file("config.bzl", "NVTX = {}\n".format(found))

nvtx = repository_rule(
    implementation = _nvtx,
    local = True,
)

def _clang(ctx):
    clang = ctx.which("clang++")
    ctx.file("BUILD.bazel", "")
    ctx.file("config.bzl", 'CLANG = "{}"\n'.format(clang if clang else ""))

clang = repository_rule(
    implementation = _clang,
    environ = ["PATH"],
    local = True,
)

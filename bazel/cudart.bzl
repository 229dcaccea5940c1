"""gpu_binary: a program of C++ sources and objects from nvcc, with the CUDA runtime linked in. Nothing without nvcc."""

load("@cuda//:config.bzl", "NVCC")

def gpu_binary(name, srcs, deps = [], linkopts = [], **kwargs):
    """A program for machines with a GPU; an empty filegroup on machines without nvcc."""
    if not NVCC:
        native.filegroup(name = name, srcs = [])
        return
    native.cc_binary(
        name = name,
        srcs = srcs,
        linkopts = linkopts + [
            "-L" + NVCC.rpartition("/bin/")[0] + "/lib64",
            "-lcudart_static",
            "-ldl",
            "-lrt",
            "-lpthread",
        ],
        deps = deps,
        **kwargs
    )

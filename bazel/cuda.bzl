"""cuda_object: one .cu file compiled by nvcc over the headers of its deps. Nothing without nvcc.
cuda_compiles: that nvcc takes one .cu file. Nothing without nvcc.
ptx_test: a script that reads the PTX of one .cu file. No test without nvcc.
gpu_binary: a program of C++ sources and objects from nvcc, with the CUDA runtime linked in. Nothing without nvcc.
kernel_binary: a program with kernels, for CPUs and, where nvcc is, for GPUs."""

load("@cuda//:config.bzl", "NVCC")

_ARCH = "-gencode=arch=compute_90,code=[sm_90,compute_90]"

def _cuda_object(ctx):
    headers = depset(transitive = [d[CcInfo].compilation_context.headers for d in ctx.attr.deps])
    includes = depset(transitive = [d[CcInfo].compilation_context.includes for d in ctx.attr.deps])
    system = depset(transitive = [d[CcInfo].compilation_context.system_includes for d in ctx.attr.deps])
    object_file = ctx.actions.declare_file(ctx.label.name + (".ptx" if ctx.attr.ptx else ".o"))
    args = ctx.actions.args()
    args.add_all(["-ptx", "-arch=compute_90"] if ctx.attr.ptx else ["-c", _ARCH])
    args.add_all(["-std=c++20", "-O3", "-I.", ctx.file.src.path, "-o", object_file.path])
    args.add_all(["-Xcompiler", "-fPIC,-Wall,-Wextra", "-Werror", "all-warnings"])
    args.add_all(includes, before_each = "-I")
    args.add_all(system, before_each = "-isystem")
    ctx.actions.run(
        executable = NVCC,
        arguments = [args],
        inputs = depset([ctx.file.src], transitive = [headers]),
        outputs = [object_file],
        mnemonic = "Nvcc",
        progress_message = "Compiling %s with nvcc" % ctx.file.src.short_path,
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([object_file]), runfiles = ctx.runfiles(files = [object_file]))]

_cuda_object_rule = rule(
    implementation = _cuda_object,
    attrs = {
        "src": attr.label(allow_single_file = [".cu"], mandatory = True),
        "deps": attr.label_list(providers = [CcInfo]),
        "ptx": attr.bool(),
    },
)

def cuda_compiles(name, src, deps = [], **kwargs):
    """That nvcc takes the file: PTX that nobody links, without the assembler's minutes. Nothing without nvcc."""
    if NVCC:
        _cuda_object_rule(name = name, src = src, ptx = True, deps = deps, **kwargs)

def cuda_object(name, src, deps = [], **kwargs):
    """An object file from nvcc; an empty filegroup on machines without it."""
    if NVCC:
        _cuda_object_rule(name = name, src = src, deps = deps, **kwargs)
    else:
        native.filegroup(name = name, srcs = [], **kwargs)

def ptx_test(name, src, script, deps = [], **kwargs):
    """Runs `script` with the PTX of `src` as its argument."""
    if not NVCC:
        return
    _cuda_object_rule(name = name + "_ptx", src = src, ptx = True, deps = deps)
    native.sh_test(
        name = name,
        srcs = [script],
        args = ["$(rootpath :%s_ptx)" % name],
        data = [":%s_ptx" % name],
        **kwargs
    )

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

def kernel_binary(name, src, deps = [], data = [], **kwargs):
    """A program with kernels: `name` runs them on the CPU (simt), `name`_gpu is the same source by nvcc."""
    wrapper = name + "_on_cpu"
    native.genrule(
        name = wrapper,
        srcs = [src],
        outs = [wrapper + ".cc"],
        cmd = "echo '#include \"%s/%s\"' > $@" % (native.package_name(), src),
    )
    native.cc_binary(
        name = name,
        srcs = [wrapper + ".cc"],
        deps = deps + [":" + name + "_source"],
        data = data,
        **kwargs
    )
    native.cc_library(
        name = name + "_source",
        textual_hdrs = [src],
    )
    cuda_object(name = name + "_cu", src = src, deps = deps)
    gpu_binary(
        name = name + "_gpu",
        srcs = [":" + name + "_cu"],
        data = data,
        deps = deps,
        **kwargs
    )

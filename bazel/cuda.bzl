"""cuda_object: one .cu file compiled by nvcc over the headers of its deps. Nothing without nvcc.
cuda_compiles: that nvcc takes one .cu file. Nothing without nvcc.
ptx_test: a script that reads the PTX of one .cu file, or its relocatable code. No test without nvcc.
gpu_binary: a program of C++ sources and objects from nvcc, with the CUDA runtime linked in. Nothing without nvcc.
gpu_program: such a program of one .cu file.
kernel_binary: a program with kernels, for CPUs and, where nvcc is, for GPUs.
kernel_library: kernels without a host part, as functions for CPUs and, where nvcc is, as images for GPUs."""

load("@cuda//:config.bzl", "ARCHS", "GPU", "NVCC")
load("//bazel:unity.bzl", "without_parts")

# Code for each architecture, and PTX of the last one for what comes after it.
_MACHINE_CODE = ["-gencode=arch=compute_{0},code=sm_{0}".format(arch) for arch in ARCHS[:-1]] + [
    "-gencode=arch=compute_{0},code=[sm_{0},compute_{0}]".format(ARCHS[-1]),
]

# PTX alone, without the minutes of the optimizer and the assembler. It works: a driver would assemble it.
_PTX = ["-gencode=arch=compute_{0},code=compute_{0}".format(ARCHS[-1]), "-Xcicc", "-O0"]

# What nvcc's front end makes for a linker that optimizes, in a third to a tenth of the time of PTX. It has checked the
# language, calls of the host's functions too; only inline assembly has been read by nobody.
_FRONT_END = ["-gencode=arch=compute_{0},code=lto_{0}".format(ARCHS[-1])]

# What nvcc makes: an object with host code, PTX, or the code for GPUs alone; or what nobody looks at. None: code for
# GPUs, which _code() chooses.
_OUTPUTS = {
    "assembled": (".assembled", ["-ptx", "-arch=compute_" + ARCHS[-1], "-Xcicc", "-O0"]),
    "checked": (".checked", ["-fatbin"] + _FRONT_END),
    "fatbin": (".fatbin", ["-fatbin", None]),
    "object": (".o", ["-c", None]),
    "ptx": (".ptx", ["-ptx", "-arch=compute_" + ARCHS[-1]]),
    "relocatable": (".cubin", ["-rdc=true", "-cubin", "-arch=sm_" + ARCHS[-1]]),
}

def _code(ctx):
    """Drafts on a machine without a GPU, if .bazelrc says so (tools/bundle and tools/install say otherwise): of images,
    which nobody loads there, what the front end makes; of objects, which link, PTX."""
    if ctx.var.get("peal_cuda") != "draft_without_gpu" or GPU:
        return _MACHINE_CODE
    return _PTX if ctx.attr.output == "object" else _FRONT_END

def _cuda_object(ctx):
    compilation = [dep[CcInfo].compilation_context for dep in ctx.attr.deps]
    headers = without_parts(depset(transitive = [each.headers for each in compilation]))
    includes = depset(transitive = [each.includes for each in compilation])

    # In another workspace peal's headers lie in a folder of their own.
    quoted = depset(transitive = [each.quote_includes for each in compilation])
    system = depset(transitive = [each.system_includes for each in compilation])
    suffix, options = _OUTPUTS[ctx.attr.output]
    object_file = ctx.actions.declare_file(ctx.label.name + suffix)
    args = ctx.actions.args()
    for option in options:
        args.add_all([option] if option else _code(ctx))
    args.add_all(["-std=c++20", "-O3", "-I.", ctx.file.src.path, "-o", object_file.path])
    args.add_all(["-Xcompiler", "-fPIC"])
    if ctx.var.get("peal_strict"):  # .bazelrc: this tree's own code
        args.add_all(["-Xcompiler", "-Wall,-Wextra", "-Werror", "all-warnings"])
    args.add_all(includes, before_each = "-I")
    args.add_all(quoted, before_each = "-I")
    args.add_all(system, before_each = "-isystem")
    ctx.actions.run(
        executable = NVCC,
        arguments = [args],
        inputs = [ctx.file.src] + headers,
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
        "output": attr.string(default = "object", values = _OUTPUTS.keys()),
    },
)

def cuda_compiles(name, src, deps = [], assembled = False, **kwargs):
    """That nvcc's front end takes the file; `assembled`: and ptxas its inline assembly. Nothing without nvcc."""
    if NVCC:
        _cuda_object_rule(name = name, src = src, output = "assembled" if assembled else "checked", deps = deps, **kwargs)

def cuda_object(name, src, deps = [], tags = [], **kwargs):
    """An object file from nvcc, made when something asks for it; an empty filegroup on machines without it.

    //... checks that nvcc takes the file.
    """
    if not NVCC:
        native.filegroup(name = name, srcs = [], **kwargs)
        return
    cuda_compiles(name = name + "_checked", src = src, deps = deps, tags = tags, **kwargs)
    _cuda_object_rule(name = name, src = src, deps = deps, tags = tags + ["manual"], **kwargs)

def ptx_test(name, src, script, deps = [], tool = None, relocatable = False, **kwargs):
    """Runs `script` with the PTX of `src` as its argument, and a tool of CUDA's (its name) as the second one.

    relocatable: with its relocatable machine code (-rdc=true) instead, and the architecture as the third one."""
    if not NVCC:
        return
    code = name + "_code"
    _cuda_object_rule(name = code, src = src, output = "relocatable" if relocatable else "ptx", deps = deps)
    native.sh_test(
        name = name,
        srcs = [script],
        args = ["$(rootpath :%s)" % code] + ([NVCC.rpartition("/")[0] + "/" + tool] if tool else []) +
               (["sm_" + ARCHS[-1]] if relocatable else []),
        data = [":" + code],
        **kwargs
    )

def gpu_binary(name, srcs, deps = [], linkopts = [], tags = [], **kwargs):
    """A program for machines with a GPU, built by its name; an empty filegroup on machines without nvcc."""
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
        tags = tags + ["manual"],
        deps = deps,
        **kwargs
    )

def gpu_program(name, src, deps = [], testonly = False, tags = [], **kwargs):
    """A program of one .cu file for machines with a GPU; //... checks that nvcc takes it."""
    code = (name[:-len("_gpu")] if name.endswith("_gpu") else name) + "_cu"
    cuda_object(name = code, src = src, testonly = testonly, tags = tags, deps = deps)
    gpu_binary(name = name, srcs = [":" + code], testonly = testonly, tags = tags, deps = deps, **kwargs)

def kernel_binary(name, src, deps = [], data = [], **kwargs):
    """A program with kernels: `name` runs them on the CPU (simt), `name`_gpu is the same source by nvcc.

    //... checks that nvcc takes the source; `name`_gpu is built by its name, or by tools/bundle.
    """
    wrapper = name + "_on_cpu"
    native.genrule(
        name = wrapper,
        srcs = [src],
        outs = [wrapper + ".cc"],
        cmd = "echo '#include \"$(rootpath %s)\"' > $@" % src,
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
    gpu_program(name = name + "_gpu", src = src, data = data, deps = deps, **kwargs)

def _image_object(sources, src):
    """The image of one .cu file as data of an object file, which begins at the symbol _binary_NAME_image_start."""
    name = src[:-len(".cu")]
    _cuda_object_rule(name = name + "_image", src = src, output = "fatbin", deps = [sources])
    options = "--rename-section .data=.rodata,alloc,load,readonly,data,contents --set-section-alignment .data=16"
    native.genrule(
        name = name + "_image_object",
        srcs = [":%s_image" % name],
        outs = [name + "_image.o"],
        # objcopy makes the symbol of the file's name.
        cmd = "cp $< {0}.image && objcopy -I binary -O elf64-x86-64 {1} {0}.image $@ && rm -f {0}.image".format(
            name,
            options,
        ),
    )
    return name

def _images_source(images):
    """What kernels/table.h calls images, behind one C function."""
    symbols = ["_binary_%s_image_start" % name for name in images]
    rows = ["    {\"%s\", %s}," % (name, symbol) for name, symbol in zip(images, symbols)]
    lines = ["#include \"kernels/table.h\""]
    lines += ["extern \"C\" const unsigned char %s[];" % symbol for symbol in symbols]
    lines += ["extern \"C\" const peal::kernels::Image* peal_kernel_images(size_t* count) {"]
    lines += ["  static const peal::kernels::Image kImages[] = {"] + rows + ["    {nullptr, nullptr}};"]
    lines += ["  *count = %d;" % len(images), "  return kImages;", "}", ""]
    return "\n".join(lines)

# A library without its headers: what nvcc compiles elsewhere does not depend on them.
def _link_only(ctx):
    return [CcInfo(linking_context = ctx.attr.dep[CcInfo].linking_context)]

_linked = rule(
    implementation = _link_only,
    attrs = {"dep": attr.label(providers = [CcInfo])},
)

def kernel_library(name, srcs, hdrs, own_hdrs, table, deps):
    """`table` finds the kernels by name, by the declarations of `hdrs`; `own_hdrs` are those of the kernels.

    srcs: {name: files}, what is compiled as one for CPUs: reading the headers is a third of a file. nvcc takes each by
    itself, as an image of its own.
    libpeal_`name`.so has the images: large, and of use with a GPU only.
    """
    files = [file for unit in srcs.values() for file in unit]
    sources = name + "_sources"
    native.cc_library(
        name = sources,
        hdrs = own_hdrs,
        textual_hdrs = files,
        deps = deps,
    )
    for unit, parts in srcs.items():
        native.genrule(
            name = unit + "_unit",
            outs = [unit + "_on_cpu.cc"],
            cmd = "printf '#include \"%%s\"\\n' %s > $@" % " ".join(["%s/%s" % (native.package_name(), part) for part in parts]),
        )
    native.cc_library(
        name = name + "_on_cpu",
        srcs = [unit + "_on_cpu.cc" for unit in srcs],
        deps = [":" + sources],
    )
    _linked(name = name + "_linked", dep = ":%s_on_cpu" % name)
    native.cc_library(
        name = name,
        srcs = [table] + own_hdrs,
        hdrs = hdrs,
        deps = deps + [":%s_linked" % name],
    )
    images = [_image_object(sources, src) for src in files] if NVCC else []
    native.genrule(
        name = name + "_images",
        outs = [name + "_images.cc"],
        cmd = "cat > $@ <<'END'\n%sEND" % _images_source(images),
    )
    native.cc_binary(
        name = "libpeal_%s.so" % name,
        srcs = [name + "_images.cc"] + hdrs + [image + "_image.o" for image in images],
        linkopts = ["-Wl,-soname,libpeal_%s.so" % name],
        linkshared = True,
        deps = deps,
    )

"""on_hosts_test: a script that makes hosts and starts programs on them."""

# Hosts share two cores. What they take of the machine (qemu, a kernel; namespaces, tshark) is no input that Bazel sees.
SEVERAL_HOSTS = ["cpu:2", "external", "mp"]

def on_hosts_test(name, size, programs, sources, script = None, options = [], tags = SEVERAL_HOSTS):
    """`script`, by default name.py, with `options` and the paths of `programs`; `sources` are there beside them."""
    native.sh_test(
        name = name,
        size = size,
        srcs = [script or name + ".py"],
        args = options + ["$(rootpath %s)" % program for program in programs],
        data = programs + sources,
        tags = tags,
    )

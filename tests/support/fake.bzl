"""fake_library: a library of a vendor's, as a test wants it."""

def fake_library(name, srcs = [], deps = [], soname = None):
    """libNAME.so, of NAME.cc and `srcs`, which programs open in place of the vendor's; and NAME, by which a test opens it
    too and says what it shall answer. `soname`: the name that the vendor's gives itself, where it is found by that."""
    native.cc_binary(
        name = "lib%s.so" % name,
        srcs = [name + ".cc", name + ".h"] + srcs,
        linkopts = ["-Wl,-soname," + soname] if soname else [],
        linkshared = True,
        deps = [":built"] + deps,
    )
    native.cc_library(
        name = name,
        hdrs = [name + ".h"],
        data = [":lib%s.so" % name],
        deps = [":built"],
    )

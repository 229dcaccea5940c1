"""How kernels are compiled whose own loads, stores and atomics an observer is told of (simt/lanes/plain_access.h). With a
dependency on //simt/hooks, and nothing in linkopts; not for builds that have a sanitizer."""

OBSERVED_COPTS = [
    "-include",
    "simt/hooks/observed.h",
    "-fsanitize=thread",
    "--param=tsan-distinguish-volatile=1",
    "-fno-builtin-memcpy",
    "-fno-builtin-memmove",
    "-fno-builtin-memset",
    "-Wno-tsan",
]

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lays down what programs outside this tree need, in a folder that may be moved later.

  PREFIX/include/peal        headers: -IPREFIX/include/peal; NVSHMEM's calls: its folder compat
  PREFIX/lib                 libpeal.so, libpeal.a, libpeal_hooks.a, cmake/peal, pkgconfig
  PREFIX/lib/race            --race: the same libraries, built for peal-cc --race
  PREFIX/lib/sim             --sim: libpeal.so and what programs of peal-cc --sim link, built for them
  PREFIX/lib/peal            what libpeal loads: MPI plug-in, kernels, software NIC
  PREFIX/bin                 peal-run, peal-id, peal-trace, peal-cc, peal-sim, peal-doctor, the benchmarks and peal-plot
  PREFIX/share/peal          examples, what peal-cc --race compiles into programs
  PREFIX/share/doc/peal      pages; llms.txt and tasks, for coding assistants

Run by Bazel: bazel run //:install -- --prefix DIR
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

TREE = pathlib.Path.cwd()
HEADERS = ["peal/peal.h", "peal/c_api.h", "peal/c_calls.h", "peal/c_failures.h", "peal/c_storage.h", "peal/kernel_table.h",
           "peal/nvrtc_table.h", "compat/nvshmem.h", "compat/nvshmemx.h", "compat/nvshmemx_error.h",
           "simt/lanes/plain_access.h", "simt/runtime/plain_cpp.h", "simt/hooks/observed.h"]
# By the names that programs of NVSHMEM and CUDA include.
FORWARDING = ["compat/host", "compat/device", "device/nvrtc", "simt/runtime/cccl", "simt/runtime/cuda"]
LOADED = ["bootstrap/libpeal_mpi.so", "kernels/libpeal_kernels.so", "softnic/sysfs/libpeal_sysfs.so",
          "softnic/gpu/peal_softnic_engine"] + [f"softnic/abi/{name}" for name in (
              "libpeal_softnic.so", "libibverbs.so", "libibverbs.so.1", "libmlx5.so", "libmlx5.so.1")]
PROGRAMS = {"peal-run": "run/peal-run", "peal-id": "run/peal-id", "peal-cc": "simt/cc/peal-cc", "peal-doctor": "doctor/doctor",
            **{f"peal-{name.replace('_', '-')}": f"perf/{name}" for name in ("bandwidth", "collectives", "latency", "message_rate")}}
TEXTS = ["README.md", "CHANGELOG.md", "LICENSE"]
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def arguments():
    parser = argparse.ArgumentParser(prog="install", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", required=True, help="where to; made if it is not there")
    parser.add_argument("--libdir", default="lib", help="of libraries, within PREFIX (default: lib)")
    parser.add_argument("--destdir", default="", help="put in front of PREFIX, for packages")
    parser.add_argument("--race", action="store_true",
                        help="only the libraries, for peal-cc --race: of a build with --config=tsan")
    parser.add_argument("--sim", action="store_true",
                        help="only the libraries, for peal-cc --sim: of packaging:install_simulated")
    parser.add_argument("--debug", action="store_true", help="keep debug information")
    options = parser.parse_args()
    # Bazel starts programs elsewhere: a relative path means the caller's folder.
    home = pathlib.Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    options.prefix = home / options.prefix
    options.root = options.prefix
    if options.destdir:
        options.root = home / options.destdir / options.prefix.relative_to("/")
    if pathlib.PurePath(options.libdir).is_absolute() or ".." in pathlib.PurePath(options.libdir).parts:
        parser.error(f"--libdir {options.libdir}: give a folder within PREFIX")
    return options


def headers():
    """HEADERS and all that they include, on either kind of target."""
    found, left = set(), list(HEADERS)
    for folder in FORWARDING:
        left += [str(path.relative_to(TREE)) for path in (TREE / folder).rglob("*") if path.is_file()]
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        text = (TREE / name).read_text()
        left += [below for below in INCLUDE.findall(text) if (TREE / below).is_file()]
    return sorted(found)


class Installer:
    def __init__(self, options):
        self.root, self.libdir, self.debug = options.root, options.libdir, options.debug or options.race
        release = json.loads((TREE / "packaging/version.json").read_text())
        self.version, self.soname = release["version"], release["soname"]
        self.file = f"libpeal.so.{self.version}"

    def text(self, source, target):
        (self.root / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(TREE / source, self.root / target)

    def binary(self, source, target, mode=0o644):
        """A program or library, without its debug information unless that is wanted."""
        out = self.root / target
        out.parent.mkdir(parents=True, exist_ok=True)
        out.unlink(missing_ok=True)  # a program that runs keeps the old file
        if self.debug:
            shutil.copyfile(TREE / source, out)
        else:
            subprocess.run(["strip", "--strip-debug", "-o", out, (TREE / source).resolve()], check=True)
        out.chmod(mode)

    def link(self, target, points_to):
        path = self.root / target
        path.unlink(missing_ok=True)
        path.symlink_to(points_to)

    def filled(self, source, target):
        """A template of packaging/ with the places of this installation, relative to where it lies."""
        depth = len(pathlib.PurePath(target).parent.parts)
        system = str(self.root).endswith("/usr")
        nvshmem = dict(re.findall(r"#define NVSHMEM_VENDOR_(\w+)_VERSION (\d+)", (TREE / "compat/detail/types.h").read_text()))
        values = {"NVSHMEM": ".".join(nvshmem[part] for part in ("MAJOR", "MINOR", "PATCH")), "VERSION": self.version, "SONAME": self.soname, "FILE": self.file, "LIBDIR": self.libdir,
                  "TO_PREFIX": "/".join([".."] * depth), "RPATH": "" if system else " -Wl,-rpath,${libdir}"}
        out = self.root / target
        out.parent.mkdir(parents=True, exist_ok=True)
        text = (TREE / "packaging" / source).read_text()
        out.write_text(re.sub(r"@([A-Z_]+)@", lambda match: values[match[1]], text))

    def shared_library(self, source, libdir):
        self.binary(source, f"{libdir}/{self.file}")
        self.link(f"{libdir}/{self.soname}", self.file)
        self.link(f"{libdir}/libpeal.so", self.soname)

    def simulated(self, libdir):
        self.shared_library("packaging/sim/libpeal.so", libdir)
        for name in ("hooks", "simulated_main"):
            self.binary(f"packaging/sim/lib{name}.a", f"{libdir}/libpeal_{name}.a")

    def libraries(self, libdir):
        self.shared_library("peal/libpeal.so", libdir)
        self.binary("peal/libpeal.a", f"{libdir}/libpeal.a")
        for path in LOADED:
            if (TREE / path).is_file():
                folder = path.split("/")[0]
                runs = 0o755 if path.endswith("engine") else 0o644
                self.binary(path, f"{libdir}/peal/{folder}/{pathlib.PurePath(path).name}", runs)

    def packages(self):
        self.filled("peal-config.cmake.in", f"{self.libdir}/cmake/peal/peal-config.cmake")
        self.filled("peal-config-version.cmake.in", f"{self.libdir}/cmake/peal/peal-config-version.cmake")
        self.filled("nvshmem-config.cmake.in", f"{self.libdir}/cmake/nvshmem/NVSHMEMConfig.cmake")
        self.filled("nvshmem-config-version.cmake.in", f"{self.libdir}/cmake/nvshmem/NVSHMEMConfigVersion.cmake")
        self.filled("peal.pc.in", f"{self.libdir}/pkgconfig/peal.pc")
        self.filled("peal-nvshmem.pc.in", f"{self.libdir}/pkgconfig/peal-nvshmem.pc")

    def all(self):
        shutil.rmtree(self.root / "include/peal", ignore_errors=True)
        for name in headers():
            self.text(name, f"include/peal/{name}")
        self.libraries(self.libdir)
        self.binary("simt/hooks/libhooks.a", f"{self.libdir}/libpeal_hooks.a")
        self.text("simt/cc/race/support.cc", "share/peal/race.cc")
        self.packages()
        for name, path in PROGRAMS.items():
            self.binary(path, f"bin/{name}", 0o755)
        for path in ("run/peal_trace.py", "run/peal_sim.py", "perf/peal_plot.py"):
            name = pathlib.PurePath(path).stem.replace("_", "-")
            self.text(path, f"bin/{name}")
            (self.root / f"bin/{name}").chmod(0o755)
        for path in sorted((TREE / "examples").glob("*.[ch]*")):
            self.text(f"examples/{path.name}", f"share/peal/examples/{path.name}")
        for path in sorted((TREE / "examples/tutorial").glob("step*.cu")):
            self.text(f"examples/tutorial/{path.name}", f"share/peal/examples/tutorial/{path.name}")
        for path in sorted((TREE / "examples/python").glob("*.py")):
            self.text(f"examples/python/{path.name}", f"share/peal/examples/python/{path.name}")
        self.text("examples/CMakeLists.txt", "share/peal/examples/CMakeLists.txt")
        self.filled("Makefile.in", "share/peal/examples/Makefile")
        pages = [page.relative_to(TREE).as_posix() for page in sorted((TREE / "docs").rglob("*.*")) if page.suffix in (".md", ".svg")]
        for path in [*TEXTS, *pages]:
            self.text(path, f"share/doc/peal/{path}")
        sys.path.insert(0, str(TREE / "tools/site"))
        import tasks  # here: the other installations have no pages
        shutil.rmtree(self.root / "share/doc/peal/tasks", ignore_errors=True)
        tasks.write(TREE, self.root / "share/doc/peal", tasks.place_of_installation)


def main():
    options = arguments()
    if not (TREE / "packaging/version.json").is_file():
        sys.exit("install: run it by Bazel: bazel run //:install -- --prefix DIR")
    try:
        installer = Installer(options)
        if options.race:
            installer.libraries(f"{options.libdir}/race")
            return
        if options.sim:
            installer.simulated(f"{options.libdir}/sim")
            return
        installer.all()
    except OSError as error:
        sys.exit(f"install: {error.filename}: {error.strerror}; --prefix names a folder that you may write to")
    print(f"peal is in {options.prefix}: find_package(peal) with CMAKE_PREFIX_PATH={options.prefix}, or "
          f"PKG_CONFIG_PATH={options.prefix / options.libdir / 'pkgconfig'}")


if __name__ == "__main__":
    main()

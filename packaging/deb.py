#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes Debian packages of an installation under DESTDIR/usr.

  libpeal0     libpeal.so.0 and what it loads
  libpeal-dev  headers, libpeal.a, CMake and pkg-config files, examples
  peal-tools   programs and pages
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PACKAGES = {
    "libpeal0": ("libs", "GPU-initiated one-sided communication: the library",
                 ["usr/lib/libpeal.so.*", "usr/lib/peal"]),
    "libpeal-dev": ("libdevel", "GPU-initiated one-sided communication: headers",
                    ["usr/include/peal", "usr/lib/libpeal.so", "usr/lib/libpeal*.a", "usr/lib/cmake/peal", "usr/lib/cmake/nvshmem",
                     "usr/lib/pkgconfig/peal*.pc", "usr/share/peal", "usr/bin/peal-cc"]),
    "peal-tools": ("utils", "GPU-initiated one-sided communication: programs",
                   ["usr/bin/peal-[!c]*", "usr/bin/peal-c[!c]*", "usr/share/doc/peal"]),
}
# Loaded where it is wanted, and by nobody else.
OPTIONAL = ("libmpi.so", "libibverbs.so", "libmlx5.so", "libpeal_softnic.so")


def owner(library):
    """The Debian package that has a shared library of this architecture."""
    found = subprocess.run(["dpkg", "-S", f"*/x86_64-linux-gnu/{library}"], capture_output=True, text=True,
                           check=False).stdout
    names = {line.split(":")[0] for line in found.splitlines() if line.endswith("/" + library)}
    if not names:
        sys.exit(f"deb: no installed package has {library}, which peal was linked with")
    return sorted(names)[0]


def needed(root):
    """Packages of the libraries that the binaries below `root` are linked with."""
    libraries = set()
    for path in root.rglob("*"):
        if path.is_symlink() or not path.is_file() or path.read_bytes()[:4] != b"\x7fELF":
            continue
        text = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
        libraries |= set(re.findall(r"\(NEEDED\).*\[(.+)\]", text))
    return sorted({owner(name) for name in libraries if not name.startswith((*OPTIONAL, "libpeal.so"))})


def control(name, version, depends, size):
    section, summary, _ = PACKAGES[name]
    lines = [f"Package: {name}", f"Version: {version}", f"Section: {section}", "Priority: optional",
             "Architecture: amd64", "Maintainer: The peal maintainers <maintainers@peal.invalid>",
             f"Installed-Size: {size}", f"Description: {summary}",
             " CUDA kernels put, get and signal between the processes of a job by",
             " themselves. The same kernels run on a CPU against a software NIC."]
    if depends:
        lines.insert(4, "Depends: " + ", ".join(depends))
    recommended = {"libpeal0": "ibverbs-providers, openmpi-bin", "libpeal-dev": "g++", "peal-tools": "python3"}
    if name in recommended:
        lines.insert(5, "Recommends: " + recommended[name])
    return "\n".join(lines) + "\n"


def left_out(destdir):
    """Files of the installation that no package has."""
    taken = {path for _, _, patterns in PACKAGES.values() for pattern in patterns for path in destdir.glob(pattern)}
    files = (path for path in destdir.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(str(path.relative_to(destdir)) for path in files if taken.isdisjoint({path, *path.parents}))


def make(name, destdir, version, out):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / name
        for pattern in PACKAGES[name][2]:
            found = sorted(destdir.glob(pattern))
            if not found:
                sys.exit(f"deb: {name}: the installation has no {pattern}")
            for path in found:
                target = root / path.relative_to(destdir)
                target.parent.mkdir(parents=True, exist_ok=True)
                if path.is_dir():
                    shutil.copytree(path, target, symlinks=True)
                else:
                    shutil.copy2(path, target, follow_symlinks=False)
        doc = root / "usr/share/doc" / name
        doc.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(destdir / "usr/share/doc/peal/LICENSE", doc / "copyright")
        depends = needed(root)
        if name == "libpeal-dev":
            depends = [f"libpeal0 (= {version})", "libboost-context-dev", "libfmt-dev", "nettle-dev"]
        elif name == "peal-tools":
            depends.insert(0, f"libpeal0 (= {version})")
        size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) // 1024
        (root / "DEBIAN").mkdir()
        (root / "DEBIAN/control").write_text(control(name, version, depends, size))
        if name == "libpeal0":
            (root / "DEBIAN/triggers").write_text("activate-noawait ldconfig\n")
        file = out / f"{name}_{version}_amd64.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "--build", root, file], check=True,
                       stdout=subprocess.DEVNULL)
        print(file)


def main():
    parser = argparse.ArgumentParser(prog="deb", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--destdir", required=True, type=pathlib.Path)
    parser.add_argument("--version", required=True, help="version.json of packaging")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    options = parser.parse_args()
    version = json.loads(pathlib.Path(options.version).read_text())["version"] + "-1"
    if missed := left_out(options.destdir):
        sys.exit(f"deb: no package has {', '.join(missed)}: add it to PACKAGES of packaging/deb.py")
    options.out.mkdir(parents=True, exist_ok=True)
    for name in PACKAGES:
        make(name, options.destdir, version, options.out)


if __name__ == "__main__":
    main()

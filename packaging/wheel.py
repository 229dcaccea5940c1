#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a wheel of python/ and an installation (install.py).

  peal/                 python/peal
  peal/doc              pages; llms.txt and tasks, for coding assistants
  peal/_native/lib      libpeal.so.0; the libraries of Debian that it wants and other systems may lack
  peal/_native/lib/peal what libpeal loads: MPI plug-in, kernels, software NIC
  peal/_native/bin      peal-run, peal-id, peal-doctor, peal-cc
  peal/_native/include  headers: what peal-cc compiles kernels with
  peal-V.dist-info      licences, of those libraries too

libpeal finds the rest from its own place, and the programs find lib/ from theirs. Nothing is compiled: the package
calls the library through ctypes, so one wheel is for every Python 3, on Linux with this machine's glibc or a newer one
as far as the symbols say that are used.
"""
import argparse
import base64
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

NATIVE = "peal/_native"
# What every system with Python has (manylinux' list), and what a machine has if it has use for it.
ELSEWHERE = re.compile(r"(libc|libm|libstdc\+\+|libgcc_s|ld-linux-x86-64|libmpi|libpeal_softnic)\.so")
METADATA = """\
Metadata-Version: 2.1
Name: peal
Version: {version}
Summary: One-sided communication between processes, on symmetric arrays
License: Apache-2.0
Requires-Python: >=3.11
Requires-Dist: numpy>=1.23
Description-Content-Type: text/markdown

"""


def elf_text(option, path):
    return subprocess.run(["readelf", "-W", option, path], capture_output=True, text=True, check=True).stdout


def is_elf(path):
    return path.read_bytes()[:4] == b"\x7fELF"


def needed(path):
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", elf_text("-d", path)))


def system_libraries(files):
    """Paths by name of the libraries of this system that `files` are linked with, and that those are."""
    places = dict(re.findall(r"^\t(\S+) \(.*x86-64.*\) => (\S+)$",
                             subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout, re.M))
    found, left = {}, list(files)
    while left:
        for name in needed(left.pop()):
            if ELSEWHERE.match(name) or name in found:
                continue
            if name not in places:
                sys.exit(f"wheel: this machine has no {name}, which peal was linked with")
            found[name] = pathlib.Path(places[name]).resolve()
            left.append(found[name])
    return found


def copyright_of(library):
    """Debian's file of copyrights for a library, with its package's name."""
    for name in (library, pathlib.Path(str(library).removeprefix("/usr"))):
        told = subprocess.run(["dpkg", "-S", name], capture_output=True, text=True, check=False).stdout
        if told:
            package = told.split(":")[0]
            return package, pathlib.Path("/usr/share/doc", package, "copyright")
    sys.exit(f"wheel: no installed package has {library}, whose licence the wheel wants")


def contents(root, python):
    """What lies where in the wheel: paths by name."""
    files = {f"peal/{path.relative_to(python)}": path for path in sorted(python.rglob("*")) if path.suffix in (".py", ".typed", ".cpp", ".h")}
    texts = sorted(path for path in (root / "share/doc/peal").rglob("*") if path.suffix in (".md", ".txt", ".svg"))
    files |= {f"peal/doc/{path.relative_to(root / 'share/doc/peal')}": path for path in texts}
    binaries = {"lib/libpeal.so.0": (root / "lib/libpeal.so.0").resolve()}
    binaries |= {f"lib/{path.relative_to(root / 'lib')}": path for path in sorted((root / "lib/peal").rglob("*")) if path.is_file()}
    binaries |= {f"bin/{name}": root / "bin" / name for name in ("peal-run", "peal-id", "peal-doctor", "peal-cc")}
    libraries = system_libraries(path for path in binaries.values() if is_elf(path))
    binaries |= {f"lib/{name}": path for name, path in libraries.items()}
    headers = {f"include/{path.relative_to(root / 'include')}": path for path in sorted((root / "include").rglob("*")) if path.is_file()}
    return files | {f"{NATIVE}/{name}": path for name, path in (binaries | headers).items()}, libraries.values()


def oldest_glibc(paths):
    """The minor version of glibc 2 that has all symbols that are used."""
    wanted = set()
    for path in filter(is_elf, paths):
        wanted |= {int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", elf_text("-V", path))}
    return max(wanted)


class Wheel:
    def __init__(self, path):
        self.archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.records = []

    def add(self, name, data, mode=0o644):
        entry = zipfile.ZipInfo(name)  # of 1980: the same input makes the same wheel
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.archive.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.records.append(f"{name},sha256={digest},{len(data)}")

    def close(self, info):
        self.records.append(f"{info}/RECORD,,")
        self.archive.writestr(f"{info}/RECORD", "\n".join(self.records) + "\n")
        self.archive.close()


def make(options, version):
    files, libraries = contents(options.root, options.python)
    tag = f"py3-none-manylinux_2_{oldest_glibc(files.values())}_x86_64"
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"peal-{version}-{tag}.whl"
    info = f"peal-{version}.dist-info"
    wheel = Wheel(path)
    for name, source in files.items():
        runs = "/bin/" in name or name.endswith("engine")
        wheel.add(name, source.read_bytes(), 0o755 if runs else 0o644)
    # What the linker looks for; wheels have no links.
    wheel.add(f"{NATIVE}/lib/libpeal.so", b"INPUT(-l:libpeal.so.0)\n")
    page = (options.root / "share/doc/peal/docs/python.md").read_text()
    wheel.add(f"{info}/METADATA", (METADATA.format(version=version) + page).encode())
    wheel.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: peal\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
    wheel.add(f"{info}/entry_points.txt", b"[console_scripts]\npeal-run = peal.run:main\npeal-doctor = peal.doctor:main\n")
    wheel.add(f"{info}/licenses/LICENSE", (options.root / "share/doc/peal/LICENSE").read_bytes())
    for package, text in map(copyright_of, libraries):
        wheel.add(f"{info}/licenses/{package}", text.read_bytes())
    wheel.close(info)
    return path


def main():
    parser = argparse.ArgumentParser(prog="wheel", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", required=True, type=pathlib.Path, help="the installation")
    parser.add_argument("--python", required=True, type=pathlib.Path, help="python/peal")
    parser.add_argument("--version", required=True, type=pathlib.Path, help="version.json of packaging")
    parser.add_argument("--out", required=True, type=pathlib.Path, help="folder for the wheel")
    options = parser.parse_args()
    if not shutil.which("readelf"):
        sys.exit("wheel: no readelf; install binutils")
    print(make(options, json.loads(options.version.read_text())["version"]))


if __name__ == "__main__":
    main()

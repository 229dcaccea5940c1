#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Debian's kernel for the virtual hosts: fetched once into ~/.cache/peal/linux, never installed.

    kernel.py          says nothing when it is there; else fetches it (apt-get download)

What is kept, 70 MB: vmlinux, unpacked so that no host spends seconds on it, and modules/NN-name.ko, numbered in the
order in which they are loaded.
"""
import lzma
import pathlib
import re
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path("~/.cache/peal/linux").expanduser()
WANTED = ("virtio_pci", "virtio_net", "virtio_console", "crc32_generic", "rdma_rxe")


def package():
    """The package that linux-image-amd64 stands for now."""
    text = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], check=True, capture_output=True, text=True)
    found = re.search(r"Depends: (linux-image-\S+)", text.stdout)
    if not found:
        raise RuntimeError("apt knows no linux-image-amd64: apt-get update")
    return found.group(1)


def load_order(modules):
    """Paths of the wanted modules, each behind those it depends on. modules: {name: path}."""
    order = []

    def load(name):
        path = modules[name.replace("-", "_")]
        if path in order:
            return
        for needs in re.findall(rb"\0depends=([^\0]+)\0", path.read_bytes()):
            for other in needs.decode().split(","):
                load(other)
        order.append(path)

    for name in WANTED:
        load(name)
    return order


def unpack(archive, folder):
    """Takes from the package what a virtual host needs."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as everything:
        subprocess.run(["dpkg-deb", "-x", archive, everything], check=True)
        tree = pathlib.Path(everything)
        image, = tree.glob("boot/vmlinuz-*")
        packed = image.read_bytes()
        start = packed.index(b"\xfd7zXZ\0")
        (folder / "vmlinux").write_bytes(lzma.LZMADecompressor().decompress(packed[start:]))
        (folder / "modules").mkdir()
        modules = {path.stem.replace("-", "_"): path for path in tree.rglob("*.ko")}
        for number, path in enumerate(load_order(modules)):
            path.rename(folder / "modules" / f"{number:02}-{path.name}")


def fetch():
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER.parent) as scratch:
        subprocess.run(["apt-get", "download", "-q", package()], check=True, capture_output=True, cwd=scratch)
        archive, = pathlib.Path(scratch).glob("*.deb")
        made = pathlib.Path(scratch, "linux")
        made.mkdir()
        unpack(archive, made)
        made.rename(FOLDER)


if __name__ == "__main__" and not FOLDER.exists():
    try:
        fetch()
    except subprocess.CalledProcessError as error:
        sys.exit(f"{' '.join(map(str, error.cmd))}: {(error.stderr or b'').decode(errors='replace').strip()}")
    except (KeyError, OSError, RuntimeError, ValueError, lzma.LZMAError) as error:
        sys.exit(f"kernel.py: {error}")

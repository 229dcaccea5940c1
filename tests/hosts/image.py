# SPDX-License-Identifier: Apache-2.0
"""The initrd of a virtual host: busybox, init, the kernel's modules, rdma-core, the programs, and the shared libraries
that all of these need, each at its own path. All hosts have the same one."""
import pathlib
import re
import shutil
import subprocess

RDMA_CORE = ("/usr/lib/x86_64-linux-gnu/libibverbs.so.1", "/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so")
APPLETS = ("awk", "cat", "grep", "insmod", "ip", "kill", "mkdir", "mount", "sed", "sh", "timeout")


def rdma():
    return shutil.which("rdma", path="/usr/sbin:/sbin:/usr/bin:/bin")


def libraries(files):
    """What the dynamic linker would load for them."""
    text = subprocess.run(["ldd", *files], check=True, capture_output=True, text=True).stdout
    missing = re.findall(r"(\S+) => not found", text)
    if missing:
        raise RuntimeError(f"no {missing[0]} for a virtual host")
    return set(re.findall(r"(/\S+) \(0x", text))


def put(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def make(kernel, programs, scratch, folders=None):
    """Makes the initrd in the folder `scratch`, answers its path. programs: paths, found in /bin under their names.
    folders: {folder on the host: paths}, beside what is at its own path."""
    root = scratch / "root"
    (root / "bin").mkdir(parents=True)
    for name in ("dev", "proc", "sys"):
        (root / name).mkdir()
    put(pathlib.Path(__file__).parent / "init", root / "init")
    put(shutil.which("busybox"), root / "bin/busybox")
    for applet in APPLETS:
        (root / "bin" / applet).symlink_to("busybox")
    shutil.copytree(kernel / "modules", root / "modules")

    for program in [rdma(), *programs]:
        put(program, root / "bin" / pathlib.Path(program).name)
    folders = folders or {}
    added = [path for paths in folders.values() for path in paths]
    for folder, paths in folders.items():
        for path in paths:
            put(path, root / folder / pathlib.Path(path).name)
    for path in {*RDMA_CORE, *libraries([rdma(), *programs, *RDMA_CORE, *added])}:
        put(path, root / path.lstrip("/"))
    put("/etc/libibverbs.d/rxe.driver", root / "etc/libibverbs.d/rxe.driver")
    for program in programs:
        subprocess.run(["strip", root / "bin" / pathlib.Path(program).name], check=True)

    initrd = scratch / "initrd"
    with open(initrd, "wb") as out:
        names = "\0".join(str(path.relative_to(root)) for path in sorted(root.rglob("*"))).encode()
        subprocess.run(["cpio", "--null", "--create", "--format=newc", "--quiet"], input=names, stdout=out, cwd=root,
                       check=True)
    return initrd

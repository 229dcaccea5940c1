# SPDX-License-Identifier: Apache-2.0
"""OpenSSH between hosts of namespaces.py: sshd on each, and one key for all."""
import os
import shutil
import subprocess

import hosts

SECONDS = 60  # for a daemon to come up
SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"
SERVER = """HostKey {folder}/key
AuthorizedKeysFile {folder}/key.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PidFile none
SetEnv PATH={path}
"""
CLIENT = """IdentityFile {folder}/key
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
BatchMode yes
"""


def why_not():
    """What is missing here, or nothing."""
    for program, package in (("sshd", "openssh-server"), ("ssh", "openssh-client")):
        if not shutil.which(program, path=SYSTEM):
            return f"no {program}: apt-get install {package}"
    return "" if os.geteuid() == 0 else "sshd serves others than its user as root only"


def serve(machines, folder):
    """Answers the command that goes to any of the hosts."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"], check=True)
    (folder / "sshd_config").write_text(SERVER.format(folder=folder, path=machines.environment["PATH"]))
    (folder / "ssh_config").write_text(CLIENT.format(folder=folder))
    server = shutil.which("sshd", path=SYSTEM)
    for number in machines.hosts:
        daemon = machines.serve(number, f"sh -c 'mkdir -p /run/sshd; exec {server} -D -e -f {folder}/sshd_config'")
        machines.wait(lambda: "listening" in daemon.text() or daemon.status is not None, SECONDS, "sshd")
        if daemon.status is not None:
            raise hosts.Late(f"sshd: {daemon.text()}")
    return f"ssh -F {folder}/ssh_config"

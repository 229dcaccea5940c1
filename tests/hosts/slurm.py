# SPDX-License-Identifier: Apache-2.0
"""A Slurm cluster of the hosts of namespaces.py: munged and slurmd on each, slurmctld on the first.

    machines.start(1, Cluster(machines, scratch).srun("--mpi=pmi2 -N 2 -n 4 ./program"))

Steps run in one allocation of all hosts, so that none waits for the scheduler. The hosts share the configuration and
the key; sockets and state are in /run, which each has for itself. Hosts have to know each other by name.
"""
import os
import pathlib
import secrets
import shutil

import hosts

SECONDS = 60  # for a daemon to come up
CPUS = 8  # of a host, for Slurm, whatever there are
SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"
PROGRAMS = (("slurmctld", "slurmctld"), ("slurmd", "slurmd"), ("srun", "slurm-client"), ("munged", "munge"))
WAYS = ("pmi2", "pmix")  # of srun's --mpi, those that peal knows
PLUGINS = pathlib.Path("/usr/lib/x86_64-linux-gnu/slurm-wlm")

# Nothing that wants control groups, accounting or users.
CONFIGURATION = """ClusterName=peal
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/linear
SlurmdParameters=config_overrides
StateSaveLocation=/run/slurm/state
SlurmdSpoolDir=/run/slurm/spool
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=FORCE:4 State=UP
"""
MUNGED = ("sh -c 'mkdir -p /run/munge /run/slurm/state /run/slurm/spool; install -m 400 {key} /run/munge/key; "
          "exec {munged} --foreground --key-file=/run/munge/key --pid-file=/run/munge/pid --seed-file=/run/munge/seed'")


def path_of(program):
    return shutil.which(program, path=SYSTEM)


def why_not():
    """What is missing here, or nothing."""
    for program, package in PROGRAMS:
        if not path_of(program):
            return f"no {program}: apt-get install {package}"
    return "" if os.geteuid() == 0 else "slurmd starts tasks as their users, as root only"


def why_no(*ways):
    """What is missing here of these for srun's --mpi, or nothing. "none" needs no plugin."""
    for way in ways:
        if way in WAYS and not (PLUGINS / f"mpi_{way}.so").exists():
            return f"no {PLUGINS}/mpi_{way}.so: apt-get install slurm-wlm-basic-plugins"
    return ""


class Cluster:
    def __init__(self, machines, scratch):
        self.machines = machines
        configuration = scratch / "slurm.conf"
        nodes = "".join(f"NodeName=host{number} NodeAddr={machines.address(number)} CPUs={CPUS} State=UNKNOWN\n"
                        for number in machines.hosts)
        configuration.write_text(f"SlurmctldHost=host1({machines.address(1)})\n{nodes}{CONFIGURATION}")
        # Else /tmp, where hosts of one file system would make the same folder.
        (scratch / "mpi.conf").write_text("PMIxCliTmpDirBase=/run\n")
        machines.environment["SLURM_CONF"] = str(configuration)
        key = scratch / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))

        for number in machines.hosts:
            self.serve(number, MUNGED.format(key=key, munged=path_of("munged")), "work threads")
        self.serve(1, f"{path_of('slurmctld')} -D -c", "Running as primary controller")
        for number in machines.hosts:
            self.serve(number, f"{path_of('slurmd')} -D -c", "slurmd started")
        asked = machines.start(1, f"salloc -N {len(machines.hosts)} --no-shell")
        machines.wait(lambda: asked.status is not None, SECONDS, "salloc")
        if asked.status != 0:
            raise hosts.Late(f"salloc: {asked.text()}")
        self.job = asked.text().partition("Granted job allocation ")[2].split()[0]

    def serve(self, number, command, word):
        """Starts a daemon, which ends with its host, and waits until it says `word`."""
        daemon = self.machines.serve(number, command)
        self.machines.wait(lambda: word in daemon.text() or daemon.status is not None, SECONDS, command)
        if daemon.status is not None:
            raise hosts.Late(f"{command}: {daemon.text()}")

    def srun(self, words):
        return f"srun --jobid={self.job} --overlap {words}"

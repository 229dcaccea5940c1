# SPDX-License-Identifier: Apache-2.0
"""Jobs on a bad network (network.py): whatever it does to frames, RoCE's and those of the start, every byte is right and
no operation fails. Of rxe alone, and of rxe and the software NIC, on host 4."""
import hosts
from network import Weather

WEATHERS = {
    "lost": Weather(lost=0.01),
    "doubled": Weather(doubled=0.05),
    "late": Weather(late=0.05, late_by=0.005),
    "delayed": Weather(delay=0.01),
    "all": Weather(lost=0.01, doubled=0.02, late=0.02, late_by=0.005, delay=0.002),
}
# As in hosts_test.py.
JOBS = [
    ("12", "halo", "", "ok"),
    ("14", "halo", "", "ok"),
    ("14", "rma_mptest_program", "RmaBy/0.Puts*:Rma.*", "6 tests"),
]


def run_in(machines, require, run, weather, job):
    machines.network.worsen(weather)
    try:
        run(machines, *job)
    finally:
        machines.network.heal()
    hit = machines.network.hit
    for what, share in (("lost", weather.lost), ("doubled", weather.doubled), ("late", weather.late)):
        require([], not share or hit[what], f"frames that are {what}: {dict(hit)}")


def cases(require, run, every):
    """Names and calls. The arguments are those of hosts_test.py. Without `every` all weathers at once."""
    for word, weather in WEATHERS.items() if every else [("all", WEATHERS["all"])]:
        for job in JOBS:
            name = f"frames_{word}_{hosts.job_word(*job[1:3])}_on_{'_'.join(job[0])}"
            yield name, lambda machines, weather=weather, job=job: run_in(machines, require, run, weather, job)

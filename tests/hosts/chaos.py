# SPDX-License-Identifier: Apache-2.0
"""Rounds of chance: a job on two or three network namespaces, to which one or two things happen while it starts, works or
ends. Every process ends within its bound, no byte is wrong, errors name a PE that was lost and its host, nothing stays.

    hosts_test.py --namespaces --rounds 100 --seed 1 PROGRAM...     100 rounds by IPv4, 100 by IPv6, and how late

A seed makes a plan; what comes of it depends on how fast processes are. Things happen when a PE has said a line, and so
by progress; a stop and a cut that heals last for a while that is shorter than the bound for silence.
"""
import dataclasses
import random
import re
import signal
import statistics
import time

SHORT = (4, 10, 20, 24, 26, 30, 87)  # seeds of rounds with one event that take a second, a cut four
SILENCE_SECONDS = 4
MEETING_SECONDS = 20
SETTINGS = {"PEAL_HOST_TIMEOUT": f"{SILENCE_SECONDS}s", "PEAL_BOOTSTRAP_TIMEOUT": f"{MEETING_SECONDS}s"}
SLOW_SECONDS = 30  # what two busy cores may take beside that; below PEAL_TIMEOUT
START_SECONDS = 100
LAST_ROUND = 24
START, END = "starting", "all rounds were right"  # survive.cc
ON = "went on without them"

HEALING = ("short_cut", "stop")
CUTS = ("cut_host", "cut_pair", "cut_one_way", "unplug", "power_off")
KINDS = ["kill"] * 4 + ["kill_host"] * 2 + ["short_cut"] * 4 + ["stop"] * 2 + ["abort"] * 2 + [*CUTS]
BESIDE_A_CUT = ["kill", "kill_host", "stop"]

# What says that a PE is lost.
LOSS = re.compile(r"PE (\d+) (?:(?!PE \d)[^;])*?(?:has ended before|ended before the job)")
# Of rounds with one event: seconds from that until a survivor did so.
late = {"named a lost process": [], "named a PE of a lost host": [], "named a PE that it does not reach": [],
        "ended, behind a death at the end of the job": []}


@dataclasses.dataclass(frozen=True)
class Event:
    kind: str
    when: str  # the line behind which it happens
    pe: int    # the PE that it hits, or whose host
    host: int  # the other one of a cut
    back: bool  # a cut is both ways
    seconds: float  # that it lasts, where it heals

    def __str__(self):
        way = f", {'both ways with' if self.back else 'to'} host {self.host}" if "cut" in self.kind else ""
        return f"{self.kind} of PE {self.pe}{way} at '{self.when}'"


@dataclasses.dataclass(frozen=True)
class Plan:
    where: list  # by PE: its host
    settings: dict
    events: list

    def __str__(self):
        return f"PEs on hosts {self.where}, {self.settings}: {'; '.join(map(str, self.events))}"


def event_of(chance, where, kinds):
    kind = chance.choice(kinds)
    pe = chance.randrange(len(where))
    when = f"round {chance.randint(1, LAST_ROUND)}"
    if kind in ("kill", "kill_host", "stop"):
        when = chance.choice((when, when, when, START, END))
    other = chance.choice(sorted({host for host in where if host != where[pe]}))
    back = kind != "cut_one_way" and (kind != "short_cut" or chance.random() < 0.5)
    return Event(kind, when, pe, other, back, chance.uniform(0, SILENCE_SECONDS / 2))


def plan_of(seed):
    chance = random.Random(seed)
    hosts = chance.choice((2, 2, 3))
    where = [host for host in range(1, hosts + 1) for _ in range(chance.choice((1, 1, 2, 3) if hosts == 2 else (1, 1, 2)))]
    chance.shuffle(where)
    events = [event_of(chance, where, KINDS)]
    if chance.random() < 0.3:
        cut = "cut" in events[0].kind or events[0].kind in CUTS
        events.append(event_of(chance, where, BESIDE_A_CUT if cut else [kind for kind in KINDS if kind != "abort"]))
    return Plan(where, {"PEAL_CONNECT": chance.choice(("auto", "lazy"))}, events)


class Round:
    """A job, and what happens to it. `start` and `require` are those of hosts_test.py."""

    def __init__(self, machines, start, require, plan):
        self.machines = machines
        self.plan = plan
        self.where = plan.where
        self.killed = {}  # PE: when
        self.cut_at = None
        arguments = "".join(f" {event.pe} {event.when.split()[1]}" for event in plan.events if event.kind == "abort")
        self.pes = start(machines, "".join(map(str, self.where)), f"survive rounds{arguments}",
                         {**SETTINGS, **plan.settings})
        self.require = lambda holds, what: require(self.pes, holds, f"{what}. {plan}")

    def ended(self):
        return all(pe.status is not None for pe in self.pes)

    def await_(self, happened, seconds, what):
        heard = self.machines.hear(lambda: happened() or self.ended(), seconds)
        self.require(heard, f"{what} within {seconds} s")

    def run(self):
        for event in sorted(self.plan.events, key=self.turn):
            if event.when == END:
                self.end_rounds()
            self.await_(lambda event=event: self.is_time_for(event), START_SECONDS + SLOW_SECONDS, f"'{event.when}'")
            getattr(self, event.kind)(event)
        if all(event.kind in HEALING for event in self.plan.events):
            self.end_rounds()
        self.await_(lambda: False, self.bound(), "all have ended")

    def bound(self):
        """Each host may be a silence later than the one before: who is lost to a host does not hear from it any more."""
        silence = len(set(self.where)) * SILENCE_SECONDS if self.cut_at else 0
        meeting = MEETING_SECONDS if any(event.when == START for event in self.plan.events) else 0
        return silence + meeting + SLOW_SECONDS

    @staticmethod
    def turn(event):
        return (0 if event.when == START else 100) if "round " not in event.when else int(event.when.split()[1])

    def hit(self, event):
        """The PEs that an event is about."""
        host = self.where[event.pe]
        return [pe for pe, its in enumerate(self.where) if its == host] if event.kind == "kill_host" else [event.pe]

    def is_time_for(self, event):
        if event.when == START:
            return all(START in self.pes[pe].lines for pe in self.hit(event))
        # Behind a loss that comes first no round may be left.
        return any(event.when in pe.lines or any(line.startswith("lost: ") for line in pe.lines) for pe in self.pes)

    def end_rounds(self):
        if self.where[0] in self.machines.hosts:
            self.machines.start(self.where[0], "touch /run/last_round")

    # What happens.

    def kill(self, event):
        for pe in self.hit(event):
            if self.pes[pe].status is None:
                self.killed[pe] = time.monotonic()
                self.pes[pe].signal(signal.SIGKILL)
                self.pes[pe].signal(signal.SIGCONT)  # nsenter, where the PE was stopped

    kill_host = kill

    def stop(self, event):
        pe = self.pes[event.pe]
        pe.signal(signal.SIGSTOP)
        self.look_until(lambda: set(pe.states()) <= {"T"}, "a stop")
        self.machines.hear(self.ended, event.seconds)
        pe.signal(signal.SIGCONT)
        self.look_until(lambda: not pe.signal(signal.SIGCONT) and "T" not in pe.states(), "an end of it")

    def look_until(self, holds, what):
        """Of what no PE says."""
        until = time.monotonic() + SLOW_SECONDS
        while not holds():
            self.machines.hear(self.ended, 0.01)
            self.require(time.monotonic() < until, what)

    def abort(self, event):
        """The PE does so itself."""

    def cut(self, event, hosts):
        self.cut_at = time.monotonic()
        for host in hosts:
            self.machines.network.cut(self.where[event.pe], host, event.back)

    def cut_host(self, event):
        self.cut(event, set(self.where) - {self.where[event.pe]})

    def cut_pair(self, event):
        self.cut(event, [event.host])

    cut_one_way = cut_pair

    def unplug(self, event):
        self.cut_at = time.monotonic()
        self.machines.hosts[self.where[event.pe]].unplug()

    def power_off(self, event):
        self.cut_at = time.monotonic()
        for pe, host in enumerate(self.where):
            if host == self.where[event.pe] and self.pes[pe].status is None:
                self.killed[pe] = self.cut_at
        self.machines.power_off(self.where[event.pe])

    def short_cut(self, event):
        self.machines.network.cut(self.where[event.pe], event.host, event.back)
        self.machines.hear(self.ended, event.seconds)
        self.machines.network.heal()

    # What has to come of it.

    def judge(self):
        for rank, pe in enumerate(self.pes):
            if rank not in self.killed:
                self.judge_one(rank, pe)
        if len(self.plan.events) == 1:
            self.measure()

    def judge_one(self, rank, pe):
        text = pe.text()
        kinds = {event.kind for event in self.plan.events}
        self.require("wrong word" not in text, f"PE {rank} finds the right words")
        if END in text and pe.status == 0:
            return
        self.require(not kinds.issubset(HEALING), f"PE {rank} goes on behind what heals")
        aborted = [event.pe for event in self.plan.events if event.kind == "abort"]
        called_off = any(f"called off: {self.name_of(one, rank)} aborted: enough of it" in text for one in aborted)
        self.judge_losses(rank, pe, aborted, called_off)

    def name_of(self, one, rank):
        """As PE `rank` tells of it."""
        return f"PE {one}{'' if self.where[one] == self.where[rank] else f' on host{self.where[one]}'}"

    def may_lose(self, rank):
        """PEs that one may take for lost: of its own host those that were killed."""
        far = [pe for pe, host in enumerate(self.where) if self.cut_at and host != self.where[rank]]
        return {*self.killed, *far}

    def judge_losses(self, rank, pe, aborted, called_off):
        lost = self.may_lose(rank)
        told = [line for line in pe.lines if LOSS.search(line)]
        for line in told:
            for one in map(int, LOSS.findall(line)):
                self.require(one in lost, f"PE {rank} loses nobody that lives: '{line}'")
                # "PE 1" is also part of "PE 1 on host1".
                named = re.search(rf"{self.name_of(one, rank)}\b(?! on )", line)
                self.require(named, f"PE {rank} names PE {one} and its host: '{line}'")
        if pe.status == 0 and (called_off or ON in pe.lines):
            self.require(told or called_off, f"PE {rank} names who is lost")
            return
        # While it starts or ends, or two things happen, a collective call may have failed.
        may_fail = len(self.plan.events) > 1 or self.plan.events[0].when in (START, END)
        self.require(pe.status == 1 and may_fail, f"PE {rank} goes on")
        named = {int(one) for one in re.findall(r"(?:PE|ranks?) (\d+)", pe.text())}
        self.require(named & {*lost, *aborted}, f"PE {rank} names who is lost, of {sorted(lost)}")

    def measure(self):
        event, = self.plan.events
        begin = self.cut_at or min(self.killed.values(), default=None)
        if begin is None or event.when == START:
            return
        process, host, way, end = late.values()
        times = host if event.kind in ("cut_host", "unplug", "power_off") else way if self.cut_at else process
        for rank, pe in enumerate(self.pes):
            if rank in self.killed:
                continue
            if event.when == END:
                end.append(pe.ended_at - begin)
            else:
                times += [at - begin for at, line in zip(pe.heard_at, pe.lines) if LOSS.search(line)][:1]

    def clean_up(self):
        """Hosts and network as they were."""
        self.machines.kill_all()
        self.machines.network.heal()
        for event in self.plan.events:
            if event.kind == "power_off" and self.where[event.pe] not in self.machines.hosts:
                self.machines.power_on(self.where[event.pe])
            if event.kind == "unplug":
                self.machines.hosts[self.where[event.pe]].plug()
        for host in set(self.where):
            (self.machines.hosts[host].root / "run/last_round").unlink(missing_ok=True)


def run_round(machines, start, require, seed):
    job = Round(machines, start, require, plan_of(seed))
    try:
        job.run()
        job.judge()
    finally:
        job.clean_up()
    # The next NIC of a host removes the files of those that were killed.
    hosts = sorted(set(job.where))
    last = [pe for host in hosts for pe in start(machines, str(host), "hello", {"PEAL_TRANSPORT": "ibgda"})]
    machines.wait(lambda: all(one.status is not None for one in last), START_SECONDS, "a job on each host")
    require(last, all(one.status == 0 for one in last), "hosts that work")
    for host in hosts:
        left = machines.hosts[host].left_over()
        job.require(not left, f"host {host} has nothing left over: {left}")


def cases(start, require, seeds):
    """Names and calls."""
    for number in seeds:
        yield f"chaos_{number}", lambda machines, number=number: run_round(machines, start, require, number)


def summary():
    for what, seconds in late.items():
        if seconds:
            yield (f"{len(seconds)} PEs {what} after {statistics.median(seconds):.2f} s (median), {max(seconds):.2f} s (worst)")

# SPDX-License-Identifier: Apache-2.0
"""PEs that die, or whose host does, and are replaced: tests/run/rejoin.cc on hosts of their own. After each death all PEs
of all hosts meet again and verify transfers, atomics, a ring and collective calls.

A new process is started by the test with the variables of the one of before, as a person or a launcher would; in the last
case peal-run does it, on each host by its agent there."""
import re

JOB_SECONDS = 300
SLOW_SECONDS = 60  # for what two busy cores do in two
SILENCE_SECONDS = 4
LOST = "all waits end with"


class Cases:
    """The functions are those of hosts_test.py."""

    def __init__(self, start, start_process, finish, require):
        self.start, self.start_process, self.finish, self.require = start, start_process, finish, require

    def replace(self, machines, pes, rank, host=None):
        """A new process in the place of one that has ended, on the same host or another."""
        before = pes[rank]
        host = host or before.host.number
        words = {**before.words, **machines.settings(host), "PEAL_TCP_RESTART": before.words.get("PEAL_TCP_RESTART", 0) + 1}
        pes[rank] = self.start_process(machines, host, words, before.program)

    def finish_right(self, machines, pes, generation):
        self.finish(machines, pes)
        self.require(pes, all(pe.status == 0 and f"generation {generation} is right" in pe.text() for pe in pes),
                     f"all verify generation {generation}")

    def await_lines(self, machines, pes, line, seconds):
        machines.wait(lambda: all(line in pe.text() or pe.status is not None for pe in pes), seconds, f"'{line}'")
        self.require(pes, all(pe.status is None for pe in pes), "a job that is under way")

    def after_deaths(self, machines, where, victims, settings=None, host=None, moment="kernel"):
        """One after the other kills itself: beside a neighbour, alone on its host, PE 0 too, one number twice. The new
        process starts on the same host, or on another."""
        pes = self.start(machines, where, f"rejoin {moment} {' '.join(map(str, victims))}", settings)
        for victim in victims:
            machines.wait(lambda victim=victim: pes[victim].status is not None, JOB_SECONDS, f"the end of PE {victim}")
            self.require(pes, all(pe.status is None for rank, pe in enumerate(pes) if rank != victim), "the others live")
            self.replace(machines, pes, victim, host)
        self.finish_right(machines, pes, len(victims) + 1)

    def after_a_host_was_off(self, machines, where, victim, moment="stay", settings=None):
        """Nobody says that its PE is gone; the others wait for the host to be on again."""
        pes = self.start(machines, where, f"rejoin {moment} {victim}",
                         {"PEAL_HOST_TIMEOUT": f"{SILENCE_SECONDS}s", **(settings or {})})
        self.await_lines(machines, pes, "waiting for the end", JOB_SECONDS)
        host = int(where[victim])
        machines.power_off(host)
        self.await_lines(machines, pes[:victim] + pes[victim + 1:], LOST, SLOW_SECONDS)
        machines.network.heal()
        machines.power_on(host)
        self.replace(machines, pes, victim)
        self.finish_right(machines, pes, 2)

    def after_a_cut(self, machines):
        """Each side takes the other for lost. No process has ended: those of before are the job again."""
        pes = self.start(machines, "112", "rejoin stay 2", {"PEAL_HOST_TIMEOUT": f"{SILENCE_SECONDS}s"})
        self.await_lines(machines, pes, "waiting for the end", JOB_SECONDS)
        machines.network.cut(1, 2)
        self.await_lines(machines, pes, LOST, SLOW_SECONDS)
        machines.network.heal()
        self.finish_right(machines, pes, 2)

    def in_vain(self, machines, where, victim, words):
        """No process takes its place: the others hear at their deadline who is missing, where, and what to do."""
        pes = self.start(machines, where, f"rejoin nobody {victim}")
        self.finish(machines, pes)
        others = [pe for rank, pe in enumerate(pes) if rank != victim]
        self.require(pes, all(pe.status == 0 for pe in others), "the others end")
        for word in words:
            self.require(pes, any(re.search(word, pe.text()) for pe in others), word)

    def by_peal_run(self, machines):
        """Its agents start PEs again: one beside a neighbour, PE 0, one alone on its host."""
        job = machines.start_launcher("peal-run", "--hosts host1:2,host2:1,host3:1 --restart 2", "rejoin kernel 1 0 3")
        machines.wait(lambda: job.status is not None, JOB_SECONDS, "peal-run")
        text = job.text()
        self.require([job], job.status == 0 and text.count("generation 4 is right") == 4, "all verify generation 4")
        for pe, host in ((1, 1), (0, 1), (3, 3)):
            word = rf"PE {pe} of 4 \(host host{host}, pid \d+\) was killed by signal 9 \(Killed\); started again \(1 of 2 times\)"
            self.require([job], re.search(word, text), word)

    def everywhere(self):
        yield "rejoin_on_1_2_2", lambda machines: self.after_deaths(machines, "122", [1, 0])

    def in_namespaces(self):
        yield "rejoin_on_1_1_2_3", lambda machines: self.after_deaths(machines, "1123", [1, 2, 0, 2])
        yield "rejoin_lazily_on_1_2", lambda machines: self.after_deaths(machines, "12", [1, 0], {"PEAL_CONNECT": "lazy"})
        yield "rejoin_from_another_host", lambda machines: self.after_deaths(machines, "132", [1], host=2)
        yield "rejoin_keeping_heaps_on_1_2_2", lambda machines: self.after_deaths(
            machines, "122", [1, 0], {"PEAL_HEAP_SIZE": "4M"}, moment="keep")
        # The NIC gives up before, after eight times 0.5 s.
        yield "rejoin_when_a_host_is_on_again", lambda machines: self.after_a_host_was_off(
            machines, "132", 1, "reach", {"PEAL_HOST_TIMEOUT": "8s", "PEAL_ACK_TIMEOUT": "14"})
        yield "rejoin_when_the_host_of_pe_0_is_on_again", lambda machines: self.after_a_host_was_off(machines, "312", 0)
        yield "rejoin_when_a_cut_is_healed", self.after_a_cut
        yield "rejoin_without_pe_0", lambda machines: self.in_vain(machines, "312", 0, (
            r"rank 0 did not listen at 10\.0\.3\.1:\d+ within 500 ms.*who takes the place of PE 0 runs on the host with",
            r"rejoin\(\) was called without PE 0 on host3: a new process"))
        yield "rejoin_without_another", lambda machines: self.in_vain(machines, "123", 2, (
            r"2 of 3 did not join within 500 ms; rejoin\(\) was called without PE 2 on host3: a new process",))
        yield "rejoin_by_peal_run", self.by_peal_run

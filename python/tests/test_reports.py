# SPDX-License-Identifier: Apache-2.0
"""The installed package, from outside: what calls and programs hear of failures, counters and calls by ticket."""
import unittest

from test_package import Job, run_text


class Reports(Job):
    def test_a_failure_is_told_to_programs(self):
        self.assert_ends(run_text(4, """
            for call in peal.failure, peal.counters, peal.dump:
                try:
                    call()
                except peal.Error as error:
                    assert f"peal.{call.__name__}: call peal.init() first" in str(error), error
            peal.init()
            word = peal.zeros(1, np.int64)
            if peal.my_pe() == 3:
                peal.abort("had enough")
            try:
                peal.signal_wait(word, 1)
            except peal.Error:
                told = peal.failure()
            assert (told.status, told.pe, told.queue) == ("aborted", 3, None), told
            assert "had enough" in told.text and "had enough" in peal.dump(), told
            print("told", told.time_ns > 0)
            """), 0, *(rf"\[{pe}\] told True" for pe in range(4)))

    def test_the_end_of_a_pe_is_a_failure(self):
        self.assert_ends(run_text(2, """
            peal.init()
            word = peal.zeros(1, np.int64)
            if peal.my_pe() == 1:
                os._exit(3)
            try:
                peal.signal_wait(word, 1)
            except peal.Error:
                print("heard", peal.failure().status, peal.failure().pe, flush=True)
                os._exit(0)
            """, ["--keep-going"]), 3, r"\[0\] heard peer lost 1")

    def test_counts_calls(self):
        for pes in 1, 2, 4:
            with self.subTest(pes=pes):
                self.assert_ends(run_text(pes, """
                    with peal.job():
                        x, y = peal.zeros(100, np.float32), peal.zeros(100, np.float32)
                        before, = peal.counters()
                        for _ in range(3):
                            peal.quiet()
                        after, = peal.counters()
                        grown = after.by_call["quiet"].calls - before.by_call["quiet"].calls
                        one = after.by_call["quiet"]
                        print(after.context, after.ran, grown, one.timeouts, one.failed, one.time_ns > 0, peal.failure())
                    """, PEAL_RECORD="64"), 0, *(rf"\[{pe}\] 0 True 3 0 0 True None" for pe in range(pes)))

    # Hazard: the wait of a call by ticket told of no failure, or could not be ended.
    def test_a_ticket_raises_what_went_wrong(self):
        self.assert_ends(run_text(2, """
            peal.init()
            if peal.my_pe() == 0:
                ticket = peal.barrier(async_op=True)
                peal.abort("had enough")
                for _ in range(2):
                    try:
                        ticket.wait()
                    except peal.Error as error:
                        print("heard", ticket.done(), error)
            """), 0, r"(?s)(\[0\] heard True peal.barrier: .*had enough.*){2}")

    def test_an_end_waits_for_calls_under_way(self):
        self.assert_ends(run_text(2, """
            with peal.job():
                inbox, source = peal.zeros(4, np.int32), peal.full(4, peal.my_pe(), np.int32)
                view = np.from_dlpack(inbox)
                ticket = peal.get(inbox, source, 1 - peal.my_pe(), async_op=True)
            print(view.tolist(), ticket.done())
            try:
                ticket.wait()
            except peal.Error as error:
                print(error)
            peal.init()
            try:
                ticket.wait()
            except peal.Error as error:
                print(error)
            """), 0, r"\[0\] .1, 1, 1, 1. True", r"\[1\] .0, 0, 0, 0. True", "peal.get: this PE has ended by peal.finalize",
            "peal.get: the ticket is of a job that has ended; wait for it before")


class Memory(Job):
    def test_ten_thousand_arrays_in_any_order_leave_no_more_than_a_few(self):
        self.assert_ends(run_text(4, """
            import random
            def pages():
                return int(open("/proc/self/statm").read().split()[1])
            with peal.job():
                shared, mine = random.Random(1), random.Random(100 + peal.my_pe())
                held, places, early = [], [], 0
                for i in range(10000):
                    x = peal.empty(shared.randrange(1, 4000), np.float32)
                    x[:] = i
                    places.append(x.address)
                    held.append(x)
                    while len(held) > mine.randrange(1, 60):
                        held.pop(mine.randrange(len(held)))
                    if i % 1000 == 999:
                        assert all((one.numpy() == one[0]).all() for one in held)
                        early = early or pages()
                print("spread", max(places) - min(places) < 4 << 20, "grown", pages() - early > 1000)
            """, PEAL_TRANSPORT="p2p"), 0, *(rf"\[{pe}\] spread True grown False" for pe in range(4)))


if __name__ == "__main__":
    unittest.main()

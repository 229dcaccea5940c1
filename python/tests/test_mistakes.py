# SPDX-License-Identifier: Apache-2.0
"""The installed package, from outside: calls at the wrong time and place, and calls of others when one PE raises or is
interrupted. Wrong arguments are together.py's, streams.py's and with_torch.py's."""
import unittest

from test_package import Job, run_text

# A call of each name, and what refuses them all, which says so in the call's own name.
CALLS = """
import threading
with peal.job():
    a, word, team, ticket = peal.zeros(4), peal.zeros(1, np.int64), peal.world().split(0), peal.barrier(async_op=True)
    lists = peal.zeros(peal.n_pes(), np.int64), peal.zeros(peal.n_pes(), np.int64)
    ticket_under_way = peal.put(a, a, 0, async_op=True)
    ticket.wait()
CALLS = {
    **{name: getattr(peal, name) for name in ("barrier", "check", "collect", "counters", "device", "dump", "epoch", "failure",
                                              "fence", "finalize", "my_pe", "n_pes", "quiet", "rejoin", "synchronize",
                                              "world")},
    **{name: (lambda name=name: getattr(peal, name)(3)) for name in ("empty", "zeros")},
    **{name: (lambda name=name: getattr(peal, name)(a)) for name in ("register", "register_local", "unregister",
                                                                     "unregister_local")},
    **{name: (lambda name=name: getattr(peal, name)(a, a, 0)) for name in ("put", "get", "broadcast")},
    **{name: (lambda name=name: getattr(peal, name)(a, a, "sum")) for name in ("all_reduce", "reduce_scatter", "scan",
                                                                               "exclusive_scan")},
    **{name: (lambda name=name: getattr(peal, name)(a, a)) for name in ("all_gather", "all_to_all")},
    **{name: (lambda name=name: getattr(peal, name)(word, 1, 0)) for name in (
        "signal", "atomic_set", "atomic_add", "atomic_swap", "atomic_fetch_add", "atomic_fetch_and", "atomic_fetch_or",
        "atomic_fetch_xor")},
    **{name: (lambda name=name: getattr(peal, name)("/nowhere", a)) for name in ("load", "save", "load_checkpoint",
                                                                                  "save_checkpoint")},
    "abort": lambda: peal.abort("enough"), "full": lambda: peal.full(3, 1), "reduce": lambda: peal.reduce(a, a, "sum", 0),
    "all_to_all_v": lambda: peal.all_to_all_v(a, a, lists, lists), "put_signal": lambda: peal.put_signal(a, a, 0, word, 1),
    "signal_wait": lambda: peal.signal_wait(word, 0), "atomic_fetch": lambda: peal.atomic_fetch(word, 0),
    "atomic_compare_swap": lambda: peal.atomic_compare_swap(word, 0, 1, 0), "context": peal.context,
    "Team.barrier": team.barrier, "Team.sync": team.sync, "Team.split": lambda: team.split(0), "Team.free": team.free,
    "Team.world_pe": lambda: team.world_pe(0), "at": lambda: a.at(0), "copy_to_host": a.copy_to_host, "Array": a.numpy,
    "copy_from_host": lambda: a.copy_from_host(1),
}
missing = {name for name in peal.__all__ if name[0].islower()} - CALLS.keys()
assert missing == {"init", "job", "kernel", "wait_until"}, missing
def all_refuse(words):
    for name, call in CALLS.items():
        try:
            call()
        except peal.Error as error:
            assert str(error).startswith(f"peal.{name}: ") and words in str(error), (name, error)
        else:
            raise AssertionError(name)
"""


class Times(Job):
    def test_after_the_end_all_calls_say_so(self):
        self.assert_ends(run_text(1, CALLS + 'all_refuse("call peal.init()"); print("ended")'), 0, "ended")

    def test_in_a_forked_child_all_calls_say_so(self):
        self.assert_ends(run_text(2, CALLS + """
peal.init()
a, word, lists = peal.zeros(4), peal.zeros(1, np.int64), (peal.zeros(2, np.int64),) * 2
team = peal.world().split(0)
child = os.fork()
if child == 0:
    all_refuse("forked")
    os._exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
peal.finalize()
print("ended")
"""), 0, r"\[0\] ended", r"\[1\] ended")

    def test_another_thread_may_make_them_all(self):
        self.assert_ends(run_text(2, """
            import threading
            def part():
                with peal.job():
                    me = peal.my_pe()
                    x, y, word = peal.full(4, me + 1, np.float32), peal.zeros(4, np.float32), peal.zeros(1, np.int64)
                    peal.all_reduce(y, x, "sum")
                    peal.barrier()  # the other PE's sum is in its y as well
                    peal.put_signal(y, x, 1 - me, word, 1, async_op=True).wait()
                    peal.signal_wait(word, 1)
                    peal.barrier()
                    del x
                    peal.collect()
                    try:
                        peal.put(y, y[:2], 0)
                    except peal.ArgumentError as error:
                        print(y[0], error)
            one = threading.Thread(target=part)
            one.start()
            one.join()
            """), 0, r"\[0\] 2.0 peal.put: dst has 4 elements, src 2", r"\[1\] 1.0 peal.put: dst has 4")


# What PE 0 waits in for the others.
WAITS = {
    "barrier": "peal.barrier()", "all_reduce": "peal.all_reduce(x, x, 'sum')", "zeros": "peal.zeros(3)", "collect": "peal.collect()",
    "signal_wait": "peal.signal_wait(word, 1)", "Team.split": "peal.world().split(0)", "register": "peal.register(outside)",
    "save_checkpoint": "peal.save_checkpoint('/tmp/no-checkpoint', x)", "put": "held = peal.barrier(async_op=True); peal.put(x, x, 1)",
    "atomic_fetch": "held = peal.barrier(async_op=True); peal.atomic_fetch(word, 1)",
    "all_to_all": "ticket = peal.all_to_all(x, x, async_op=True); ticket.wait()",
}
PREPARED = "x, word, outside = peal.zeros(4), peal.zeros(1, np.int64), np.zeros(4)"


class Others(Job):
    def test_what_one_raises_all_hear_whatever_they_wait_in(self):
        for call, waits in WAITS.items():
            with self.subTest(call):
                self.assert_ends(run_text(2, f"""
                    with peal.job():
                        {PREPARED}
                        if peal.my_pe() == 1:
                            raise KeyError("no such layer")
                        try:
                            {waits}
                        except peal.Error as error:
                            print("heard", error, flush=True)
                            raise SystemExit(0)
                    """, ["--keep-going"]), 1, rf"\[0\] heard peal.{call}: .*KeyError: 'no such layer'")

    def test_whatever_waits_can_be_interrupted(self):
        for call, waits in WAITS.items():
            with self.subTest(call):
                job = run_text(2, f"""
                    import threading
                    from peal import _job
                    with peal.job():
                        {PREPARED}
                        if peal.my_pe() == 1:
                            try:
                                peal.signal_wait(word, 1)
                            except peal.Error as error:
                                print("heard", error, flush=True)
                                raise SystemExit(0)
                        # The signal comes when libpeal has been called, or a little before.
                        caller = _job._caller
                        def interrupt():
                            while not any(mark.thread is threading.main_thread() for mark in list(caller._under_way)):
                                pass
                            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                        threading.Thread(target=interrupt, daemon=True).start()
                        {waits}
                    """, ["--keep-going"])
                self.assertIn(job.returncode, (1, 130), job.stderr)  # of which PE ended first
                self.assertRegex(job.stdout, r"\[1\] heard peal.signal_wait: .*KeyboardInterrupt")


if __name__ == "__main__":
    unittest.main()

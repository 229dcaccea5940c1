# SPDX-License-Identifier: Apache-2.0
"""The installed package, from outside: jobs by peal-run, how they begin and end, and what ends badly.

python -m unittest test_package, in an environment that has the wheel. The example of the package's page comes first."""
import os
import pathlib
import re
import subprocess
import sys
import textwrap
import threading
import unittest
import unittest.mock

from peal import _waits

HERE = pathlib.Path(__file__).parent
PEAL_RUN = pathlib.Path(sys.executable).parent / "peal-run"
# A shell that was started in the background ignores the signal, and so do its children.
PRELUDE = """\
import os, signal, sys
import numpy as np, peal
signal.signal(signal.SIGINT, signal.default_int_handler)
"""


def run(pes, *program, options=(), **environment):
    """Ends of peal-run and what the PEs wrote, each line behind [PE]."""
    command = [PEAL_RUN, "-n", str(pes), *options, sys.executable, *program]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd="/",
                          env={**os.environ, "PYTHONUNBUFFERED": "1", **environment})


def run_text(pes, text, options=(), **environment):
    return run(pes, "-c", PRELUDE + textwrap.dedent(text), options=options, **environment)


class Job(unittest.TestCase):
    def assert_ends(self, job, code, *lines):
        told = job.stdout + job.stderr
        self.assertEqual(job.returncode, code, told)
        for line in lines:
            self.assertRegex(told, line)


class A1Example(Job):
    def test_prints_the_sum(self):
        page = HERE / "python.md"
        self.assertIn(textwrap.indent((HERE / "example.py").read_text(), "    "), page.read_text())
        self.assert_ends(run(4, HERE / "example.py"), 0, *(rf"\[{pe}\] 10\.0\n" for pe in range(4)))


class Programs(Job):
    def test_the_doctor_looks_at_the_machine(self):
        doctor = subprocess.run([sys.executable, "-m", "peal.doctor"], capture_output=True, text=True, check=False,
                                timeout=300)
        self.assertIn("software NIC", doctor.stdout)

    def test_the_benchmark_names_calls(self):
        self.assert_ends(run(2, "-m", "peal.bench"), 0, r"\[0\] put, 8 bytes +\d")


class A2Together(Job):
    def test_all_pes_agree(self):
        for pes, transport in (1, "ibgda"), (2, "p2p"), (4, "ibgda"), (4, "p2p"):
            with self.subTest(pes=pes, transport=transport):
                job = run(pes, HERE / "together.py", PEAL_TRANSPORT=transport)
                self.assert_ends(job, 0, r"\[0\] Ran \d\d tests")


class A3Streams(Job):
    """Where no GPU is, by a stand-in: what Python itself does in the order of streams."""

    def test_all_pes_agree(self):
        for pes, transport in (1, "p2p"), (2, "ibgda"), (4, "p2p"):
            with self.subTest(pes=pes, transport=transport):
                self.assert_ends(run(pes, HERE / "streams.py", PEAL_TRANSPORT=transport), 0, r"\[0\] Ran \d\d tests")

    def test_refuses_devices_and_streams(self):
        self.assert_ends(run_text(1, """
            for device in "gpu", "cuda:x", "cuda:", 1:
                try:
                    peal.init(device)
                except peal.ArgumentError as error:
                    print(error)
            with peal.job("cpu"):
                x = peal.zeros(3)
                print(peal.device(), x.device, os.environ.get("PEAL_TARGET"))
                for call in (lambda: peal.put(x, x, 0, stream=7), lambda: peal.barrier(stream=7),
                             lambda: peal.signal_wait(peal.zeros(1, np.int64), 0, stream=7), lambda: peal.synchronize(7)):
                    try:
                        call()
                    except peal.ArgumentError as error:
                        print(error)
            """), 0, r'peal.init: device .gpu.: give "cpu", "cuda"', r"device .cuda:x.", r"device .cuda:.: give", "device 1: give",
            r"cpu cpu ", *(rf"peal.{call}: stream 7: this job is on a CPU" for call in ("put", "barrier", "signal_wait",
                                                                                          "synchronize")))


class A4Blocks(Job):
    def test_lengths_that_differ_are_named(self):
        self.assert_ends(run_text(2, """
            with peal.job():
                me = peal.my_pe()
                one, at, data = peal.full(2, 1, np.int64), peal.full(2, [0, 2]), peal.zeros(4, np.float32)
                sent = peal.full(2, 2 - me, np.int64)
                try:
                    peal.all_to_all_v(data, peal.zeros(4, np.float32), (one, at), (sent, at))
                except peal.Error as error:
                    print(error)
            """), 0, *(rf"\[{pe}\] peal.all_to_all_v: PE {pe}: .*other arguments than other members" for pe in (0, 1)))


class Ends(Job):
    def test_begins_again_after_the_end(self):
        self.assert_ends(run_text(2, """
            for turn in range(3):
                with peal.job():
                    array = peal.full(3, peal.my_pe())
                    view = np.from_dlpack(array)
                    peal.barrier()
                assert (view == view[0]).all() and repr(array).endswith("its job has ended)")
                for late in array.numpy, peal.my_pe, peal.barrier, lambda: peal.zeros(3), lambda: peal.put(array, array, 0):
                    try:
                        late()
                    except peal.Error as error:
                        assert "peal.init()" in str(error), error
                    else:
                        raise AssertionError("no error")
            print("ended", view[2])
            """), 0, r"\[0\] ended 0", r"\[1\] ended 1")

    def test_goes_on_with_a_new_process(self):
        self.assert_ends(run_text(3, """
            def refused(call, kind):
                try:
                    call()
                except kind as error:
                    return str(error)
                raise AssertionError("no error")

            with peal.job():
                if peal.epoch() == 0:
                    words = peal.zeros(4, np.int64)
                    if peal.my_pe() == 0:
                        print("alive", refused(peal.rejoin, peal.ArgumentError))
                        words.numpy()[:] = 5
                    peal.barrier()
                    if peal.my_pe() == 1:
                        os.kill(os.getpid(), signal.SIGKILL)
                    refused(lambda: peal.signal_wait(words[3:4], 99), peal.Error)
                    assert peal.failure().status == "peer lost"
                    peal.rejoin()
                    refused(words.numpy, peal.Error)
                x, y = peal.full(8, peal.my_pe() + 1), peal.zeros(8, np.int64)
                peal.all_reduce(y, x, "sum")
                assert peal.epoch() == 1 and (y.numpy() == 6).all(), (peal.epoch(), y)
                print("right again")
            """, ["--restart", "1"]), 0, r"\[0\] alive peal\.rejoin: all 3 PEs live", *(rf"\[{pe}\] right again" for pe in range(3)))

    def test_says_what_comes_first(self):
        self.assert_ends(run_text(1, "peal.zeros(3)"), 1, r"peal\.errors\.Error: peal\.zeros: call peal\.init\(\) first")
        self.assert_ends(run_text(1, "peal.init(); peal.init()"), 1, "peal.init: peal is initialised already; call")

    def test_an_exception_in_one_pe_ends_all(self):
        self.assert_ends(run_text(3, """
            with peal.job():
                if peal.my_pe() == 1:
                    raise KeyError("no such layer")
                try:
                    peal.barrier()
                except peal.Error as error:
                    print("heard", error)
                    raise SystemExit(0)
            """, ["--keep-going"]), 1, r"heard peal.barrier: .*PE 1 .*KeyError: 'no such layer'", r"\[1\] KeyError: 'no such layer'")

    def test_an_exception_beside_a_wait_ends_all(self):
        self.assert_ends(run_text(2, """
            with peal.job():
                word = peal.zeros(1, np.int64)
                if peal.my_pe() == 1:
                    raise ValueError("enough")
                peal.signal_wait(word, 1)
            """), 1, r"\[0\] peal.errors.Error: peal.signal_wait: .*PE 1 .*ValueError: enough|exited with code 1")

    def test_without_a_job_the_exit_code_is_the_programs_too(self):
        self.assert_ends(run_text(2, """
            peal.init()
            if peal.my_pe() == 1:
                sys.exit(7)
            try:
                peal.barrier()
            except peal.Error as error:
                print("heard", error)
                signal.pause()  # peal-run ends it; the exit code is that of what ended first
            """), 7)
        self.assert_ends(run_text(2, "peal.init(); x = peal.zeros(3); print('left', x.size)"), 0, "left 3")

    def test_aborts(self):
        self.assert_ends(run_text(2, """
            peal.init()
            word = peal.zeros(1, np.int64)
            if peal.my_pe() == 1:
                peal.abort("had enough")
            try:
                peal.signal_wait(word, 1)
            except peal.Error as error:
                print("heard", error)
            """), 0, r"\[0\] heard peal.signal_wait: .*had enough", r"\[1\] heard peal.signal_wait: .*had enough")

    def test_a_forked_child_is_no_pe(self):
        self.assert_ends(run_text(2, """
            peal.init()
            array = peal.full(3, 5)
            child = os.fork()
            if child == 0:
                for call in peal.my_pe, peal.barrier, array.numpy, peal.init:
                    try:
                        call()
                    except peal.Error as error:
                        assert "forked" in str(error), error
                    else:
                        raise AssertionError(call)
                sys.exit(3)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
            peal.barrier()
            peal.finalize()
            print("ended", array.size)
            """), 0, r"\[0\] ended", r"\[1\] ended")


class Interrupts(Job):
    # PE 1 interrupts PE 0 once that is about to wait: what is interrupted is the wait, or the line before it.
    WAIT = """
        with peal.job():
            word, pid = peal.zeros(1, np.int64), peal.zeros(1, np.int64)
            if peal.my_pe() == 0:
                try:
                    peal.signal(pid, os.getpid(), 1)
                    peal.signal_wait(word, 1)
                except KeyboardInterrupt:
                    print("interrupted")
                    CAUGHT
            else:
                os.kill(peal.signal_wait(pid, 1), signal.SIGINT)
            peal.AFTER
            print("ended")
        """

    def test_what_waits_can_be_interrupted_and_gone_on_from(self):
        after = "signal(word, 1, 0); peal.barrier()"
        text = self.WAIT.replace("CAUGHT", "pass").replace("AFTER", after)
        self.assert_ends(run_text(2, text), 0, r"\[0\] interrupted", r"\[0\] ended", r"\[1\] ended")

    def test_an_interrupt_that_nobody_catches_ends_all(self):
        text = self.WAIT.replace("CAUGHT", "raise").replace("AFTER", "barrier()")
        job = run_text(2, text)
        self.assertIn(job.returncode, (1, 130), job.stderr)
        self.assertRegex(job.stdout + job.stderr, r"\[0\] interrupted")
        self.assertIsNone(re.search("ended", job.stdout))

    # Interrupts the main thread when libpeal is called by `name`, and lets that go on when `caught` is set.
    HOLD = """
        import threading, time
        from peal import _job, _library
        def hold(name):
            real, caught = _library.FUNCTIONS[name], threading.Event()
            def held(*arguments):
                _library.FUNCTIONS[name] = real
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                caught.wait()
                return real(*arguments)
            _library.FUNCTIONS[name] = held
            return caught
        def refused(call, words):
            try:
                call()
            except peal.Error as error:
                assert words in str(error), error
            else:
                raise AssertionError(words)
        """

    def held(self, text):
        return run_text(1, textwrap.dedent(self.HOLD) + textwrap.dedent(text))

    # Hazard: libpeal was initialised and Python knew nothing of it: the next init() said "called twice".
    def test_init_again_ends_what_an_interrupted_one_began(self):
        self.assert_ends(self.held("""
            for turn in range(2):
                caught = hold("init")
                try:
                    peal.init()
                    raise AssertionError
                except KeyboardInterrupt:
                    refused(peal.my_pe, "peal.init() was interrupted; call it again")
                caught.set()
                peal.init()
                refused(peal.init, "is initialised already")
                peal.barrier()
                peal.finalize()
            print("ended")
            """), 0, "ended")

    # Hazard: views had their memory taken away by a finalize() that was interrupted and went on.
    def test_an_interrupted_finalize_goes_on(self):
        self.assert_ends(self.held("""
            peal.init()
            view = np.from_dlpack(peal.full(3, 5))
            caught = hold("finalize")
            try:
                peal.finalize()
                raise AssertionError
            except KeyboardInterrupt:
                refused(peal.barrier, "peal.finalize() is under way")
                refused(peal.finalize, "peal.finalize() is under way")
            caught.set()
            peal.init()
            assert view.tolist() == [5, 5, 5]
            peal.finalize()
            refused(peal.finalize, "ended by peal.finalize()")
            print("ended")
            """), 0, "ended")

    # Hazard: all were let in to a Runtime that a rejoin() was replacing, and abort() was called for it.
    def test_an_interrupted_rejoin_goes_on(self):
        self.assert_ends(self.held("""
            def interrupt():
                caught = hold("rejoin")
                try:
                    peal.rejoin()
                    raise AssertionError
                except KeyboardInterrupt:
                    for call in peal.barrier, peal.finalize, lambda: peal.abort("enough"), array.numpy, ticket.wait:
                        refused(call, "peal.rejoin() is under way; where it was interrupted, call it again")
                    other = threading.Thread(target=refused, args=(peal.rejoin, "call it from the main thread"))
                    other.start()
                    other.join()
                    caught.set()
            for turn in range(2):
                peal.init()
                array = peal.full(3, 5)
                ticket = peal.put(array, array, 0, async_op=True)
                interrupt()
                refused(peal.rejoin, "all 1 PEs live")
                ticket.wait()
                assert array.numpy().tolist() == [5, 5, 5]
                replaced, _library.FUNCTIONS["rejoin"] = _library.FUNCTIONS["rejoin"], lambda: 0
                interrupt()
                peal.rejoin()
                _library.FUNCTIONS["rejoin"] = replaced
                refused(array.numpy, "has ended")
                peal.barrier()
                peal.finalize()
            print("ended")
            """), 0, "ended")

    def test_a_job_that_an_interrupted_rejoin_ends_touches_nothing(self):
        job = self.held("""
            _library.FUNCTIONS["abort"] = _library.FUNCTIONS["leave"] = lambda reason: print("called", reason)
            with peal.job():
                hold("rejoin")
                peal.rejoin()
            """)
        self.assertIn(job.returncode, (1, 130), job.stderr)
        self.assertIn("KeyboardInterrupt", job.stderr)
        self.assertNotIn("called", job.stdout)

    # Hazard: the job was whole in libpeal, so that rejoin() was refused, and in Python it was not.
    def test_a_rejoin_that_fails_behind_libpeals_leaves(self):
        self.assert_ends(self.held("""
            def fails(pe):
                raise ValueError("no room")
            peal.init()
            _library.FUNCTIONS["rejoin"], heap, _job.Heap = lambda: 0, _job.Heap, fails
            try:
                peal.rejoin()
                raise AssertionError
            except ValueError:
                for call in peal.rejoin, peal.finalize, peal.barrier:
                    refused(call, "this PE has left its job: ValueError: no room")
            print("ended")
            """), 0, "ended")

    # Hazard: rejoin() was an AttributeError there.
    def test_a_child_between_two_rejoins_is_no_pe(self):
        self.assert_ends(self.held("""
            peal.init()
            real = dict(_library.FUNCTIONS)
            _library.FUNCTIONS.update(rejoin=lambda: -1, my_pe=lambda: -1)
            try:
                peal.rejoin()
            except peal.Error:
                refused(peal.barrier, "peal.rejoin() has failed; call it again")
            child = os.fork()
            if child == 0:
                refused(peal.rejoin, "forked")
                refused(peal.init, "forked")
                os._exit(3)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
            _library.FUNCTIONS.update(real, rejoin=lambda: 0)
            peal.rejoin()
            peal.barrier()
            peal.finalize()
            print("ended")
            """), 0, "ended")

    def test_a_wait_for_a_ticket_can_be_interrupted(self):
        self.assert_ends(self.held("""
            with peal.job():
                x, y = peal.full(3, 7), peal.zeros(3, np.int64)
                ticket = peal.put(y, x, 0, async_op=True)
                caught = hold("ticket_wait")
                try:
                    ticket.wait()
                    raise AssertionError
                except KeyboardInterrupt:
                    print("interrupted")
                caught.set()
                ticket.wait()
                print(ticket.done(), y[0])
            """), 0, "interrupted", "True 7")

    # Hazard: a child that was forked behind such an init() began a job of its own, in libpeal's half of the parent's.
    def test_a_child_of_an_interrupted_init_is_no_pe(self):
        self.assert_ends(self.held("""
            caught = hold("init")
            try:
                peal.init()
                raise AssertionError
            except KeyboardInterrupt:
                pass
            child = os.fork()
            if child == 0:
                refused(peal.init, "forked")
                os._exit(3)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
            caught.set()
            peal.init()
            peal.finalize()
            print("ended")
            """), 0, "ended")

    # Hazard: what a second interrupt left between two lines was in libpeal, and nobody knew of it.
    def test_a_second_interrupt_loses_no_call(self):
        def interrupted(*_):
            raise KeyboardInterrupt
        for begun in True, False:
            with self.subTest(begun=begun):
                caller, inside, caught = _waits.Caller(), threading.Event(), threading.Event()
                def enter(call):
                    caller._enter(call)
                    if begun:
                        caller._calls.put(call)
                        inside.wait()
                    raise KeyboardInterrupt
                call = caller.prepare(lambda: (inside.set(), caught.wait()))
                with unittest.mock.patch.object(_waits._Call, "give_up", interrupted):
                    self.assertRaises(KeyboardInterrupt, caller.wait, call, enter)
                if begun:
                    self.assertTrue(caller.busy())
                caught.set()
                self.assertFalse(caller.busy(60))
                self.assertEqual(caller._under_way, {})

    def test_a_finalize_that_was_interrupted_before_it_began_has_ended_nothing(self):
        self.assert_ends(self.held("""
            def interrupt():
                while not _job._caller.is_closed():
                    time.sleep(0.001)
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            peal.init()
            caught = hold("barrier_all")
            try:
                peal.barrier()
                raise AssertionError
            except KeyboardInterrupt:
                pass
            threading.Thread(target=interrupt).start()
            try:
                peal.finalize()
                raise AssertionError
            except KeyboardInterrupt:
                caught.set()
            assert peal.n_pes() == 1
            peal.barrier()
            peal.finalize()
            print("ended")
            """), 0, "ended")


class Threads(Job):
    # Hazard: finalize() took the runtime away from under a thread that waited in it, which crashed.
    WAIT = """
        import threading, time
        from peal import _job
        def begin():
            global word, waiting
            word = peal.zeros(1, np.int64)
            waiting = threading.Thread(target=peal.signal_wait, args=(word, 1), name="waits", daemon=True)
            waiting.start()
            while not _job._caller.others():
                time.sleep(0.001)
        """

    def waiting(self, text):
        return run_text(1, textwrap.dedent(self.WAIT) + textwrap.dedent(text))

    def test_finalize_names_who_is_inside_and_ends_nothing(self):
        self.assert_ends(self.waiting("""
            for turn in range(3):
                peal.init()
                begin()
                try:
                    peal.finalize()
                    raise AssertionError
                except peal.Error as error:
                    assert "'waits' in peal.signal_wait; wait for it" in str(error), error
                peal.signal(word, 1, 0)
                waiting.join()
                peal.finalize()
            print("ended")
            """), 0, "ended")

    def test_a_block_that_ends_beside_a_call_raises(self):
        self.assert_ends(self.waiting("""
            try:
                with peal.job():
                    begin()
            except peal.Error as error:
                print("heard", error)
            waiting.join()
            with peal.job():
                print("again")
            """), 0, "heard peal.finalize: another thread is inside a call: 'waits'", "again")

    def test_an_exit_beside_a_call_has_the_programs_code(self):
        self.assert_ends(self.waiting("peal.init(); begin(); sys.exit(7)"), 7)
        self.assert_ends(self.waiting("peal.init(); begin(); raise KeyError('x')"), 1, "KeyError: 'x'")

    # Hazard: each thread that had waited left a stream, which is a thread, to the process; so did a job that was left.
    def test_threads_that_have_waited_leave_nothing(self):
        self.assert_ends(run_text(1, """
            import threading
            def wait(word):
                one = threading.Thread(target=peal.signal_wait, args=(word, 1))
                one.start()
                one.join()
                return len(os.listdir("/proc/self/task"))
            with peal.job():
                word = peal.full(1, 1, np.int64)
                counts = [wait(word) for turn in range(20)]
            assert counts[-1] < counts[0] + 10, counts  # one that was joined may yet be ending
            destroyed, streams = [], []
            from peal import _job
            real = _job.FUNCTIONS["stream_destroy"]
            _job.FUNCTIONS["stream_destroy"] = lambda stream: (destroyed.append(stream), real(stream))
            try:
                with peal.job():
                    wait(peal.full(1, 1, np.int64))
                    streams = list(_job.current("test").streams)
                    raise KeyError
            except KeyError:
                assert streams and destroyed == streams, (streams, destroyed)
            print("ended")
            """), 0, "ended")

    # Hazard: the second init() took what the first had begun for its own.
    def test_one_thread_begins(self):
        self.assert_ends(run_text(1, """
            import threading
            from peal import _library
            real, inside, go = _library.FUNCTIONS["init"], threading.Event(), threading.Event()
            _library.FUNCTIONS["init"] = lambda: (inside.set(), go.wait(), real())[2]
            first = threading.Thread(target=peal.init, name="first")
            first.start()
            inside.wait()
            try:
                peal.init()
                raise AssertionError
            except peal.Error as error:
                assert "'first' is inside peal.init()" in str(error), error
            go.set()
            first.join()
            peal.barrier()
            peal.finalize()
            print("ended")
            """), 0, "ended")


if __name__ == "__main__":
    unittest.main()

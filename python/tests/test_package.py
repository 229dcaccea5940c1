# SPDX-License-Identifier: Apache-2.0
"""The installed package, from outside: jobs by peal-run, how they begin and end, and what ends badly.

python -m unittest test_package, in an environment that has the wheel. The example of the package's page comes first."""
import os
import pathlib
import subprocess
import sys
import textwrap
import unittest

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

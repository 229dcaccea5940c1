# SPDX-License-Identifier: Apache-2.0
"""The installed package, from outside: calls that Ctrl-C interrupts, which go on or had not begun."""
import re
import textwrap
import threading
import unittest
import unittest.mock

from peal import _waits
from test_package import Job, run_text


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


if __name__ == "__main__":
    unittest.main()

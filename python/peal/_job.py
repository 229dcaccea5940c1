# SPDX-License-Identifier: Apache-2.0
"""A process' part in a job: init(), finalize(), rejoin(), job(), and what they leave to the end of the process and to
fork()."""
import atexit
import contextlib
import os
import sys
import threading
import traceback

from peal import _afterlife, _device, _stream
from peal._library import FUNCTIONS, answer, must
from peal._memory import Heap
from peal._ticket import Tickets
from peal._waits import Caller
from peal.errors import ArgumentError, Error, PeerLostError

_PATIENCE_S = 5  # for waits that were aborted


class Pe:
    """What a process has between init() and finalize(). Made and ended in one call of the Caller each, so that an
    interrupt finds both whole: begun and going on, or not begun."""

    def __init__(self, caller):
        self.caller = caller
        self.my_pe = answer("my_pe", "my_pe")
        self.n_pes = answer("n_pes", "n_pes")
        self.epoch = answer("epoch", "epoch")
        self.world = answer("init", "team_world")
        self.own_stream = answer("init", "own_stream")
        self.heap = Heap(self)
        self.device = self.heap.device
        self.streams = []  # that no wait uses now
        self.tickets = Tickets()
        self.kept = {}  # what peal.torch has one of in a job
        for told in _watchers:
            told(self)

    def make(self, call, name, *arguments, stream=None, async_op=False, keep=()):
        """Makes peal_NAME, which may wait for other PEs, and raises in the name of `call` what it says: on a CPU it is done
        on return, on a GPU in the order of `stream`, or of the current one. With async_op it answers a Ticket, which has
        `keep` until the call is done."""
        if async_op:
            return self._begin(call, name, arguments, stream, keep)
        return self._make(self.caller.run, call, name, arguments, stream)

    def make_short(self, call, name, *arguments, stream=None, async_op=False, keep=()):
        """The same for what waits for nobody."""
        if async_op:
            return self._begin(call, name, arguments, stream, keep)
        return self._make(self.run_short, call, name, arguments, stream)

    def run_short(self, function, *arguments):
        """Caller.run_short(), for what comes behind calls by ticket, which may wait for other PEs."""
        return (self.caller.run if self.tickets.are_under_way() else self.caller.run_short)(function, *arguments)

    def _begin(self, call, name, arguments, stream, keep):
        if self.device.is_gpu:
            handle = _stream.not_capturing(call, self.device, stream)  # in a graph nothing waits for a ticket
        else:
            _stream.require_none(call, stream)
            handle = self.own_stream
        return self.caller.directly(self._begin_on, call, name, arguments, handle, keep)

    def _begin_on(self, call, name, arguments, handle, keep):
        return self.tickets.begin(self, call, name, arguments, handle, keep)

    def _make(self, at_once, call, name, arguments, stream):
        if self.device.is_gpu:  # in this thread, which may be capturing a graph
            self.caller.directly(must, call, name + "_on_stream", *arguments, _stream.handle(call, self.device, stream))
        else:
            _stream.require_none(call, stream)
            at_once(must, call, name, *arguments)

    def make_now(self, call, name, *arguments):
        """Makes peal_NAME, which is done on return: on a GPU behind what the current stream was given before."""
        self.synchronize(call, None)
        self.caller.run(must, call, name, *arguments)

    def is_current(self, call):
        """Whether this process' part in a job is still this one. Raises Error, naming `call`, where it has none."""
        return current(call) is self

    def pointer(self, call, address, pe):
        """Where the memory of a PE that this one's `address` names is mapped here; None where only a NIC reaches it."""
        return self.caller.directly(_pointer, call, address, pe)

    def synchronize(self, call, stream):
        """Returns when a stream has done what it was given."""
        if self.device.is_gpu:
            self.caller.run(_synchronize, call, self.device, _stream.not_capturing(call, self.device, stream))
        else:
            _stream.require_none(call, stream)

    def _destroy_streams(self):
        while self.streams:
            FUNCTIONS["stream_destroy"](self.streams.pop())

    def end(self):
        _tell_of_end()
        under_way = self.tickets.end()
        if not self.device.is_gpu:
            FUNCTIONS["stream_synchronize"](self.own_stream)  # of what arrives by it numpy's arrays keep the values, too
        self._destroy_streams()
        kept = _afterlife.keep(self.heap.exported())
        try:
            must("finalize", "finalize")
        finally:
            _forget("this PE has ended by peal.finalize(); call peal.init() for another part in a job")
            _afterlife.put_back(kept)
            del under_way  # by now done, or ended

    def begin_anew(self):
        """Answers the Pe behind a rejoin(), or raises: then this one goes on where nothing has changed."""
        global _pe
        _forget(_REJOINING)  # nobody reaches what is being replaced
        kept = _afterlife.keep(self.heap.exported())
        try:
            must("rejoin", "rejoin")
        except Error:
            if FUNCTIONS["my_pe"]() < 0:
                self._be_void(kept)
            else:
                _pe = self
            raise
        self._be_void(kept)
        return _begin_anew(self.caller)

    def _be_void(self, kept):
        _tell_of_end()
        self.tickets.end()
        self._destroy_streams()
        _forget(_REJOINS)
        _afterlife.put_back(kept)

    def leave(self, reason):
        global _again
        _again = None
        _tell_of_end()
        under_way = self.tickets.end()
        self._destroy_streams()
        kept = _afterlife.keep(self.heap.exported())
        _forget(f"this PE has left its job: {reason.decode()}")
        must("job", "leave", reason)
        _afterlife.put_back(kept)
        del under_way


def _begin(caller, settings):
    with _environment(settings):
        must("init", "init")
    try:
        return Pe(caller)
    except BaseException as error:
        must("init", "leave", _reason(error))
        raise


def _begin_anew(caller):
    """Behind peal_rejoin(). Where one more PE ends meanwhile, the next rejoin() begins with that; after all else it would
    find that all PEs live."""
    global _pe
    try:
        _pe = Pe(caller)
    except PeerLostError:
        raise
    except BaseException as error:
        reason = _reason(error)
        _forget(f"this PE has left its job: {reason.decode()}")
        must("rejoin", "leave", reason)
        raise
    return _pe


def _rejoin(caller):
    must("rejoin", "rejoin")
    return _begin_anew(caller)


_watchers = []  # called with a Pe that has begun, and with None when it is about to end


def watch(told):
    """Has told(pe) called for the Pe of now and later ones, and told(None) for their ends; in a forked child nothing."""
    _watchers.append(told)
    if _pe is not None:
        told(_pe)


def _tell_of_end():
    for told in _watchers:
        told(None)


def _pointer(_, address, pe):
    return FUNCTIONS["ptr"](address, pe)


def _synchronize(call, device, stream):
    with _device.named(call):
        device.synchronize(stream)


_pe = None
_caller = None  # made by the first init()
_begun = None  # the call of an init() that is under way, or was interrupted
_again = None  # the call of a rejoin() that was interrupted and goes on, or did
_starting = {}  # "init": the thread that is in it. What dict.setdefault makes is whole whenever an interrupt comes
_why_none = "call peal.init() first, or use `with peal.job():`"
_ENDING = "this PE is ending: peal.finalize() is under way"
_REJOINING = "peal.rejoin() is under way; where it was interrupted, call it again: it ends what that began"
_REJOINS = "peal.rejoin() has failed; call it again"


def current(call):
    """The Pe of this process. Raises Error, naming `call`, before init(), after finalize() and in a forked child."""
    if _pe is None:
        raise Error(f"peal.{call}: {_why_none}")
    return _pe


def device_or_none():
    """Where this process' arrays lie; None where it is in no job."""
    return None if _pe is None else _pe.device


def _forget(why):
    global _pe, _why_none
    _pe, _why_none = None, why


def _reason(error):
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    return text.encode(errors="backslashreplace")


def init(device: str | None = None) -> None:
    """Joins the job that the environment describes: peal-run's, mpirun's, srun's, torchrun's; or makes one of this
    process alone. Collective. May be called again after finalize(), and after an init() or finalize() that was
    interrupted: it ends what that began, and goes on from there.

    `device` says where arrays lie and what makes calls: "cpu"; "cuda", the GPU with the number of this PE on its host;
    "cuda:1". Without it the environment does (PEAL_TARGET=gpu, PEAL_DEVICE=1), and without that it is "cpu".

    Raises Error where peal is initialised already, in a forked child, and for what libpeal says of the machine."""
    init_with(device, {})


def init_with(device, settings):
    """init(), with variables for libpeal beside those that `device` stands for."""
    if _why_none == _FORKED:
        raise Error(f"peal.init: {_why_none}")
    settings = settings | _settings_of(device)
    if device is None:
        os.environ.setdefault("PEAL_TARGET", "cpu")
    me = threading.current_thread()
    starter = _starting.setdefault("init", me)
    if starter is not me:
        raise Error(f"peal.init: thread {starter.name!r} is inside peal.init(); one thread calls it, for all")
    try:
        _init(settings)
    finally:
        _starting.clear()


@contextlib.contextmanager
def _environment(settings):
    """Variables for libpeal, in the thread that calls it: an init() that was interrupted goes on with them."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _settings_of(device):
    """libpeal's variables for an argument of init()."""
    if device is None:
        return {}
    kind, _, number = device.partition(":") if isinstance(device, str) else ("", "", "")
    if device == "cpu":
        return {"PEAL_TARGET": "cpu"}
    if kind != "cuda" or (device != "cuda" and not number.isdecimal()):
        raise ArgumentError(f"peal.init: device {device!r}: give \"cpu\", \"cuda\", or \"cuda:\" and a number")
    return {"PEAL_TARGET": "gpu", **({"PEAL_DEVICE": number} if number else {})}


def _init(settings):
    global _pe, _caller, _begun, _why_none
    _caller = _caller or Caller()
    _caller.wait_for_interrupted("init")
    if _pe is not None:
        raise Error("peal.init: peal is initialised already; call peal.finalize() before the next init()")
    begun = _begun
    if begun is not None and begun.result is not None and begun.arguments[1] != settings:
        raise Error("peal.init: an init() for another device was interrupted and has gone on since; call init() as it was "
                    "called then")
    if begun is None or begun.result is None:
        begun = _begun = _caller.prepare(_begin, _caller, settings)
        try:
            _caller.wait(begun)
        except BaseException:
            if begun.give_up() or (begun.finished and begun.result is None):
                _begun = None
            else:
                _why_none = "peal.init() was interrupted; call it again: it ends what that began"
            raise
    _caller.open()  # first: a Pe that nobody is let in to would be there if an interrupt came between the two
    _pe, _begun = begun.result, None


def finalize():
    """Ends this PE's part in the job, once all PEs have called it. Collective. Arrays raise from then on; numpy arrays
    that were made of them keep the values that they have, and tensors of a GPU must not be used any more.

    Raises Error, and nothing has ended, while another thread is inside a call."""
    pe = current("finalize")
    ending = pe.caller.prepare(pe.end)
    try:
        pe.caller.close(_ENDING, "finalize", ending)
        pe.caller.wait(ending)
    except BaseException:
        if ending.give_up():
            pe.caller.open(ending)
        raise


def rejoin() -> None:
    """Begins anew after the end of a PE, with a process in its place (peal-run --restart N). Collective among the PEs that
    live; each new process calls init() as any PE does. Arrays, tickets and teams of before raise from then on; numpy
    arrays that were made of them are undefined, and tensors of a GPU must not be used any more: copy what is to stay.

    Raises ArgumentError where all PEs live, Error in a job of another launcher, and PeerLostError where one more PE has
    ended meanwhile. After that, and where a new process did not come in time, it may be called again, and until it
    returns all other calls raise; also after it was interrupted: then the next one ends what that began."""
    global _again
    again, caller = _again, _caller
    if again is not None:
        caller.wait_for_interrupted("rejoin")
    elif _pe is None and _why_none != _REJOINS:
        current("rejoin")
    else:
        again = caller.prepare(_pe.begin_anew) if _pe is not None else caller.prepare(_rejoin, caller)
    try:
        if again is not _again:
            caller.close(_REJOINING, "rejoin", again)
        caller.wait(again)
        caller.open(again)
        _again = None
    except BaseException:
        if again.give_up() or (again.finished and again.result is None):
            caller.open(again)
            _again = None
        else:
            _again = again
        raise


def abort(reason):
    """Ends the waits of all PEs: their calls raise Error with `reason`. Not collective, waits for nobody."""
    current("abort").caller.directly(must, "abort", "abort", str(reason).encode(errors="backslashreplace"))


class job:  # noqa: N801  (read as a statement: with peal.job():)
    """`with peal.job():` is init() and finalize(). When the block raises, this PE leaves at once: calls of the other
    PEs raise Error with what was raised here, and the exception goes on, so that the program ends with its own exit
    code. `device`: init()'s."""

    def __init__(self, device: str | None = None):
        self._device = device

    def __enter__(self):
        init(self._device)
        return self

    def __exit__(self, kind, error, trace):
        if error is None or (isinstance(error, SystemExit) and not error.code):
            self._finish()
        elif _pe is not None:
            _leave(error)
        return False

    def _finish(self):
        try:
            if _pe is not None:
                finalize()
        except Error as error:
            if _pe is not None:  # another thread is inside a call
                _leave(error)
            raise


def _leave(error):
    """Ends this PE's part because of an exception, without waiting for others."""
    pe, reason = _pe, _reason(error)
    pe.caller.close_for_good(f"this PE is leaving its job: {reason.decode()}")  # first: nobody enters behind the look
    if pe.caller.busy() or pe.caller.others():
        must("job", "abort", reason)
        if _still_inside(pe.caller):
            _exit_from_a_call(error)
    if _pe is pe:  # else it was finalize() that was waited for
        pe.leave(reason)


def _still_inside(caller):
    """Whether calls that were interrupted, or of other threads, outlive the end of all waits."""
    return bool(caller.busy(_PATIENCE_S) or caller.others(_PATIENCE_S))


def _exit_from_a_call(error):
    """libpeal is still in a call that nothing ends, and must not be taken away from under it."""
    if error is not None and error is not getattr(sys, "last_value", None):  # else Python has printed it
        traceback.print_exception(error)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(130 if isinstance(error, KeyboardInterrupt) else 1)


@atexit.register
def _at_exit():
    """Without finalize() libpeal ends this PE at the process' exit; not while a call is in it: one that was interrupted,
    or a daemon thread's."""
    if _caller is None or not (_caller.busy() or _caller.others()):
        return
    error = getattr(sys, "last_value", None)
    if _pe is None or _caller.is_closed():  # in init(), rejoin() or finalize()
        _exit_from_a_call(error)
    _caller.close_for_good("this process is ending")
    must("job", "abort", f"this PE ends in a call: {error!r}".encode())
    if _still_inside(_caller):
        _exit_from_a_call(error)


_FORKED = "this process was forked from a PE and is none; start PEs by peal-run, and other processes by spawn, not fork"


def _in_child():
    global _caller, _begun, _again
    of_parent = _pe is not None or _begun is not None or _why_none in (_REJOINING, _REJOINS)
    _caller = _begun = _again = None  # their thread is the parent's
    _starting.clear()
    if of_parent:
        _forget(_FORKED)


os.register_at_fork(after_in_child=_in_child)

# SPDX-License-Identifier: Apache-2.0
"""libpeal, as peal/c_api.h and peal/c_calls.h declare it, loaded from the folder of this package.

Through ctypes: a call takes some microseconds, releases the interpreter's lock, and one wheel fits every Python."""
import ctypes
import pathlib
import re

from peal.errors import ArgumentError, Error, PeerLostError

NATIVE = pathlib.Path(__file__).parent / "_native"

# As peal_type_t, peal_op_t, peal_compare_t, peal_signal_kind_t and peal_atomic_t count them.
TYPES = {name: number for number, name in enumerate((
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64"))}
OPERATIONS = {name: number for number, name in enumerate(("sum", "product", "min", "max", "and", "or", "xor"))}
COMPARISONS = {name: number for number, name in enumerate(("==", "!=", ">", ">=", "<", "<="))}
SIGNALS = {"set": 0, "add": 1}
ATOMICS = {name: number for number, name in enumerate(("fetch", "set", "swap", "compare_swap", "add", "and", "or", "xor"))}

_pointer, _size, _int, _u64 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint64


class Buffers(ctypes.Structure):
    """peal_buffers_t"""

    _fields_ = [("dst", _pointer), ("src", _pointer), ("count", _size), ("type", _int)]


class Blocks(ctypes.Structure):
    """peal_blocks_t"""

    _fields_ = [("counts", _pointer), ("displacements", _pointer)]


class Signal(ctypes.Structure):
    """peal_signal_t"""

    _fields_ = [("word", _pointer), ("value", _u64), ("pe", _int), ("kind", _int)]


_SIGNATURES = {
    "init": [], "finalize": [], "rejoin": [], "my_pe": [], "n_pes": [], "barrier": [],
    "check": [], "context": [_pointer, _size, ctypes.c_uint], "team_value": [_pointer, _pointer, _size],
    "stream_destroy": [_pointer], "leave": [ctypes.c_char_p], "abort": [ctypes.c_char_p], "free": [_pointer],
    "register_local": [_pointer, _size], "unregister_local": [_pointer], "register_local_cached": [_pointer, _size],
    "register_window": [_pointer, _size], "unregister_window": [_pointer], "register_window_cached": [_pointer, _size],
    "atomic_fetching": [_int, _pointer, _u64, _u64, _int, _pointer],
    "atomic_fetching32": [_int, _pointer, ctypes.c_uint32, ctypes.c_uint32, _int, _pointer],
    "stream_synchronize": [_pointer], "team_split": [_pointer, _int, _int, _pointer], "team_free": [_pointer],
    "team_my_pe": [_pointer], "team_n_pes": [_pointer], "team_world_pe": [_pointer, _int],
    "failure": [_pointer], "counters": [_pointer],
    "ticket_test": [_pointer], "ticket_wait": [_pointer], "ticket_free": [_pointer],
    "load": [ctypes.c_char_p, _u64, _pointer, _size], "save": [ctypes.c_char_p, _pointer, _size],
    "save_checkpoint": [ctypes.c_char_p, _pointer, _size], "load_checkpoint": [ctypes.c_char_p, _pointer, _size],
}
# What is done at once by peal_NAME, and in the order of a stream by peal_NAME_on_stream.
_IN_ORDER = {
    "quiet": [], "fence": [], "barrier_all": [], "wait_until": [_pointer, _int, _int, _u64],
    "put": [_pointer, _pointer, _size, _int], "get": [_pointer, _pointer, _size, _int],
    "put_signal": [_pointer, _pointer, _size, Signal], "signal": [Signal],
    "atomic": [_int, _pointer, _u64, _size, _int], "team_sync": [_pointer], "team_barrier": [_pointer],
    "broadcast": [_pointer, Buffers, _int], "all_gather": [_pointer, Buffers], "all_to_all": [_pointer, Buffers],
    "all_to_all_v": [_pointer, Buffers, Blocks, Blocks],
    "all_reduce": [_pointer, Buffers, _int], "reduce": [_pointer, Buffers, _int, _int],
    "reduce_scatter": [_pointer, Buffers, _int], "scan": [_pointer, Buffers, _int],
    "exclusive_scan": [_pointer, Buffers, _int],
}
_SIGNATURES |= _IN_ORDER | {f"{name}_on_stream": [*arguments, _pointer] for name, arguments in _IN_ORDER.items()}
_POINTERS = {
    "malloc": [_size], "calloc": [_size, _size], "ptr": [_pointer, _int], "team_world": [], "stream_create": [],
    "own_stream": [], "ticket_create": [_pointer],
}


def _load():
    path = NATIVE / "lib/libpeal.so.0"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"peal: {error}; this package comes as a wheel (tools/package wheel) for Linux on x86-64, and "
                          "has its library in it") from None
    for name, arguments in {**_SIGNATURES, **_POINTERS}.items():
        function = getattr(library, "peal_" + name)
        function.argtypes = arguments
        function.restype = _pointer if name in _POINTERS else _int
    library.peal_epoch.argtypes, library.peal_epoch.restype = [], ctypes.c_longlong
    for name in ("error", "dump"):
        getattr(library, "peal_" + name).restype = ctypes.c_char_p
    library.peal_error_code.restype = _int
    return library


_library = _load()
ALLOCATE = _library.peal_malloc, _library.peal_error  # for code that must not run Python
FUNCTIONS = {name: getattr(_library, "peal_" + name) for name in (*_SIGNATURES, *_POINTERS, "epoch")}

# Remedies of C in the words of Python.
_WORDS = {"peal_init()": "peal.init()", "peal_finalize()": "peal.finalize()", "peal_rejoin()": "peal.rejoin()", "allocate it by peal_malloc with HeapKind::kHost, or mmap": "mmap",
          "peal_malloc": "peal.empty(), zeros(), full()",
          ", unless all ask for WindowOptions::any_size": "",
          "with what register_window answered there or was given": "by the array that peal.register() was given there",
          "or one window of peal_register_window": "", "peal_register_local": "peal.register_local()"}
# Of peal_error_code_t: 1 is PEAL_ERROR_INVALID_ARGUMENT, 7 PEAL_ERROR_PEER_LOST.
_CLASSES = {1: ArgumentError, 7: PeerLostError}


def failure(call):
    """The exception for a call of this thread that has just failed. `call`: its name in Python."""
    text = re.sub(r"^(peal_\w+|[a-z_]+)(?=: )", f"peal.{call}", _told())
    return _exception(text if text.startswith("peal." + call) else f"peal.{call}: {text}")


def failure_of_check(call):
    """The exception for what kernels of this PE have run into, of which `call` is the last; None where all is well."""
    return _exception(f"peal.{call}: {_told().removeprefix('peal_check: ')}") if FUNCTIONS["check"]() != 0 else None


def in_words(text):
    """A text of libpeal's with the remedies that Python has."""
    for word, ours in _WORDS.items():
        text = text.replace(word, ours)
    return text


def _told():
    return in_words(_library.peal_error().decode(errors="replace"))


def _exception(text):
    return _CLASSES.get(_library.peal_error_code(), Error)(text)


def dump():
    """peal_dump()"""
    text = _library.peal_dump()
    if text is None:
        raise failure("dump")
    return text.decode(errors="replace")


def must(call, name, *arguments):
    """Calls peal_NAME and raises, in the name of `call`, what it says when it fails."""
    if FUNCTIONS[name](*arguments) != 0:
        raise failure(call)


def answer(call, name, *arguments):
    """The same for functions that answer a pointer, or a number of 0 or more."""
    got = FUNCTIONS[name](*arguments)
    if got is None or (name not in _POINTERS and got < 0):
        raise failure(call)
    return got

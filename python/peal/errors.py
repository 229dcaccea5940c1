# SPDX-License-Identifier: Apache-2.0
"""What peal raises. Every text names the call, the argument with its value, and a remedy."""


class Error(RuntimeError):
    """A call failed: a PE was lost, a deadline passed, a call was aborted, memory ran out, or peal is not
    initialised."""


class ArgumentError(Error, ValueError):
    """An argument was refused, here or by comparison with those of the other PEs; nothing was done."""


class PeerLostError(Error):
    """Another PE has died or left the job. Where a wait ends for that the call raises Error, and failure() tells it."""


class CompileError(Error):
    """The source of a kernel was not compiled: the text is the compiler's, or says that there is none."""

# SPDX-License-Identifier: Apache-2.0
"""CUDA streams of whatever framework a program uses, as numbers."""
import sys

from peal._device import named
from peal.errors import ArgumentError


def current(device):
    """The current stream of torch, where the program has imported it; else of cupy; else CUDA's default stream."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return torch.cuda.current_stream(device.index).cuda_stream
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        return cupy.cuda.get_current_stream(device.index).ptr
    return 0


def handle(call, device, stream):
    """cudaStream_t of what a program gives as `stream`: None is the current one."""
    if stream is None:
        return current(device)
    for name in "cuda_stream", "ptr":  # torch, cupy
        found = getattr(stream, name, None)
        if isinstance(found, int):
            if getattr(stream, "device_index", device.index) != device.index:
                raise ArgumentError(f"peal.{call}: the stream is of cuda:{stream.device_index}, and this job's arrays are on "
                                    f"{device}; call torch.cuda.set_device({device.index}) before streams are made")
            return found
    protocol = getattr(stream, "__cuda_stream__", None)  # cuda.core
    if protocol is not None:
        found = protocol() if callable(protocol) else protocol
        return found[1]
    if isinstance(stream, int) and stream >= 0:
        return stream
    raise ArgumentError(f"peal.{call}: stream {stream!r}: give a stream of torch, cupy or cuda.core, or a cudaStream_t as a "
                        "number")


def is_capturing(device):
    """Whether a graph is being made of what the current stream is given. A CPU has no graphs here."""
    return device.is_gpu and device.is_capturing(current(device))


def not_capturing(call, device, stream=None):
    """handle(), for what a graph cannot hold."""
    found = handle(call, device, stream)
    with named(call):
        captures = device.is_capturing(found)
    if captures:
        raise ArgumentError(f"peal.{call}: the {'current ' if stream is None else ''}stream captures a graph, which this call "
                            "cannot be part of; call it before or after")
    return found


def require_none(call, stream):
    """On a CPU calls are done on return."""
    if stream is not None:
        raise ArgumentError(f"peal.{call}: stream {stream!r}: this job is on a CPU, where calls are done on return; leave it "
                            "out, or begin by peal.init(\"cuda\")")

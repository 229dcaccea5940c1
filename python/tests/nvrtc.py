# SPDX-License-Identifier: Apache-2.0
"""CUDA's compiler at run time, for tests: what takes the package's headers without nvcc."""
import ctypes
import glob
import os
import pathlib

from peal import _library

_CUDA = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
INCLUDE = _library.NATIVE / "include/peal"
CALLS = r"""
#include "device/api.h"
using namespace peal;
#define BY(scope)                                                                                             \
  extern "C" __global__ void calls_##scope(Context ctx, int* dst, const int* src, uint64_t* word, int pe) {    \
    (void)put(ctx, scope, dst, src, size_t{100}, pe);                                                          \
    (void)get_nbi(ctx, scope, dst, src, size_t{100}, pe);                                                      \
    (void)put_signal(ctx, scope, dst, src, size_t{100}, Signal{word, 1, pe, Signal::Kind::kAdd});              \
    (void)fence(ctx, scope);                                                                                   \
    (void)quiet(ctx, scope);                                                                                   \
    (void)barrier_all(ctx, scope);                                                                             \
  }
BY(thread)
BY(warp)
BY(block)
extern "C" __global__ void meet(Context ctx, Team team, int* dst, const int* src, uint64_t* word, int pe) {
  (void)all_reduce(ctx, block, team, dst, src, size_t{4}, op::sum);
  if (threadIdx.x == 0) (void)atomic_add(ctx, word, uint64_t{1}, pe);
  (void)barrier_all(ctx, block);
}
"""


def library():
    """libnvrtc, of CUDA or of torch's packages; None where there is none, or no libcu++ beside it."""
    if not (_CUDA / "include/cccl/cuda/std/cstdint").exists():
        return None
    for path in *glob.glob(f"{_CUDA}/lib64/libnvrtc.so.1?"), "libnvrtc.so.13", "libnvrtc.so.12":
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


def compiled(nvrtc, source, capability="90"):
    """Machine code of a source. Raises ValueError with what the compiler says."""
    options = [f"--gpu-architecture=sm_{capability}", "--std=c++20", "-default-device", "-device-int128", f"-I{INCLUDE}/device/nvrtc",
               f"-I{INCLUDE}", f"-I{_CUDA}/include/cccl", f"-I{_CUDA}/include"]
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"source.cu", 0, None, None) != 0:
        raise ValueError("nvrtcCreateProgram failed")
    given = (ctypes.c_char_p * len(options))(*(one.encode() for one in options))
    failed = nvrtc.nvrtcCompileProgram(program, len(options), given)
    what = "ProgramLog" if failed else "CUBIN"
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    made = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, made)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise ValueError(made.value.decode(errors="replace"))
    return made.raw

# SPDX-License-Identifier: Apache-2.0
"""python -m peal.bench: what calls from Python take, in microseconds, the best of some rounds. By peal-run, on any
number of PEs; PE 0 prints."""
import time

import numpy as np

import peal

_ROUNDS, _CALLS = 10, 50


def _best(call):
    best = float("inf")
    for _ in range(_ROUNDS):
        peal.barrier()
        began = time.perf_counter()
        for _ in range(_CALLS):
            call()
        best = min(best, time.perf_counter() - began)
    return best / _CALLS * 1e6


def main():
    """Prints a line for each call."""
    with peal.job():
        x, y, word = peal.full(2, 1, np.float32), peal.zeros(2, np.float32), peal.zeros(1, np.int64)
        other = (peal.my_pe() + 1) % peal.n_pes()
        for name, call in (("my_pe", peal.my_pe), ("put, 8 bytes", lambda: peal.put(y, x, other)),
                           ("atomic_fetch_add", lambda: peal.atomic_fetch_add(word, 1, other)), ("barrier", peal.barrier),
                           ("all_reduce, 8 bytes", lambda: peal.all_reduce(y, x, "max")),
                           ("empty", lambda: peal.empty(2, np.float32))):
            taken = _best(call)
            if peal.my_pe() == 0:
                print(f"{name:20} {taken:10.1f} us", flush=True)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Step 1 of the tutorial with a host in Python: every PE writes four numbers into the memory of the next PE. The kernel
is the tutorial's own, out of its file.

    peal-run -n 2 python put.py        prints ok
"""
import pathlib

import numpy as np
import peal

STEP = pathlib.Path(__file__).parent.parent / "tutorial/step1_put.cu"

with peal.job():
    me, before = peal.my_pe(), (peal.my_pe() - 1) % peal.n_pes()
    put_to_next = peal.kernel(STEP)  # compiled by the first launch on this machine
    inbox = peal.zeros(4, np.int32)  # symmetric: every PE has an inbox at the same place
    outbox = peal.zeros(4, np.int32)
    status = peal.zeros(1, np.uint32)  # a peal::Status
    outbox[:] = np.arange(4) + 100 * me

    put_to_next[1, 1](peal.context(), inbox, outbox, status)  # raises what went wrong in the kernel

    assert status[0] == 0 and inbox.numpy().tolist() == [100 * before + i for i in range(4)]
    if me == 0:
        print("ok")

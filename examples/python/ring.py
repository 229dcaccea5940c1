# SPDX-License-Identifier: Apache-2.0
"""Ring: a message travels around all PEs, several times, by put_signal and waits of a kernel; the host is Python.

    peal-run -n 4 python ring.py       prints ok

Every PE waits for the message, adds its own mark to each word and sends it on, with a signal behind it: whoever sees
the signal sees the data."""
import numpy as np
import peal

KERNEL = r"""
#include "device/api.h"

// One block. All its threads share the work on the message; the block sends it as one request.
__global__ void ring(peal::Context ctx, uint64_t* inbox, uint64_t* outbox, uint64_t* arrived, int words, int laps) {
  const int next = (ctx.pe + 1) % ctx.n_pes;
  for (int lap = 1; lap <= laps; ++lap) {
    const auto send = [&] {
      return peal::put_signal(ctx, peal::block, inbox, outbox, words, peal::Signal::set(arrived, lap, next));
    };
    // PE 0 starts every lap with the message as it stands; the others wait for it first.
    if (ctx.pe == 0 && send() != peal::Status::kOk) return;
    if (peal::wait_until(ctx, peal::block, arrived, peal::Compare::kGe, uint64_t(lap)) != peal::Status::kOk) return;
    for (int i = threadIdx.x; i < words; i += blockDim.x) outbox[i] = inbox[i] + ctx.pe + 1 + i;
    if (ctx.pe != 0 && send() != peal::Status::kOk) return;
  }
  (void)peal::barrier_all(ctx, peal::block);  // nobody leaves while a message is still on its way
}
"""
WORDS, LAPS = 64, 10

with peal.job():
    me, n = peal.my_pe(), peal.n_pes()
    ring = peal.kernel(KERNEL)
    inbox, outbox = peal.zeros(WORDS, np.uint64), peal.zeros(WORDS, np.uint64)
    arrived = peal.zeros(1, np.uint64)

    ring[1, 64](peal.context(), inbox, outbox, arrived, WORDS, LAPS)  # raises Error where a wait or a put failed

    if me == 0:  # each lap, PE p added p + 1 + i to word i
        wanted = [LAPS * (n * (n + 1) // 2 + n * i) for i in range(WORDS)]
        assert outbox.numpy().tolist() == wanted, outbox.numpy()
        print("ok")

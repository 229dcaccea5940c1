// SPDX-License-Identifier: Apache-2.0
//
// Ring: a message travels around all PEs, several times, without the CPU.
//
//   mpirun -np 4 bazel-bin/examples/ring        prints ok
//
//        put_signal            put_signal                       put_signal
//   PE 0 ----------> PE 1 ----------> PE 2  ... PE n-1 -----------------> PE 0
//
// Every PE waits for the message, adds its own mark to it and sends it on. put_signal() sends data
// and a flag in one go: whoever sees the flag sees the data, so the receiver needs no other check.
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "peal/peal.h"

namespace {

constexpr uint64_t kLaps = 10;
constexpr uint32_t kWords = 64;  // of the message

// The symmetric objects of one PE. Each has the same offset in the heap of every PE, so that our
// own pointer names the peer's copy as well.
struct Ring {
  uint64_t* inbox;    // [kWords], written by the PE before us
  uint64_t* outbox;   // [kWords], what we send; the NIC reads it, so it is in the heap too
  uint64_t* arrived;  // laps whose message is in the inbox; written by the PE before us
  peal::Status* status;
};

}  // namespace

// One block. All its threads share the work on the message; the block posts it as one request.
PEAL_KERNEL ring(peal::Context ctx, Ring mine) {
  using peal::Status;
  const int next = (ctx.pe + 1) % ctx.n_pes;
  Status status = Status::kOk;

  for (uint64_t lap = 1; lap <= kLaps && status == Status::kOk; ++lap) {
    const auto send = [&] {
      return peal::put_signal(ctx, peal::block, mine.inbox, mine.outbox, kWords,
                              peal::Signal::set(mine.arrived, lap, next));
    };

    // PE 0 starts every lap with the message as it stands; the others wait for it first.
    if (ctx.pe == 0) {
      status = send();
      if (status != Status::kOk) break;
    }
    status = peal::wait_until(ctx, peal::block, mine.arrived, peal::Compare::kGe, lap);
    if (status != Status::kOk) break;  // a deadline passed or a peer died: no wait is for ever

    for (uint32_t i = threadIdx.x; i < kWords; i += blockDim.x) {
      mine.outbox[i] = mine.inbox[i] + static_cast<uint64_t>(ctx.pe) + 1 + i;
    }
    // Send it on. The call begins with a barrier of the block: every thread has written its words.
    // It returns when the outbox may be written again. The inbox is safe as well: its next message
    // comes only after the one that we send here has gone all the way round.
    if (ctx.pe != 0) status = send();
  }

  // Nobody leaves while a message is still on its way.
  const Status end = peal::barrier_all(ctx, peal::block);
  if (peal::block.leader()) *mine.status = status != Status::kOk ? status : end;
}

int main() {
  return peal::run_main([] {
    peal::Runtime pe = peal::start();
    const Ring mine{.inbox = pe.allocate<uint64_t>(kWords),
                    .outbox = pe.allocate<uint64_t>(kWords),
                    .arrived = pe.allocate<uint64_t>(1),
                    .status = pe.allocate<peal::Status>(1)};

    peal::launch({.blocks = 1, .threads = 64}, ring, pe.context(), mine).wait();

    peal::Status status{};
    pe.copy_out(&status, mine.status, sizeof status);
    pe.check();  // throws the first error of a queue or an argument, in words
    if (status != peal::Status::kOk) throw std::runtime_error(to_string(status));
    if (pe.my_pe() != 0) return 0;

    // Each lap, PE p added p + 1 + i to word i. The sum over all PEs and laps has come back to us.
    const auto n = static_cast<uint64_t>(pe.n_pes());
    std::vector<uint64_t> words(kWords);
    pe.copy_out(words.data(), mine.outbox, kWords * sizeof(uint64_t));
    for (uint64_t i = 0; i < kWords; ++i) {
      const uint64_t expected = kLaps * (n * (n + 1) / 2 + n * i);
      if (words[i] == expected) continue;
      std::fprintf(stderr, "ring: word %lu is %lu, not %lu\n", i, words[i], expected);
      return 1;
    }
    std::printf("ok\n");
    return 0;
  });
}

// SPDX-License-Identifier: Apache-2.0
//
// All to all: every PE sends a different block of data to every PE, itself included.
//
//   mpirun -np 4 bazel-bin/examples/all_to_all        prints ok
//
//          outbox of PE p                 inbox of PE q
//   [ for 0 | for 1 | for 2 | ...]   [ from 0 | from 1 | from 2 | ...]
//                 `----------------------> at place p of PE 1
//
// Each warp serves some of the PEs. A put at warp scope is one call made by all 32 lanes with the
// same arguments, and one work request.
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "peal/peal.h"

namespace {

constexpr uint32_t kWords = 1000;  // of a block
constexpr uint32_t kWarps = 4;

// Different for every sender, receiver and place.
PEAL_HD uint64_t expected(int from, int to, uint32_t i) {
  return (static_cast<uint64_t>(from) << 48) + (static_cast<uint64_t>(to) << 32) + i;
}

}  // namespace

PEAL_KERNEL all_to_all(peal::Context ctx, uint64_t* inbox, uint64_t* outbox, peal::Status* status) {
  using peal::Status;
  const uint32_t lane = peal::warp.rank();
  const uint32_t first = threadIdx.x / peal::kWarpLanes;
  Status mine = Status::kOk;

  for (int turn = static_cast<int>(first); turn < ctx.n_pes; turn += static_cast<int>(kWarps)) {
    // Begin with the PE after us: if all began with PE 0, its NIC would be the bottleneck.
    const int to = (ctx.pe + 1 + turn) % ctx.n_pes;
    uint64_t* block = outbox + static_cast<size_t>(to) * kWords;
    for (uint32_t i = lane; i < kWords; i += peal::kWarpLanes) block[i] = expected(ctx.pe, to, i);

    // Our block goes to our place in their inbox. nbi: not blocking, the source stays in use until
    // quiet. The call waits for all lanes of the warp first, so the block is complete.
    uint64_t* place = inbox + static_cast<size_t>(ctx.pe) * kWords;
    const peal::Ticket sent = peal::put_nbi(ctx, peal::warp, place, block, kWords, to);
    if (mine == Status::kOk) mine = sent.status;
  }

  // Meets all warps of this block, completes what they put, then waits for the other PEs to have
  // done the same: now every inbox is full.
  mine = peal::first_failure(peal::block, mine);
  const Status all = peal::barrier_all(ctx, peal::block);
  if (peal::block.leader()) *status = mine != Status::kOk ? mine : all;
}

int main() {
  return peal::run_main([] {
    peal::Runtime pe = peal::start();
    const auto words = static_cast<size_t>(pe.n_pes()) * kWords;
    auto* inbox = pe.allocate<uint64_t>(words);
    auto* outbox = pe.allocate<uint64_t>(words);
    auto* status = pe.allocate<peal::Status>(1);

    const peal::Grid grid{.blocks = 1, .threads = kWarps * peal::kWarpLanes};
    peal::launch(grid, all_to_all, pe.context(), inbox, outbox, status).wait();
    pe.check();

    peal::Status ended{};
    pe.copy_out(&ended, status, sizeof ended);
    if (ended != peal::Status::kOk) throw std::runtime_error(to_string(ended));
    std::vector<uint64_t> got(words);
    pe.copy_out(got.data(), inbox, words * sizeof(uint64_t));
    for (int from = 0; from < pe.n_pes(); ++from) {
      for (uint32_t i = 0; i < kWords; ++i) {
        const uint64_t word = got[static_cast<size_t>(from) * kWords + i];
        if (word == expected(from, pe.my_pe(), i)) continue;
        std::fprintf(stderr, "all_to_all: PE %d: word %u from PE %d is %lx\n", pe.my_pe(), i, from,
                     word);
        return 1;
      }
    }
    pe.barrier();  // every PE has checked its own inbox
    if (pe.my_pe() == 0) std::printf("ok\n");
    return 0;
  });
}

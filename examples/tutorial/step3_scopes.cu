// SPDX-License-Identifier: Apache-2.0
//
// Tutorial, step 3: scopes. Four blocks of 128 threads send one large message: each block fills its
// part and puts it with all its threads. The receiver counts parts.
//
//   peal-run -n 2 bazel-bin/examples/tutorial/step3_scopes        prints ok
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "peal/peal.h"

namespace {

constexpr uint32_t kBlocks = 4;
constexpr uint32_t kThreads = 128;
constexpr size_t kPart = 4096;  // floats that a block sends

struct Mail {
  float* inbox;          // [kBlocks][kPart], symmetric
  float* outbox;         // the same
  uint64_t* signal;      // parts that have arrived, symmetric
  peal::Status* status;  // [kBlocks]
};

}  // namespace

PEAL_KERNEL send_parts(peal::Context ctx, Mail mail) {
  using peal::block;
  using peal::Status;
  const int next = (ctx.pe + 1) % ctx.n_pes;
  const size_t first = blockIdx.x * kPart;
  for (size_t i = threadIdx.x; i < kPart; i += blockDim.x) {
    mail.outbox[first + i] = static_cast<float>(ctx.pe);
  }
  // All threads of the block make the call, with the same arguments; it waits for all of them
  // first, so the part is complete. Four blocks add to one signal: add, where set has one writer.
  const auto arrived = peal::Signal::add(mail.signal, 1, next);
  Status status =
      peal::put_signal(ctx, block, mail.inbox + first, mail.outbox + first, kPart, arrived);
  if (status == Status::kOk) {
    status = peal::signal_wait_until(ctx, block, mail.signal, peal::Compare::kGe, kBlocks).status;
  }
  if (block.leader()) mail.status[blockIdx.x] = status;
}

int main() {
  return peal::run_main([] {
    peal::Runtime pe = peal::start();
    const Mail mail{.inbox = pe.allocate<float>(kBlocks * kPart),
                    .outbox = pe.allocate<float>(kBlocks * kPart),
                    .signal = pe.allocate<uint64_t>(1),
                    .status = pe.allocate<peal::Status>(kBlocks)};
    const peal::Grid grid{.blocks = kBlocks, .threads = kThreads};
    peal::launch(grid, send_parts, pe.context(), mail).wait();
    pe.check();

    std::vector<peal::Status> ended(kBlocks);
    pe.copy_out(ended.data(), mail.status, kBlocks * sizeof(peal::Status));
    for (const peal::Status status : ended) {
      if (status != peal::Status::kOk) throw std::runtime_error(to_string(status));
    }
    std::vector<float> got(kBlocks * kPart);
    pe.copy_out(got.data(), mail.inbox, got.size() * sizeof(float));
    const int before = (pe.my_pe() + pe.n_pes() - 1) % pe.n_pes();
    for (const float value : got) {
      if (value != static_cast<float>(before)) throw std::runtime_error("wrong value");
    }
    pe.barrier();
    if (pe.my_pe() == 0) std::printf("ok\n");
    return 0;
  });
}

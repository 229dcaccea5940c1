// SPDX-License-Identifier: Apache-2.0
//
// Tutorial, step 1: put. Every PE writes four numbers into the memory of the next PE.
//
//   peal-run -n 2 bazel-bin/examples/tutorial/step1_put        prints ok
//
//   PE 0 outbox --put--> PE 1 inbox,  PE 1 outbox --put--> PE 2 inbox, ...
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "peal/peal.h"

namespace {

constexpr size_t kCount = 4;

}  // namespace

PEAL_KERNEL put_to_next(peal::Context ctx, int* inbox, const int* outbox, peal::Status* status) {
  const int next = (ctx.pe + 1) % ctx.n_pes;
  const peal::Status put = peal::put(ctx, inbox, outbox, kCount, next);
  const peal::Status all = peal::barrier_all(ctx);  // now every put of every PE has arrived
  *status = put != peal::Status::kOk ? put : all;
}

int main() {
  return peal::run_main([] {
    peal::Runtime pe = peal::start();
    int* inbox = pe.allocate<int>(kCount);  // symmetric: every PE has an inbox at the same place
    int* outbox = pe.allocate<int>(kCount);
    auto* status = pe.allocate<peal::Status>(1);

    const int me = pe.my_pe();
    const std::vector<int> mine{100 * me, 100 * me + 1, 100 * me + 2, 100 * me + 3};
    pe.copy_in(outbox, mine.data(), kCount * sizeof(int));
    peal::launch({}, put_to_next, pe.context(), inbox, outbox, status).wait();
    pe.check();  // throws what went wrong in the kernel

    peal::Status ended{};
    pe.copy_out(&ended, status, sizeof ended);
    if (ended != peal::Status::kOk) throw std::runtime_error(to_string(ended));
    std::vector<int> got(kCount);
    pe.copy_out(got.data(), inbox, kCount * sizeof(int));
    const int before = (me + pe.n_pes() - 1) % pe.n_pes();
    for (size_t i = 0; i < kCount; ++i) {
      if (got[i] != 100 * before + static_cast<int>(i)) throw std::runtime_error("wrong number");
    }
    pe.barrier();
    if (me == 0) std::printf("ok\n");
    return 0;
  });
}

// SPDX-License-Identifier: Apache-2.0
//
// Threads: four PEs in one process, for a debugger, a sanitizer or a test of one's own. No launcher
// takes part.
//
//   bazel-bin/examples/threads        prints ok
//
// A kernel sees no difference: each PE adds its number at PE 0, and PE 0 reads the sum.
#include <cstdint>
#include <cstdio>
#include <stdexcept>

#include "peal/peal.h"

PEAL_KERNEL add_up(peal::Context ctx, uint64_t* sum, peal::Status* status) {
  const peal::Status added = peal::atomic_add(ctx, sum, static_cast<uint64_t>(ctx.pe), 0);
  const peal::Status all = peal::barrier_all(ctx);
  *status = added != peal::Status::kOk ? added : all;
}

namespace {

constexpr int kPes = 4;

// What main() of a program with one PE a process would do.
void live(peal::Runtime& pe) {
  auto* sum = pe.allocate<uint64_t>(1);
  auto* status = pe.allocate<peal::Status>(1);
  peal::launch({}, add_up, pe.context(), sum, status).wait();
  pe.check();

  peal::Status ended;
  pe.copy_out(&ended, status, sizeof ended);
  uint64_t total = 0;
  pe.copy_out(&total, sum, sizeof total);
  const bool right = pe.my_pe() != 0 || total == kPes * (kPes - 1) / 2;
  if (ended != peal::Status::kOk || !right) throw std::runtime_error("a wrong sum");
}

}  // namespace

int main() {
  return peal::run_main([] {
    peal::bootstrap::run_threads(kPes, [](peal::Bootstrap& group) {
      peal::Runtime pe = peal::join(group);
      live(pe);
    });
    std::puts("ok");
    return 0;
  });
}

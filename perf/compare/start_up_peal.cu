// SPDX-License-Identifier: Apache-2.0
//
// How long until a kernel runs? The smallest program: joins, tells the next PE from a kernel, waits
// for all, and prints when that was.
#include <chrono>
#include <cstdio>

#include "peal/peal.h"

PEAL_KERNEL greet(peal::Context ctx, uint64_t* word, peal::Status* status) {
  const peal::Status put = peal::p(ctx, word, 1, (ctx.pe + 1) % ctx.n_pes);
  const peal::Status all = peal::barrier_all(ctx);
  *status = put != peal::Status::kOk ? put : all;
}

int main() {
  return peal::run_main([] {
    peal::Runtime pe = peal::start();
    auto* word = pe.allocate<uint64_t>(1);
    auto* status = pe.allocate<peal::Status>(1);
    peal::launch({}, greet, pe.context(), word, status).wait();
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    uint64_t told = 0;
    pe.copy_out(&told, word, sizeof told);
    std::printf("{\"side\": \"peal\", \"op\": \"start_up\", \"unix_ns\": %lld, \"errors\": %d}\n",
                static_cast<long long>(std::chrono::nanoseconds(now).count()), told == 1 ? 0 : 1);
    pe.check();
    return told == 1 ? 0 : 1;
  });
}

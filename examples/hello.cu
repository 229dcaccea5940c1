// SPDX-License-Identifier: Apache-2.0
//
// Hello: every PE puts its number into the memory of the next PE, from inside a kernel.
//
//   mpirun -np 4 bazel-bin/examples/hello
//
//   PE 0 --put--> PE 1 --put--> PE 2 --put--> PE 3 --put--> PE 0
#include <cstdio>

#include "peal/peal.h"

// One thread does all: the value travels inside the work request, and barrier_all() completes the
// put at the peer and waits until every PE has come this far.
PEAL_KERNEL hello(peal::Context ctx, int* box, peal::Status* status) {
  const int next = (ctx.pe + 1) % ctx.n_pes;
  const peal::Status put = peal::p(ctx, box, ctx.pe, next);
  const peal::Status all = peal::barrier_all(ctx);
  *status = put != peal::Status::kOk ? put : all;
}

int main() {
  return peal::run_main([] {
    peal::Runtime pe = peal::start();  // mpirun says who we are
    int* box = pe.allocate<int>(1);    // symmetric: one int on every PE
    auto* status = pe.allocate<peal::Status>(1);
    peal::launch({}, hello, pe.context(), box, status).wait();
    pe.check();  // throws what the NIC refused

    int from = -1;
    peal::Status ended;
    pe.copy_out(&from, box, sizeof from);
    pe.copy_out(&ended, status, sizeof ended);
    std::printf("PE %d of %d: hello from PE %d, %s\n", pe.my_pe(), pe.n_pes(), from,
                peal::to_string(ended));
    return ended == peal::Status::kOk && from == (pe.my_pe() + pe.n_pes() - 1) % pe.n_pes() ? 0 : 1;
  });
}

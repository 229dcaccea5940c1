// SPDX-License-Identifier: Apache-2.0
//
// The same as races_pes.cu, with peal's calls and PEs that are threads of one process.
#include <cstdio>

#include "peal/peal.h"

__global__ void poll(peal::Context ctx, int* box, const int* source, uint64_t* flag,
                     peal::Status* status) {
  if (ctx.pe == 1) {
    *status = peal::put_signal(ctx, box, source, 64, peal::Signal::set(flag, 1, 0));
  } else {
#ifdef RIGHT
    *status = peal::signal_wait_until(ctx, flag, peal::Compare::kGe, 1).status;
#else
    while (*(volatile int*)&box[63] == 0) __nanosleep(100);
    *status = peal::Status::kOk;
#endif
    box[0] += 1;  // poll
  }
}

int main() {
  return peal::run_main([] {
    peal::bootstrap::run_threads(2, [](peal::Bootstrap& group) {
      peal::Runtime pe = peal::join(group);
      auto* box = pe.allocate<int>(64);
      auto* source = pe.allocate<int>(64);
      auto* flag = pe.allocate<uint64_t>(1);
      auto* status = pe.allocate<peal::Status>(1);
      for (int i = 0; i < 64; ++i) source[i] = 7;
      pe.barrier();
      peal::launch({}, poll, pe.context(), box, source, flag, status).wait();
      pe.check();
      pe.barrier();
      if (pe.my_pe() == 0) std::printf("seen: %d\n", box[0] - 1);
    });
    return 0;
  });
}

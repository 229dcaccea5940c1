// SPDX-License-Identifier: Apache-2.0
//
// Ring all_reduce: the sum over all PEs by the classic two laps, written with put_signal alone.
//
//   mpirun -np 4 bazel-bin/examples/ring_all_reduce        prints ok
//
// The array is cut into a chunk for each PE. In the first lap a chunk travels round the ring and
// every PE adds its own part; in the second the sums travel round once more. What is received is
// added only after its signal was seen, and a chunk is sent on only after all threads have added:
// the signal vouches for the data behind which it was sent, and for nothing else.
//
// peal::all_reduce does this in one call, and faster; the example shows how to write one's own.
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "peal/peal.h"

namespace {

constexpr size_t kChunk = 1000;  // floats

// Symmetric objects.
struct Ring {
  float* data;        // [n_pes][kChunk]: our part, then the sum
  float* inbox;       // [2 * n_pes][kChunk]: a place for each step, so that no sender must wait
  uint64_t* arrived;  // [2 * n_pes]: 1 once the step's chunk is in the inbox
  peal::Status* status;
};

}  // namespace

PEAL_KERNEL ring_all_reduce(peal::Context ctx, Ring r) {
  using peal::Status;
  const int n = ctx.n_pes;
  const int next = (ctx.pe + 1) % n;
  Status status = Status::kOk;
  for (int step = 0; step < 2 * (n - 1) && status == Status::kOk; ++step) {
    const int sent = (ctx.pe + 2 * n - step) % n;
    const int received = (sent + n - 1) % n;
    float* const place = r.inbox + static_cast<size_t>(step) * kChunk;
    status = peal::put_signal(ctx, peal::block, place, r.data + static_cast<size_t>(sent) * kChunk,
                              kChunk, peal::Signal::set(r.arrived + step, 1, next));
    if (status != Status::kOk) break;
    status = peal::wait_until(ctx, peal::block, r.arrived + step, peal::Compare::kEq, 1);
    if (status != Status::kOk) break;
    float* const mine = r.data + static_cast<size_t>(received) * kChunk;
    for (size_t i = threadIdx.x; i < kChunk; i += blockDim.x) {
      mine[i] = step < n - 1 ? mine[i] + place[i] : place[i];
    }
  }
  const Status end = peal::barrier_all(ctx, peal::block);  // nobody leaves while chunks travel
  if (peal::block.leader()) *r.status = status != Status::kOk ? status : end;
}

int main() {
  return peal::run_main([] {
    peal::Runtime pe = peal::start();
    const auto n = static_cast<size_t>(pe.n_pes());
    const Ring r{.data = pe.allocate<float>(n * kChunk),
                 .inbox = pe.allocate<float>(2 * n * kChunk),
                 .arrived = pe.allocate<uint64_t>(2 * n),
                 .status = pe.allocate<peal::Status>(1)};
    std::vector<float> values(n * kChunk);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i % 100) + static_cast<float>(pe.my_pe());
    }
    pe.copy_in(r.data, values.data(), values.size() * sizeof(float));

    peal::launch({.blocks = 1, .threads = 128}, ring_all_reduce, pe.context(), r).wait();

    peal::Status status{};
    pe.copy_out(&status, r.status, sizeof status);
    pe.check();
    if (status != peal::Status::kOk) throw std::runtime_error(to_string(status));
    pe.copy_out(values.data(), r.data, values.size() * sizeof(float));
    const auto of_pes = static_cast<float>(n * (n - 1) / 2);
    for (size_t i = 0; i < values.size(); ++i) {
      const float wanted = static_cast<float>(n) * static_cast<float>(i % 100) + of_pes;
      if (values[i] != wanted) throw std::runtime_error("ring_all_reduce: a sum is wrong");
    }
    if (pe.my_pe() == 0) std::printf("ok\n");
    return 0;
  });
}

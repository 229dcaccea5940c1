// SPDX-License-Identifier: Apache-2.0
//
// Graph: one round of an iterative program, recorded once and run a thousand times.
//
//   mpirun -np 2 bazel-bin/examples/graph        prints ok
//
//   work -> all have looked -> put_signal to the next PE, all_reduce -> all is there -> work -> ...
//
// The calls of pe.on(stream) are recorded as a kernel's launch is. Each looks up the context, the
// team and the windows when the graph runs, so a graph outlives recover(), mask(), new windows and
// new contexts.
#include <cstdint>
#include <cstdio>
#include <stdexcept>

#include "peal/peal.h"

namespace {

constexpr uint64_t kRounds = 200;
constexpr size_t kWords = 256;

// Symmetric objects.
struct Round {
  uint64_t* mine;     // [kWords]
  uint64_t* theirs;   // [kWords], from the PE before us
  uint64_t* sum;      // [kWords], over all PEs
  uint64_t* arrived;  // rounds whose `theirs` is here
  uint64_t* wrong;    // words that were not what they should be
};

}  // namespace

// Checks what the round before has brought, and makes what this one sends. In round r word i of PE
// p is r + p + i.
PEAL_KERNEL work(peal::Context ctx, Round r, uint64_t* round) {
  const auto n = static_cast<uint64_t>(ctx.n_pes);
  const auto me = static_cast<uint64_t>(ctx.pe);
  const uint64_t now = *round;
  for (size_t i = threadIdx.x; i < kWords; i += blockDim.x) {
    if (now != 0) {
      const uint64_t of_last = now - 1 + i;
      if (r.theirs[i] != of_last + (me + n - 1) % n) ++*r.wrong;
      if (r.sum[i] != n * of_last + n * (n - 1) / 2) ++*r.wrong;
    }
    r.mine[i] = now + me + i;
  }
  __syncthreads();
  if (threadIdx.x == 0) *round = now + 1;
}

int main() {
  return peal::run_main([] {
    peal::Runtime pe = peal::start();
    const Round r{.mine = pe.allocate<uint64_t>(kWords),
                  .theirs = pe.allocate<uint64_t>(kWords),
                  .sum = pe.allocate<uint64_t>(kWords),
                  .arrived = pe.allocate<uint64_t>(1),
                  .wrong = pe.allocate<uint64_t>(1)};
    auto* round = pe.allocate<uint64_t>(1);

    peal::Stream stream;
    const peal::StreamCalls on = pe.on(stream);
    stream.begin_capture();
    peal::launch({.threads = 64, .stream = stream}, work, pe.context(), r, round);
    on.sync_all();  // everybody has looked at what the round before has brought
    on.put_signal(r.theirs, r.mine, kWords,
                  peal::Signal::add(r.arrived, 1, (pe.my_pe() + 1) % pe.n_pes()));
    on.all_reduce(pe.world(), r.sum, r.mine, kWords, peal::op::sum);
    on.barrier_all();  // everybody has what this one brings
    const peal::Graph graph = stream.end_capture();

    for (uint64_t i = 0; i < kRounds; ++i) graph.launch(stream);
    stream.synchronize();
    pe.check();  // throws what a call ran into, by its name

    uint64_t wrong = 0;
    uint64_t arrived = 0;
    pe.copy_out(&wrong, r.wrong, sizeof wrong);
    pe.copy_out(&arrived, r.arrived, sizeof arrived);
    if (wrong != 0 || arrived != kRounds) throw std::runtime_error("graph: wrong words");
    if (pe.my_pe() == 0) std::printf("ok\n");
    return 0;
  });
}

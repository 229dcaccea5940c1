// SPDX-License-Identifier: Apache-2.0
//
// Tutorial, step 5: a plan. Each PE knows how many tokens it has for each PE. Before anything is
// sent every PE must know how many come from whom, and each sender where its tokens begin at the
// receiver.
//
//   peal-run -n 4 bazel-bin/examples/tutorial/step5_plan        prints ok
//
//   sent --all_to_all--> received --running sums--> begin --all_to_all--> there
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "peal/peal.h"

namespace {

// Lists with an entry for each PE, symmetric.
struct Plan {
  int64_t* sent;      // tokens for it
  int64_t* received;  // tokens from it
  int64_t* begin;     // where tokens from it begin in the inbox of this PE
  int64_t* there;     // where tokens for it begin in its inbox
  peal::Status* status;
};

// PE `from` has so many tokens for PE `to`.
int64_t tokens(int from, int to) { return 1 + (3 * from + 5 * to) % 7; }

}  // namespace

PEAL_KERNEL make_plan(peal::Context ctx, peal::Team team, Plan plan) {
  using peal::block;
  using peal::Status;
  Status status = peal::all_to_all(ctx, block, team, plan.received, plan.sent, 1);
  if (status == Status::kOk) {
    if (block.leader()) {
      int64_t sum = 0;
      for (int pe = 0; pe < ctx.n_pes; ++pe) {
        plan.begin[pe] = sum;
        sum += plan.received[pe];
      }
    }
    block.sync();
    status = peal::all_to_all(ctx, block, team, plan.there, plan.begin, 1);
  }
  if (block.leader()) *plan.status = status;
}

int main() {
  return peal::run_main([] {
    peal::Runtime pe = peal::start();
    const auto n = static_cast<size_t>(pe.n_pes());
    const Plan plan{.sent = pe.allocate<int64_t>(n),
                    .received = pe.allocate<int64_t>(n),
                    .begin = pe.allocate<int64_t>(n),
                    .there = pe.allocate<int64_t>(n),
                    .status = pe.allocate<peal::Status>(1)};
    std::vector<int64_t> sent(n);
    for (size_t to = 0; to < n; ++to) sent[to] = tokens(pe.my_pe(), static_cast<int>(to));
    pe.copy_in(plan.sent, sent.data(), n * sizeof(int64_t));
    peal::launch({.threads = 64}, make_plan, pe.context(), pe.world(), plan).wait();
    pe.check();

    peal::Status ended{};
    pe.copy_out(&ended, plan.status, sizeof ended);
    if (ended != peal::Status::kOk) throw std::runtime_error(to_string(ended));
    std::vector<int64_t> there(n);
    pe.copy_out(there.data(), plan.there, n * sizeof(int64_t));
    for (int to = 0; to < pe.n_pes(); ++to) {
      int64_t before = 0;  // tokens of PEs with lower numbers lie ahead of ours
      for (int from = 0; from < pe.my_pe(); ++from) before += tokens(from, to);
      if (there[static_cast<size_t>(to)] != before) throw std::runtime_error("wrong place");
    }
    pe.barrier();
    if (pe.my_pe() == 0) std::printf("ok\n");
    return 0;
  });
}

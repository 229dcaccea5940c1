// SPDX-License-Identifier: Apache-2.0
//
// Tutorial, step 4: teams. PEs with even numbers are one team, those with odd numbers another; each
// team adds its members' vectors.
//
//   peal-run -n 4 bazel-bin/examples/tutorial/step4_teams        prints ok
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "peal/peal.h"

namespace {

constexpr size_t kCount = 1000;

}  // namespace

PEAL_KERNEL add_vectors(peal::Context ctx, peal::Team team, float* sums, const float* mine,
                        peal::Status* status) {
  // A collective call: every member of the team makes it, here with one block each.
  const peal::Status all =
      peal::all_reduce(ctx, peal::block, team, sums, mine, kCount, peal::op::sum);
  if (peal::block.leader()) *status = all;
}

int main() {
  return peal::run_main([] {
    peal::Runtime pe = peal::start();
    auto* sums = pe.allocate<float>(kCount);
    auto* mine = pe.allocate<float>(kCount);
    auto* status = pe.allocate<peal::Status>(1);
    const peal::Team team = pe.split_team(pe.world(), pe.my_pe() % 2);

    const std::vector<float> ones(kCount, static_cast<float>(pe.my_pe() + 1));
    pe.copy_in(mine, ones.data(), kCount * sizeof(float));
    peal::launch({.threads = 128}, add_vectors, pe.context(), team, sums, mine, status).wait();
    pe.check();

    peal::Status ended{};
    pe.copy_out(&ended, status, sizeof ended);
    if (ended != peal::Status::kOk) throw std::runtime_error(to_string(ended));
    float wanted = 0;
    for (const int member : pe.team_pes(team)) wanted += static_cast<float>(member + 1);
    std::vector<float> got(kCount);
    pe.copy_out(got.data(), sums, kCount * sizeof(float));
    for (const float value : got) {
      if (value != wanted) throw std::runtime_error("wrong sum");
    }
    pe.free_team(team);
    pe.barrier();  // no PE ends while another team's members are at work
    if (pe.my_pe() == 0) std::printf("ok\n");
    return 0;
  });
}

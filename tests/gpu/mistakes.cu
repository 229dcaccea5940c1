// SPDX-License-Identifier: Apache-2.0
//
// The planted mistakes of tests/checked in one job of two PEs or more, each followed by a recovery:
// on CPUs here, on GPUs, where the kernels are compiled with checks, from a bundle.
//
//   mistakes [--show]     --show: what was said of each
//   last line on PE 0: N passed, N failed
#define PEAL_CHECK 1

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include "host/base/config.h"
#include "peal/peal.h"
#include "tests/checked/ranges.h"
#include "tests/checked/scopes.h"

namespace {

using namespace peal;
using planted::Memory;
using planted::Plant;

/// The word of every PE counts what is found on any.
PEAL_KERNEL tell_everybody(Context ctx, uint64_t* word, uint64_t found) {
  for (int pe = 0; pe < ctx.n_pes; ++pe) static_cast<void>(atomic_add(ctx, word, found, pe));
  static_cast<void>(barrier_all(ctx));
}

/// True on all PEs if it is on one.
bool on_any_pe(Runtime& pe, uint64_t* word, bool mine) {
  uint64_t any = 0;
  pe.copy_in(word, &any, sizeof(any));
  pe.barrier();
  launch({}, tell_everybody, pe.context(), word, uint64_t{mine}).wait();
  pe.check();
  pe.copy_out(&any, word, sizeof(any));
  pe.barrier();
  return any != 0;
}

/// Runs one; what this PE was told.
std::string told_of(Runtime& pe, const Plant& plant) {
  const Memory memory{static_cast<std::byte*>(pe.malloc(100)),
                      static_cast<std::byte*>(pe.malloc(4096)), pe.allocate<uint64_t>(16)};
  std::string text;
  try {
    plant.run(pe, memory);
  } catch (const Error& error) {
    text = error.what();
  }
  pe.barrier();
  if (text.empty()) text = pe.failure().text;
  pe.barrier();
  pe.recover();
  if (!plant.frees) pe.free(memory.block);
  pe.free(memory.beside);
  pe.free(memory.words);
  return text;
}

int run_all(bool shows) {
  Config config = Config::from_environment(environ);
  // One mistake is a wait in vain: it has to end before the other PE's host gives up on this one.
  config.timeout = std::min(config.timeout, Microseconds(std::chrono::seconds(10)));
  config.check = true;
  Runtime pe = start(config);
  if (pe.my_pe() == 0) {
    std::printf("%d PEs, transport %s, nic %s\n", pe.n_pes(), pe.transport(), pe.nic().c_str());
  }
  if (pe.n_pes() < 2) throw std::runtime_error("mistakes: the plants need two PEs or more");
  const bool by_nic = std::string(pe.transport()) != "p2p";
  auto* const word = pe.allocate<uint64_t>(1);
  planted::Plants plants = planted::range_plants();
  for (Plant& plant : planted::scope_plants()) plants.push_back(std::move(plant));
  int counts[3] = {};  // passed, failed, left out
  for (const Plant& plant : plants) {
    const bool told_here = plant.on_gpu || pe.target() == Target::kCpu;
    if ((plant.by_nic && !by_nic) || !told_here) {
      ++counts[2];
      continue;
    }
    const std::string text = told_of(pe, plant);
    const bool mine = std::ranges::all_of(
        plant.parts, [&](const std::string& part) { return text.find(part) != std::string::npos; });
    const bool found = on_any_pe(pe, word, mine);
    ++counts[found ? 0 : 1];
    if (!found) {
      std::printf("FAILED %s: PE %d was told '%s'\n", plant.kernel.c_str(), pe.my_pe(),
                  text.c_str());
    } else if (mine && shows) {
      std::printf("PE %d: %s\n", pe.my_pe(), text.c_str());
    }
    std::fflush(stdout);
  }
  if (pe.my_pe() == 0) {
    if (counts[2] != 0) std::printf("%d left out: no NIC, or a GPU cannot tell\n", counts[2]);
    std::printf("%d passed, %d failed\n", counts[0], counts[1]);
  }
  return counts[1] == 0 && counts[0] > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return peal::run_main([&] {
    const bool shows = argc == 2 && std::strcmp(argv[1], "--show") == 0;
    if (argc > 1 && !shows)
      throw std::invalid_argument("mistakes [--show]: it takes no other argument");
    return run_all(shows);
  });
}

// SPDX-License-Identifier: Apache-2.0
//
// A job in which PE 1 dies: in the middle of a run, or before it has joined. For death_test.sh.
//
//   die run | die init      as a PE        die id      prints an id for a job over TCP
//   die crash               the same as run, by a kernel
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "peal/peal.h"

namespace {

PEAL_KERNEL wait_for_ever(peal::Context ctx, uint64_t* word, peal::Status* ended) {
  *ended = wait_until(ctx, word, peal::Compare::kEq, 99);
}

PEAL_KERNEL crash(volatile uint64_t* nowhere) {
  if (peal::thread_in_block() == 2) *nowhere = 1;
}

int live(const std::string& when) {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (when == "init" && rank != nullptr && std::string(rank) == "1") raise(SIGKILL);
  peal::Runtime pe = peal::start();
  auto* const word = pe.allocate<uint64_t>(1);
  if (pe.my_pe() == 1 && when == "crash") {
    peal::launch({.blocks = 1, .threads = 4}, crash, reinterpret_cast<uint64_t*>(8)).wait();
  }
  if (pe.my_pe() == 1) raise(SIGKILL);
  peal::Status ended{};
  peal::launch({}, wait_for_ever, pe.context(), word, &ended).wait();
  std::fprintf(stderr, "the wait of PE %d ended: %s\n", pe.my_pe(), to_string(ended));
  pe.check();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return peal::run_main([&] {
    const std::string when = argc > 1 ? argv[1] : "";
    if (when != "id") return live(when);
    std::puts(peal::bootstrap::make_unique_id().to_string().c_str());
    return 0;
  });
}

// SPDX-License-Identifier: Apache-2.0
//
// Planted mistakes: small jobs of two PEs or more whose kernels have one mistake each, and what
// peal must say about it. One table for CPUs (planted_test.cc) and GPUs (tests/gpu/mistakes.cu);
// docs/debugging.md lists it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "peal/peal.h"

namespace peal::planted {

/// What plants use of the symmetric heap: allocated for each anew.
struct Memory {
  std::byte* block;   // 100 bytes
  std::byte* beside;  // 4096 bytes, the next block
  uint64_t* words;    // 16, zero
};

struct Plant {
  std::string kernel;                                // the name of the kernel with the mistake
  std::vector<std::string> parts;                    // of the sentence about it
  std::function<void(Runtime&, const Memory&)> run;  // on every PE
  bool by_nic = false;                               // true: there must be a NIC between the PEs
  bool frees = false;                                // true: it gives Memory::block back
  bool on_gpu = true;                                // false: a GPU cannot tell
};
using Plants = std::vector<Plant>;

/// PE 0 alone launches; all meet.
inline std::function<void(Runtime&, const Memory&)> on_first(const Grid& grid,
                                                             void (*kernel)(Context, Memory)) {
  return [=](Runtime& pe, const Memory& memory) {
    if (pe.my_pe() == 0) launch(grid, kernel, pe.context(), memory).wait();
  };
}

/// Every PE launches a kernel with the team of all.
inline std::function<void(Runtime&, const Memory&)> on_all(const Grid& grid,
                                                           void (*kernel)(Context, Team, Memory)) {
  return [=](Runtime& pe, const Memory& memory) {
    launch(grid, kernel, pe.context(), pe.world(), memory).wait();
  };
}

/// PE 0 alone does: its first scope waits for the others until its deadline, so that the second
/// one finds it there.
inline std::function<void(Runtime&, const Memory&)> on_first(const Grid& grid,
                                                             void (*kernel)(Context, Team,
                                                                            Memory)) {
  return [=](Runtime& pe, const Memory& memory) {
    if (pe.my_pe() == 0) launch(grid, kernel, pe.context(), pe.world(), memory).wait();
  };
}

}  // namespace peal::planted

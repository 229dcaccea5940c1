// SPDX-License-Identifier: Apache-2.0
//
// The grids of the process, for a debugger: `peal lanes` and `peal lane` of simt/gdb. Kept in
// every build; a switch between lanes knows nothing of it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/debug_list.h"
#include "simt/lanes/block.h"
#include "simt/lanes/dim3.h"

namespace peal::simt {

/// The list; the script finds it by this name.
extern "C" DebugList peal_debug_grids;

/// The script, which lies in the section where gdb looks for scripts. Named here so that it is part
/// of every program that runs lanes.
extern "C" const char* const peal_debug_script;

/// What is listed of a grid.
struct DebugGrid {
  uint64_t number;  // of the process's grids, from 1
  Dim3 blocks;
  Dim3 threads;
  const ResidentBlocks* residents;  // one for each worker
  uint64_t worker_count;
  const void* begun;  // how many blocks have begun, in 8 bytes; more than there are: all
};

/// Lists a grid from show() on, while it lives.
class ListedGrid {
 public:
  ListedGrid() = default;

  /// `residents` and `begun` must outlive it.
  void show(const Dim3& blocks, const Dim3& threads, const std::vector<ResidentBlocks>& residents,
            const void* begun);
  void hide() { item_.reset(); }

 private:
  DebugGrid grid_{};
  std::optional<DebugItem> item_;
};

}  // namespace peal::simt

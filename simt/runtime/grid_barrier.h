// SPDX-License-Identifier: Apache-2.0
//
// Where all lanes of a grid meet, in kernels that were started for that.
#pragma once

#include <cstdint>

#include "simt/simulation/threads.h"

namespace peal::simt::cuda {

/// For the lanes of one grid, which may run again once it has ended.
class GridBarrier {
 public:
  explicit GridBarrier(uint64_t lanes) : lanes_(lanes), expected_(lanes) {}

  /// This lane takes part for as long as it lives.
  class Member {
   public:
    explicit Member(GridBarrier& barrier);
    ~Member() { barrier_.leave(); }
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

   private:
    GridBarrier& barrier_;
  };

  /// Returns once every lane that has not ended is here, and orders memory among them.
  void meet();

 private:
  void leave();
  void open_if_complete();

  Mutex mutex_;  // guards what follows
  uint64_t lanes_;
  uint64_t expected_;  // have not ended
  uint64_t arrived_ = 0;
  uint64_t meetings_ = 0;
};

}  // namespace peal::simt::cuda

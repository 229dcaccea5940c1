// SPDX-License-Identifier: Apache-2.0
//
// Which lane of a worker runs next: the one that has waited longest. All of simt's scheduling
// policy is this class; another order is another class with these three functions.
#pragma once

#include <cstddef>

namespace peal::simt {

struct Lane;

/// A queue of ready lanes, linked through Lane::next.
class RoundRobin {
 public:
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  void push(Lane& lane);
  /// Requires !empty().
  Lane& pop();

 private:
  Lane* first_ = nullptr;
  Lane* last_ = nullptr;
  size_t count_ = 0;
};

}  // namespace peal::simt

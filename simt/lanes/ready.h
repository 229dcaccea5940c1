// SPDX-License-Identifier: Apache-2.0
//
// Which lanes can run, and which of them is next: the one that has waited longest, or, in a
// simulation, whichever the seed says. All of simt's scheduling policy is this class,
// Worker::next() and Simulation::choose().
#pragma once

#include <cstddef>
#include <vector>

namespace peal::simt {

struct Lane;

/// Ready lanes in the order they became ready, linked through Lane::next; or, when a bag is given,
/// in it, to be taken in any order.
class Ready {
 public:
  Ready() = default;
  explicit Ready(std::vector<Lane*>* bag) : bag_(bag) {}

  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  void push(Lane& lane);
  /// The one that has waited longest. Requires !empty() and no bag.
  Lane& pop();

 private:
  Lane* first_ = nullptr;
  Lane* last_ = nullptr;
  size_t count_ = 0;
  std::vector<Lane*>* bag_ = nullptr;
};

}  // namespace peal::simt

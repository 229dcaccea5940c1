// SPDX-License-Identifier: Apache-2.0
//
// cooperative_groups/scan.h: prefix sums over the members of a tile or of coalesced threads.
#pragma once

#include "simt/runtime/group_reduce.h"
#include "simt/runtime/groups.h"

namespace cooperative_groups {

template <class Group, class T, class Combine = plus<T>>
T inclusive_scan(const Group& group, const T& value, Combine combine = {}) {
  const auto& members = static_cast<const warp_part&>(group);
  T result = value;
  T before = members.shfl(value, 0);
  for (unsigned rank = 1; rank < members.size(); ++rank) {
    const T next = combine(before, members.shfl(value, rank));
    before = next;
    if (rank == members.thread_rank()) result = next;
  }
  return result;
}

/// The first member's result is T().
template <class Group, class T, class Combine = plus<T>>
T exclusive_scan(const Group& group, const T& value, Combine combine = {}) {
  const auto& members = static_cast<const warp_part&>(group);
  const T upto = members.shfl_up(inclusive_scan(group, value, combine), 1);
  return members.thread_rank() == 0 ? T() : upto;
}

}  // namespace cooperative_groups

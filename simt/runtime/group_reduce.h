// SPDX-License-Identifier: Apache-2.0
//
// cooperative_groups::reduce() over a tile or a coalesced group.
#pragma once

#include "simt/runtime/groups.h"

namespace cooperative_groups {

template <class T>
struct plus {
  T operator()(const T& a, const T& b) const { return a + b; }
};
template <class T>
struct less {  ///< the smaller
  T operator()(const T& a, const T& b) const { return b < a ? b : a; }
};
template <class T>
struct greater {  ///< the larger
  T operator()(const T& a, const T& b) const { return a < b ? b : a; }
};
template <class T>
struct bit_and {
  T operator()(const T& a, const T& b) const { return a & b; }
};
template <class T>
struct bit_or {
  T operator()(const T& a, const T& b) const { return a | b; }
};
template <class T>
struct bit_xor {
  T operator()(const T& a, const T& b) const { return a ^ b; }
};

/// `combine` over every member's value, in the order of ranks, the same for each member.
template <class Group, class T, class Combine>
T reduce(const Group& group, const T& value, Combine combine) {
  T result = group.shfl(value, 0);
  const unsigned members = static_cast<const warp_part&>(group).size();
  for (unsigned rank = 1; rank < members; ++rank) result = combine(result, group.shfl(value, rank));
  return result;
}

}  // namespace cooperative_groups

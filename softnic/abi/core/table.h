// SPDX-License-Identifier: Apache-2.0
//
// Tables of two names for one thing, looked up from either side.
#pragma once

#include <cstddef>

namespace peal::softnic::abi {

template <class A, class B>
struct Row {
  A left;
  B right;
};

/// The name on the right of the first row with `left`; `otherwise` where there is none.
template <class A, class B, size_t N>
constexpr B right_of(const Row<A, B> (&table)[N], A left, B otherwise) {
  for (const auto& row : table)
    if (row.left == left) return row.right;
  return otherwise;
}
template <class A, class B, size_t N>
constexpr A left_of(const Row<A, B> (&table)[N], B right, A otherwise) {
  for (const auto& row : table)
    if (row.right == right) return row.left;
  return otherwise;
}

}  // namespace peal::softnic::abi

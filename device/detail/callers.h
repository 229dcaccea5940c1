// SPDX-License-Identifier: Apache-2.0
//
// Who makes a call, for those that look at calls (checked.h).
#pragma once

#include <type_traits>

#include "device/base/scope.h"
#include "device/shared/call_note.h"

namespace peal::detail {

template <class S>
inline constexpr CallScope kScopeOf = AnyGrid<S>                 ? CallScope::kGrid
                                      : std::is_same_v<S, Block> ? CallScope::kBlock
                                      : std::is_same_v<S, Warp>  ? CallScope::kWarp
                                                                 : CallScope::kThread;

/// A scope whose lanes can synchronise: of a grid the block.
template <AnyScope S>
PEAL_DEVICE S lanes_in(S scope) {
  return scope;
}
PEAL_DEVICE Block lanes_in(WholeGrid) { return {}; }

}  // namespace peal::detail

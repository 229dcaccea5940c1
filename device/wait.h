// SPDX-License-Identifier: Apache-2.0
//
// Waiting for words of local symmetric memory that peers change by puts, atomics and signals.
//
// Every wait ends: condition met (kOk), the context's deadline (kTimeout), or the runtime's stop
// word (kPeerLost, kAborted). A lane that saw the value also sees what was put before it in the
// same queue (edge M7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device/base/order.h"
#include "device/base/scope.h"
#include "device/base/spin.h"
#include "device/context.h"

namespace peal {

enum class Compare : uint32_t { kEq, kNe, kGt, kGe, kLt, kLe };

namespace detail {

template <class T>
PEAL_HD bool holds(T seen, Compare compare, T value) {
  switch (compare) {
    case Compare::kEq:
      return seen == value;
    case Compare::kNe:
      return seen != value;
    case Compare::kGt:
      return seen > value;
    case Compare::kGe:
      return seen >= value;
    case Compare::kLt:
      return seen < value;
    case Compare::kLe:
      return seen <= value;
  }
  return false;
}

/// Acquires a 4- or 8-byte integer that the NIC may be writing.
template <class T>
PEAL_HD T acquire_word(const T* word) {
  static_assert(std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  using W = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  return static_cast<T>(load_acquire<Reach::kSystem, Edge::kM7>(reinterpret_cast<const W*>(word)));
}

PEAL_HD Status stop_word(const ContextFields& ctx) {
  return static_cast<Status>(load_relaxed<Reach::kSystem>(ctx.stop));
}

template <class Done>
PEAL_DEVICE Status spin(const ContextFields& ctx, const Done& done) {
  const SpinEnd end =
      spin_until(ctx.timeout_ns, done, [&] { return stop_word(ctx) != Status::kOk; });
  if (end == SpinEnd::kDone) return Status::kOk;
  return end == SpinEnd::kTimedOut ? Status::kTimeout : stop_word(ctx);
}

}  // namespace detail

/// True if *word now satisfies the comparison; never blocks. On true, what was put before the word
/// was written is visible.
template <Reach R, class T>
PEAL_DEVICE bool test(const BasicContext<R>&, const T* word, Compare compare,
                      std::type_identity_t<T> value) {
  relax();
  return detail::holds(detail::acquire_word(word), compare, value);
}

/// Waits until *word satisfies the comparison. All lanes of the scope return together.
template <Reach R, class S, class T>
requires(std::is_same_v<S, Thread> || std::is_same_v<S, Warp> || std::is_same_v<S, Block>)
    [[nodiscard]] PEAL_DEVICE Status wait_until(const BasicContext<R>& ctx, S scope, const T* word,
                                                Compare compare, std::type_identity_t<T> value) {
  return by_leader(scope, [&] {
    return detail::spin(ctx,
                        [&] { return detail::holds(detail::acquire_word(word), compare, value); });
  });
}

template <Reach R, class T>
[[nodiscard]] PEAL_DEVICE Status wait_until(const BasicContext<R>& ctx, const T* word,
                                            Compare compare, std::type_identity_t<T> value) {
  return wait_until(ctx, thread, word, compare, value);
}

/// `count` words; those with a non-zero entry in `skip` (null: none) are left out.
template <class T>
struct WaitSet {
  const T* words;
  size_t count;
  const int* skip = nullptr;

  PEAL_HD bool takes(size_t i) const { return skip == nullptr || skip[i] == 0; }
  PEAL_HD bool empty() const {
    for (size_t i = 0; i < count; ++i) {
      if (takes(i)) return false;
    }
    return true;
  }
};

inline constexpr size_t kNone = ~size_t{0};

/// True if every word of the set satisfies the comparison (an empty set does).
template <Reach R, class T>
PEAL_DEVICE bool test_all(const BasicContext<R>&, const WaitSet<T>& set, Compare compare,
                          std::type_identity_t<T> value) {
  relax();
  for (size_t i = 0; i < set.count; ++i) {
    if (set.takes(i) && !detail::holds(detail::acquire_word(&set.words[i]), compare, value)) {
      return false;
    }
  }
  return true;
}

/// Index of a word that satisfies the comparison, or kNone.
template <Reach R, class T>
PEAL_DEVICE size_t test_any(const BasicContext<R>&, const WaitSet<T>& set, Compare compare,
                            std::type_identity_t<T> value) {
  relax();
  for (size_t i = 0; i < set.count; ++i) {
    if (set.takes(i) && detail::holds(detail::acquire_word(&set.words[i]), compare, value))
      return i;
  }
  return kNone;
}

/// Fills `indices` with those that satisfy the comparison and returns how many; `indices` has room
/// for set.count.
template <Reach R, class T>
PEAL_DEVICE size_t test_some(const BasicContext<R>&, const WaitSet<T>& set, size_t* indices,
                             Compare compare, std::type_identity_t<T> value) {
  relax();
  size_t found = 0;
  for (size_t i = 0; i < set.count; ++i) {
    if (set.takes(i) && detail::holds(detail::acquire_word(&set.words[i]), compare, value)) {
      indices[found++] = i;
    }
  }
  return found;
}

/// Waits until every word of the set has satisfied the comparison once. One deadline for all.
template <Reach R, class T>
[[nodiscard]] PEAL_DEVICE Status wait_until_all(const BasicContext<R>& ctx, const WaitSet<T>& set,
                                                Compare compare, std::type_identity_t<T> value) {
  size_t next = 0;
  return detail::spin(ctx, [&] {
    for (; next < set.count; ++next) {
      if (!set.takes(next)) continue;
      if (!detail::holds(detail::acquire_word(&set.words[next]), compare, value)) return false;
    }
    return true;
  });
}

/// Which word(s) ended a wait. `index` is kNone (or `count` 0) when the set was empty or the wait
/// failed.
struct WaitAny {
  Status status;
  size_t index;
};
struct WaitSome {
  Status status;
  size_t count;
};

/// Waits until one word of the set satisfies the comparison.
template <Reach R, class T>
[[nodiscard]] PEAL_DEVICE WaitAny wait_until_any(const BasicContext<R>& ctx, const WaitSet<T>& set,
                                                 Compare compare, std::type_identity_t<T> value) {
  WaitAny answer{Status::kOk, kNone};
  if (set.empty()) return answer;
  answer.status = detail::spin(ctx, [&] {
    answer.index = test_any(ctx, set, compare, value);
    return answer.index != kNone;
  });
  return answer;
}

/// Waits until at least one word satisfies the comparison; fills `indices` with all that do.
template <Reach R, class T>
[[nodiscard]] PEAL_DEVICE WaitSome wait_until_some(const BasicContext<R>& ctx,
                                                   const WaitSet<T>& set, size_t* indices,
                                                   Compare compare, std::type_identity_t<T> value) {
  WaitSome answer{Status::kOk, 0};
  if (set.empty()) return answer;
  answer.status = detail::spin(ctx, [&] {
    answer.count = test_some(ctx, set, indices, compare, value);
    return answer.count != 0;
  });
  return answer;
}

}  // namespace peal

// SPDX-License-Identifier: Apache-2.0
//
// Waiting for words of local symmetric memory that peers change by puts, atomics and signals.
//
// Every wait ends: condition met (kOk), the context's deadline (kTimeout), or the runtime's stop
// word (kPeerLost, kAborted). A lane that saw the value also sees what was put before it in the
// same queue (kWordBeforeWait).
#pragma once

#include <cstddef>
#include <type_traits>

#include "device/base/scope.h"
#include "device/context.h"
#include "device/detail/checked.h"
#include "device/detail/wait.h"
#include "device/types.h"

namespace peal {

/// True if *word now satisfies the comparison; never blocks. On true, what was put before the word
/// was written is visible.
template <Reach R, class T>
PEAL_DEVICE bool test(const BasicContext<R>& ctx, const T* word, Compare compare,
                      std::type_identity_t<T> value) {
  relax();
  return detail::checked_look(
      ctx, [&] { return detail::note_of_words(Call::kTest, ctx, word); },
      [&] { return detail::word_holds(word, compare, value); });
}

/// Waits until *word satisfies the comparison. All lanes of the scope return together.
template <Reach R, AnyScope S, class T>
[[nodiscard]] PEAL_DEVICE Status wait_until(const BasicContext<R>& ctx, S scope, const T* word,
                                            Compare compare, std::type_identity_t<T> value) {
  const auto note = [&] {
    return detail::note_of_words(Call::kWaitUntil, ctx, word, 1, static_cast<uint64_t>(value));
  };
  return detail::checked(ctx, scope, note, [&] {
    return by_leader(scope, [&] {
      return detail::spin(
          ctx, [&] { return detail::word_holds(word, compare, value); },
          [&] { return detail::wait_for_word<T>(WaitKind::kWord, word, compare, value); });
    });
  });
}

template <Reach R, class T>
[[nodiscard]] PEAL_DEVICE Status wait_until(const BasicContext<R>& ctx, const T* word,
                                            Compare compare, std::type_identity_t<T> value) {
  return wait_until(ctx, thread, word, compare, value);
}

/// Says that the kernel has looked at `status` and knows what to do: check() and failure() then do
/// not tell of the waits of the calling block that ended with it. Returns `status`.
///
///   while (handled(ctx, wait_until(ctx, word, Compare::kGe, 1)) == Status::kTimeout) { ... }
template <Reach R>
[[nodiscard]] PEAL_DEVICE Status handled(const BasicContext<R>& ctx, Status status) {
  if (status != Status::kOk) forget_waits(ctx.state->waits, static_cast<uint32_t>(status));
  return status;
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

/// What the words of a WaitSet<T> are compared with: one value, or an array with one for each word
/// (those of words that are left out are not read).
template <class V, class T>
concept ValuesFor = std::is_convertible_v<V, T> || std::is_convertible_v<V, const T*>;

namespace detail {

/// True if word `i` of the set satisfies the comparison now.
template <class T, class V>
PEAL_DEVICE bool holds_at(const WaitSet<T>& set, size_t i, Compare compare, const V& values) {
  if constexpr (std::is_convertible_v<V, T>) {
    return word_holds(&set.words[i], compare, static_cast<T>(values));
  } else {
    return word_holds(&set.words[i], compare, static_cast<const T*>(values)[i]);
  }
}

/// The wait for word `i` of the set.
template <class T, class V>
PEAL_DEVICE Wait wait_at(const WaitSet<T>& set, size_t i, Compare compare, const V& values) {
  if constexpr (std::is_convertible_v<V, T>) {
    return wait_for_word<T>(WaitKind::kWord, &set.words[i], compare, static_cast<T>(values));
  } else {
    return wait_for_word<T>(WaitKind::kWord, &set.words[i], compare,
                            static_cast<const T*>(values)[i]);
  }
}

/// The first word that the set takes.
template <class T>
PEAL_DEVICE size_t first_of(const WaitSet<T>& set) {
  size_t first = 0;
  while (!set.takes(first)) ++first;
  return first;
}

/// The first word from `from` on for which the comparison holds (or does not), or set.count.
template <bool kHolds, class T, class V>
PEAL_DEVICE size_t next_of(const WaitSet<T>& set, size_t from, Compare compare, const V& values) {
  while (from < set.count && !(set.takes(from) && holds_at(set, from, compare, values) == kHolds)) {
    ++from;
  }
  return from;
}

/// Fills `indices` with those for which it holds; how many.
template <class T, class V>
PEAL_DEVICE size_t all_of(const WaitSet<T>& set, size_t* indices, Compare compare,
                          const V& values) {
  size_t found = 0;
  for (size_t i = 0; (i = next_of<true>(set, i, compare, values)) < set.count; ++i) {
    indices[found++] = i;
  }
  return found;
}

/// The call's note.
template <class T>
PEAL_HD CallNote note_of_set(Call call, const ContextFields& ctx, const WaitSet<T>& set) {
  return note_of_words(call, ctx, set.words, set.count);
}

}  // namespace detail

/// True if every word of the set satisfies the comparison (an empty set does).
template <Reach R, class T, ValuesFor<T> V>
PEAL_DEVICE bool test_all(const BasicContext<R>& ctx, const WaitSet<T>& set, Compare compare,
                          V values) {
  relax();
  return detail::checked_look(
      ctx, [&] { return detail::note_of_set(Call::kTestAll, ctx, set); },
      [&] { return detail::next_of<false>(set, 0, compare, values) == set.count; });
}

/// Index of a word that satisfies the comparison, or kNone.
template <Reach R, class T, ValuesFor<T> V>
PEAL_DEVICE size_t test_any(const BasicContext<R>& ctx, const WaitSet<T>& set, Compare compare,
                            V values) {
  relax();
  size_t first = kNone;
  detail::checked_look(
      ctx, [&] { return detail::note_of_set(Call::kTestAny, ctx, set); },
      [&] {
        const size_t found = detail::next_of<true>(set, 0, compare, values);
        if (found != set.count) first = found;
        return first != kNone;
      });
  return first;
}

/// Fills `indices` with those that satisfy the comparison and returns how many; `indices` has room
/// for set.count.
template <Reach R, class T, ValuesFor<T> V>
PEAL_DEVICE size_t test_some(const BasicContext<R>& ctx, const WaitSet<T>& set, size_t* indices,
                             Compare compare, V values) {
  relax();
  return detail::checked_look(
      ctx, [&] { return detail::note_of_set(Call::kTestSome, ctx, set); },
      [&] { return detail::all_of(set, indices, compare, values); });
}

/// Waits until every word of the set has satisfied the comparison once. One deadline for all.
template <Reach R, class T, ValuesFor<T> V>
[[nodiscard]] PEAL_DEVICE Status wait_until_all(const BasicContext<R>& ctx, const WaitSet<T>& set,
                                                Compare compare, V values) {
  const auto note = [&] { return detail::note_of_set(Call::kWaitUntilAll, ctx, set); };
  return detail::checked(ctx, thread, note, [&] {
    size_t next = 0;
    return detail::spin(
        ctx,
        [&] {
          next = detail::next_of<false>(set, next, compare, values);
          return next == set.count;
        },
        [&] { return next < set.count ? detail::wait_at(set, next, compare, values) : Wait{}; });
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
template <Reach R, class T, ValuesFor<T> V>
[[nodiscard]] PEAL_DEVICE WaitAny wait_until_any(const BasicContext<R>& ctx, const WaitSet<T>& set,
                                                 Compare compare, V values) {
  WaitAny answer{Status::kOk, kNone};
  if (set.empty()) return answer;
  const auto note = [&] { return detail::note_of_set(Call::kWaitUntilAny, ctx, set); };
  answer.status = detail::checked(ctx, thread, note, [&] {
    return detail::spin(
        ctx,
        [&] {
          const size_t found = detail::next_of<true>(set, 0, compare, values);
          if (found != set.count) answer.index = found;
          return answer.index != kNone;
        },
        [&] { return detail::wait_at(set, detail::first_of(set), compare, values); });
  });
  return answer;
}

/// Waits until at least one word satisfies the comparison; fills `indices` with all that do.
template <Reach R, class T, ValuesFor<T> V>
[[nodiscard]] PEAL_DEVICE WaitSome wait_until_some(const BasicContext<R>& ctx,
                                                   const WaitSet<T>& set, size_t* indices,
                                                   Compare compare, V values) {
  WaitSome answer{Status::kOk, 0};
  if (set.empty()) return answer;
  const auto note = [&] { return detail::note_of_set(Call::kWaitUntilSome, ctx, set); };
  answer.status = detail::checked(ctx, thread, note, [&] {
    return detail::spin(
        ctx,
        [&] {
          answer.count = detail::all_of(set, indices, compare, values);
          return answer.count != 0;
        },
        [&] { return detail::wait_at(set, detail::first_of(set), compare, values); });
  });
  return answer;
}

}  // namespace peal

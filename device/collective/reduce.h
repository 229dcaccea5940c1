// SPDX-License-Identifier: Apache-2.0
//
// Long reductions. The elements are dealt to the members, and each works its share out from all
// sources and stores it where it is wanted: at all members, at the root, at itself, or at member i
// what the first i make (a scan). An element has one owner, who reads it everywhere before it
// stores it anywhere: source and destination may be the same.
//
// The order is that of the members, at every size and on every way: the result of a sum of floats
// depends on nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "device/base/order.h"
#include "device/collective/call.h"
#include "device/collective/move.h"
#include "device/detail/words.h"
#include "device/reduce_op.h"

namespace peal::collective {

/// Which call it is; of reduce, which member has the result.
struct Wanted {
  Call call;
  uint32_t root;
};

/// A reduction of `count` elements of `T` from src + `from` to dst + `to`, of which this PE is the
/// owner.
template <class T>
struct Owned {
  T* dst;
  const T* src;
  uint64_t from;
  uint64_t to;
  uint64_t count;

  PEAL_DEVICE Owned<std::byte> in_bytes() const {
    return {reinterpret_cast<std::byte*>(dst), reinterpret_cast<const std::byte*>(src),
            from * sizeof(T), to * sizeof(T), count * sizeof(T)};
  }
};

/// The elements of one line, worked out.
template <class T, class Op, uint32_t N>
class Folded {
 public:
  using Acc = typename Accumulated<T>::Type;
  PEAL_DEVICE void set(const T* values) {
    PEAL_UNROLL
    for (uint32_t i = 0; i < N; ++i) acc_[i] = Accumulated<T>::from(values[i]);
  }
  PEAL_DEVICE void add(const T* values) {
    PEAL_UNROLL
    for (uint32_t i = 0; i < N; ++i) acc_[i] = Op{}(acc_[i], Accumulated<T>::from(values[i]));
  }
  PEAL_DEVICE void get(T* values) const {
    PEAL_UNROLL
    for (uint32_t i = 0; i < N; ++i) values[i] = Accumulated<T>::to(acc_[i]);
  }

 private:
  Acc acc_[N];
};

/// Members whose elements are loaded at once: what is under way hides how far they are.
inline constexpr uint32_t kLoads = 8;

template <class T>
inline constexpr uint32_t kPerLine = sizeof(Line) / sizeof(T);

/// N elements of type T as they lie in memory: 16 bytes, or one.
template <class T, uint32_t N>
struct Elements {
  T value[N];
  PEAL_DEVICE void load(const T* from) {
    if constexpr (N * sizeof(T) == sizeof(Line)) {
      const Line line = load_line_direct(from);
      memcpy(static_cast<void*>(value), &line, sizeof(line));
    } else {
      using Word = detail::Word<sizeof(T)>;
      const Word word = load_direct(reinterpret_cast<const Word*>(from));
      memcpy(static_cast<void*>(value), &word, sizeof(word));
    }
  }
  PEAL_DEVICE void store(T* to) const {
    if constexpr (N * sizeof(T) == sizeof(Line)) {
      Line line;
      memcpy(&line, static_cast<const void*>(value), sizeof(line));
      store_line(to, line);
    } else {
      detail::Word<sizeof(T)> word;
      memcpy(&word, static_cast<const void*>(value), sizeof(word));
      store_payload(reinterpret_cast<detail::Word<sizeof(T)>*>(to), word);
    }
  }
};

/// Works out the N elements at `at` of the owner's share.
template <Call kCall, class T, class Op, uint32_t N, Reach R>
PEAL_DEVICE void reduce_at(const TeamCall<R>& call, const Owned<T>& owned, uint64_t at,
                           uint32_t root) {
  Folded<T, Op, N> folded{};
  Elements<T, N> result{};
  T* const dst = owned.dst + owned.to + at;
  const T* const src = owned.src + owned.from + at;
  for (uint32_t first = 0; first < call.members(); first += kLoads) {
    Elements<T, N> seen[kLoads] = {};
    PEAL_UNROLL
    for (uint32_t k = 0; k < kLoads; ++k) {
      if (first + k < call.members()) seen[k].load(call.at(first + k, src));
    }
    PEAL_UNROLL
    for (uint32_t k = 0; k < kLoads; ++k) {
      const uint32_t member = first + k;
      if (member >= call.members()) continue;
      if (kCall == Call::kExclusiveScan && member != 0) {
        folded.get(result.value);
        result.store(call.at(member, dst));
      }
      if (member == 0) {
        folded.set(seen[k].value);
      } else {
        folded.add(seen[k].value);
      }
      if (kCall == Call::kScan) {
        folded.get(result.value);
        result.store(call.at(member, dst));
      }
    }
  }
  if constexpr (is_scan(kCall)) return;
  folded.get(result.value);
  if constexpr (kCall == Call::kAllReduce) {
    for (uint32_t i = 0; i < call.members(); ++i) {
      result.store(call.at(call.after(i), dst));
    }
  } else {
    const uint32_t to = kCall == Call::kReduce ? root : call.rank();
    result.store(call.at(to, dst));
  }
}

/// All of the share, by the lanes of the group: in lines where both ends allow it.
template <Call kCall, class T, class Op, Reach R, class S>
PEAL_DEVICE void reduce_mapped(const TeamCall<R>& call, S scope, const Owned<T>& owned,
                               uint32_t root) {
  const uint64_t ends = reinterpret_cast<uint64_t>(owned.dst + owned.to) |
                        reinterpret_cast<uint64_t>(owned.src + owned.from);
  uint64_t lines = 0;
  if (ends % sizeof(Line) == 0) lines = owned.count / kPerLine<T>;
  for (uint64_t i = scope.rank(); i < lines; i += scope.size()) {
    reduce_at<kCall, T, Op, kPerLine<T>>(call, owned, i * kPerLine<T>, root);
  }
  for (uint64_t i = lines * kPerLine<T> + scope.rank(); i < owned.count; i += scope.size()) {
    reduce_at<kCall, T, Op, 1>(call, owned, i, root);
  }
}

}  // namespace peal::collective

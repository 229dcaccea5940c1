// SPDX-License-Identifier: Apache-2.0
//
// Reductions as calls (run.h): all_reduce, reduce, reduce_scatter and scans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "device/collective/exchange.h"
#include "device/collective/operations.h"
#include "device/collective/reduce.h"
#include "device/collective/staging.h"

namespace peal::collective {

/// What member `rank` is the owner of, of `count` elements.
template <class T>
PEAL_DEVICE Owned<T> share_of(T* dst, const T* src, uint64_t count, uint32_t rank,
                              uint32_t members) {
  const uint64_t lines = (count + kPerLine<T> - 1) / kPerLine<T>;
  const uint64_t each = (lines + members - 1) / members * kPerLine<T>;
  const uint64_t from = each * rank < count ? each * rank : count;
  return {dst, src, from, from, count - from < each ? count - from : each};
}

template <Result kResult, class T, class Op>
struct Reduction {
  static_assert(kReducible<T>,
                "reductions are of integers up to 8 bytes, Half, BFloat16, float "
                "and double");
  T* dst;
  const T* src;
  uint64_t count;
  int to;

  PEAL_DEVICE int root() const { return to; }
  PEAL_DEVICE uint64_t bytes() const { return count * sizeof(T); }
  PEAL_DEVICE uint32_t signature(const Window& heap) const {
    // In place each member's destination of a reduce_scatter is another part of the object.
    const void* const agreed = kResult == Result::kOwner ? static_cast<const void*>(src) : dst;
    return signature_of(Kind::kReduce, heap, agreed, src)
        .with(count)
        .with(static_cast<uint64_t>(to) << 8 | static_cast<uint64_t>(kResult) << 4 | sizeof(T))
        .value();
  }

  template <Reach R, AnyScope S>
  PEAL_DEVICE Status brief(const Call<R>& call, S lanes) const {
    uint32_t last = call.members() - 1;
    bool wanted = true;
    if (kResult == Result::kInclusive) last = call.rank();
    if (kResult == Result::kExclusive) {
      wanted = call.rank() != 0;
      last = wanted ? call.rank() - 1 : 0;
    }
    if (kResult == Result::kRoot) wanted = call.team.rank == to;
    return exchange_all(call, lanes, bytes(), Short{*this, last, wanted});
  }
  template <Reach R, class S>
  PEAL_DEVICE Status mapped(const Call<R>& call, S group) const {
    reduce_mapped<kResult, T, Op>(call, group, owned(call), static_cast<uint32_t>(to));
    return Status::kOk;
  }
  template <Reach R, AnyScope S>
  PEAL_DEVICE Status by_nic(const Call<R>& call, S lanes) const {
    return reduce_staged(
        call, lanes, owned(call).in_bytes(), Wanted{kResult, static_cast<uint32_t>(to)},
        [&](uint64_t bytes) { fold_staged<kResult, T, Op>(call, lanes, bytes / sizeof(T)); });
  }

 private:
  template <Reach R>
  PEAL_DEVICE Owned<T> owned(const Call<R>& call) const {
    if (kResult == Result::kOwner) return {dst, src, count * call.rank(), 0, count};
    return share_of(dst, src, count, call.rank(), call.members());
  }

  /// Every member sends all its elements to all, or of a reduce_scatter to their owner.
  struct Short {
    const Reduction& of;
    uint32_t last;  // of the members whose elements count
    bool wanted;    // here

    PEAL_DEVICE uint64_t given(uint32_t member, uint32_t unit) const {
      const uint64_t first = kResult == Result::kOwner ? member * of.count : 0;
      return load_unit(of.src + first, of.bytes(), unit);
    }
    struct Taking {
      static constexpr uint32_t kElements = kUnit / sizeof(T);
      const Short& in;
      uint32_t unit;
      Folded<T, Op, kElements> folded;
      PEAL_DEVICE void take(uint32_t member, uint64_t value) {
        if (member > in.last) return;
        T values[kElements];
        memcpy(static_cast<void*>(values), &value, sizeof(value));
        if (member == 0) {
          folded.set(values);
        } else {
          folded.add(values);
        }
      }
      PEAL_DEVICE void done() const {
        if (!in.wanted) return;
        T values[kElements];
        folded.get(values);
        uint64_t value;
        memcpy(&value, static_cast<const void*>(values), sizeof(value));
        store_unit(in.of.dst, in.of.bytes(), unit, value);
      }
    };
    PEAL_DEVICE Taking taking(uint32_t unit) const { return {*this, unit, {}}; }
  };
};

template <Result kResult, class Op, Reach R, class S, class T>
PEAL_DEVICE Status reduce(const BasicContext<R>& ctx, S scope, const Team& team, T* dst,
                          const T* src, size_t count, int root) {
  return run(ctx, scope, team, Reduction<kResult, T, Op>{dst, src, count, root});
}

}  // namespace peal::collective

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
#include "device/shared/algorithms.h"

namespace peal::collective {

/// What the result at a member is made of: the elements of members up to `last`.
struct Terms {
  uint32_t last;
  bool wanted;
};

template <Reach R>
PEAL_DEVICE Terms terms_of(const TeamCall<R>& call, const Wanted& wanted) {
  const uint32_t rank = call.rank();
  if (wanted.call == Call::kScan) return {rank, true};
  if (wanted.call == Call::kExclusiveScan) return {rank != 0 ? rank - 1 : 0, rank != 0};
  return {call.members() - 1, wanted.call != Call::kReduce || rank == wanted.root};
}

/// Works `count` elements at `dst` out of those of members up to `last`, which a meeting has
/// carried: member 0's lie at `from`.
template <class T, class Op, AnyScope S>
PEAL_DEVICE void fold_carried(S lanes, const Cargo& cargo, const std::byte* from, uint32_t last,
                              T* dst, uint64_t count) {
  for (uint64_t e = lanes.rank(); e < count; e += lanes.size()) {
    Folded<T, Op, 1> folded{};
    T value{};
    for (uint32_t i = 0; i <= last; ++i) {
      value = load_payload(reinterpret_cast<const T*>(from + cargo.place(i)) + e);
      if (i == 0) {
        folded.set(&value);
      } else {
        folded.add(&value);
      }
    }
    folded.get(&value);
    store_payload(dst + e, value);
  }
}

/// What is reduced and how, in a number: for members to compare.
template <class T, class Op>
PEAL_HD constexpr uint32_t code_of() {
  constexpr uint32_t kOp = std::is_same_v<Op, op::Sum>       ? 1
                           : std::is_same_v<Op, op::Product> ? 2
                           : std::is_same_v<Op, op::Min>     ? 3
                           : std::is_same_v<Op, op::Max>     ? 4
                           : std::is_same_v<Op, op::And>     ? 5
                           : std::is_same_v<Op, op::Or>      ? 6
                                                             : 7;
  constexpr uint32_t kType = std::is_same_v<T, Half>       ? 1
                             : std::is_same_v<T, BFloat16> ? 2
                             : std::is_floating_point_v<T> ? 3
                             : std::is_signed_v<T>         ? 4
                                                           : 5;
  return kOp << 8 | kType << 4 | static_cast<uint32_t>(sizeof(T));
}

template <Call kWhich, class T, class Op>
struct Reduction {
  static constexpr Call kCall = kWhich;
  static_assert(kReducible<T>,
                "reductions are of integers up to 8 bytes, Half, BFloat16, float "
                "and double");
  T* dst;
  const T* src;
  uint64_t count;
  int to;

  PEAL_DEVICE static Call which() { return kCall; }
  PEAL_DEVICE int root() const { return to; }
  PEAL_DEVICE uint64_t bytes() const { return scaled_by<sizeof(T)>(count); }
  PEAL_DEVICE bool in_place() const { return dst == src; }
  template <Reach R>
  PEAL_DEVICE bool has_room(const TeamCall<R>& call) const {
    return destination_holds<T>(call, count);
  }
  template <Reach R>
  PEAL_DEVICE bool has_long_shares(const TeamCall<R>& call) const {
    return longest_share<T>(call, count) > piece_bytes(call) / sizeof(T);
  }
  PEAL_DEVICE Spans spans(uint32_t members) const {
    constexpr At kStored = kCall == Call::kReduceScatter ? At::kHere
                           : kCall == Call::kReduce      ? At::kRoot
                                                         : At::kAll;
    return {{dst, bytes(), kStored},
            blocks_at(src, bytes(), kCall == Call::kReduceScatter ? members : 1u, At::kAll)};
  }
  PEAL_DEVICE Signature signature(const ContextFields& ctx) const {
    // In place each member's destination of a reduce_scatter is another part of the object.
    const void* const agreed = kCall == Call::kReduceScatter ? static_cast<const void*>(src) : dst;
    return signature_of(kCall, ctx, agreed, src)
        .with(count)
        .with(static_cast<uint64_t>(to) << 32 | code_of<T, Op>());
  }

  template <Reach R, class S>
  PEAL_DEVICE Status brief(const TeamCall<R>& call, S group, uint32_t signature) const {
    return exchange_all(call, group, {bytes(), signature}, Short{*this, terms_of(call, wanted())});
  }
  template <Reach R, class S>
  PEAL_DEVICE Status mapped(const TeamCall<R>& call, S group, Algorithm) const {
    reduce_mapped<kCall, T, Op>(call, group, owned(call), static_cast<uint32_t>(to));
    return Status::kOk;
  }
  /// In a reduce_scatter each member gets the blocks of all: a few bytes more cost less than
  /// rounds.
  PEAL_DEVICE Cargo cargo(uint32_t members) const {
    const uint64_t blocks = kCall == Call::kReduceScatter ? members : 1;
    return {reinterpret_cast<const std::byte*>(src), blocks * bytes()};
  }
  template <Reach R, AnyScope S>
  PEAL_DEVICE void take(const TeamCall<R>& call, S lanes, const Cargo& cargo,
                        const std::byte* set) const {
    const Terms terms = terms_of(call, wanted());
    const std::byte* const from = set + (kCall == Call::kReduceScatter ? call.rank() * bytes() : 0);
    if (terms.wanted) fold_carried<T, Op>(lanes, cargo, from, terms.last, dst, count);
  }
  template <Reach R, AnyScope S>
  PEAL_DEVICE Status by_nic(const TeamCall<R>& call, S lanes,
                            [[maybe_unused]] Algorithm algorithm) const {
    if constexpr (kCall == Call::kAllReduce) {
      if (algorithm == Algorithm::kInDestination) {
        return reduce_in_destination<T, Op>(call, lanes, dst, src, count);
      }
    }
    return reduce_staged(call, lanes, owned(call).in_bytes(), wanted(), [&](uint64_t bytes) {
      fold_staged<kCall, T, Op>(call, lanes, bytes / sizeof(T));
    });
  }

 private:
  PEAL_DEVICE Wanted wanted() const { return {kCall, static_cast<uint32_t>(to)}; }
  template <Reach R>
  PEAL_DEVICE Owned<T> owned(const TeamCall<R>& call) const {
    if (kCall == Call::kReduceScatter) return {dst, src, count * call.rank(), 0, count};
    const Share share = Share::of(count, kPerLine<T>, call.rank(), call.members());
    return {dst, src, share.at, share.at, share.count};
  }

  /// Every member sends all its elements to all, or of a reduce_scatter to their owner.
  struct Short {
    const Reduction& of;
    Terms terms;

    PEAL_DEVICE uint64_t given(uint32_t member, uint32_t unit) const {
      const uint64_t first = kCall == Call::kReduceScatter ? member * of.count : 0;
      return load_unit(of.src + first, of.bytes(), unit);
    }
    struct Taking {
      static constexpr uint32_t kElements = kUnit / sizeof(T);
      const Short& in;
      uint32_t unit;
      Folded<T, Op, kElements> folded;
      PEAL_DEVICE void take(uint32_t member, uint64_t value) {
        if (member > in.terms.last) return;
        T values[kElements];
        memcpy(static_cast<void*>(values), &value, sizeof(value));
        if (member == 0) {
          folded.set(values);
        } else {
          folded.add(values);
        }
      }
      PEAL_DEVICE void done() const {
        if (!in.terms.wanted) return;
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

template <Call kCall, class Op, Reach R, class S, class T>
PEAL_DEVICE Status reduce(const BasicContext<R>& ctx, S scope, const Team& team, T* dst,
                          const T* src, size_t count, int root) {
  return run(ctx, scope, team, Reduction<kCall, T, Op>{dst, src, count, root});
}

}  // namespace peal::collective

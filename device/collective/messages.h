// SPDX-License-Identifier: Apache-2.0
//
// The collective calls, each in its short and its long form (run.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/collective/run.h"

namespace peal::collective {

/// What moves: `bytes` for each member.
struct Buffers {
  void* dst;
  const void* src;
  uint64_t bytes;

  PEAL_DEVICE std::byte* to(uint64_t block) const {
    return static_cast<std::byte*>(dst) + block * bytes;
  }
  PEAL_DEVICE const std::byte* from(uint64_t block) const {
    return static_cast<const std::byte*>(src) + block * bytes;
  }
};

template <Reach R, class S>
PEAL_DEVICE Status sync(const BasicContext<R>& ctx, S scope, const Team& team, bool drains) {
  const Status usable = check(ctx, team);
  if (usable != Status::kOk) return usable;
  const Call<R> call = begin(ctx, scope, team);
  Status status = Status::kOk;
  if (exchanges(call, scope)) {
    status = by_leader(lanes_of(scope), [&] {
      Status drained = Status::kOk;
      if (drains) {
        drained = detail::drain_all(ctx);
      } else {
        fence_direct_stores<Edge::kM16>();
      }
      const Status met =
          meet(ctx, team, call.part, 0, Signature(static_cast<uint32_t>(Kind::kSync)).value());
      return drained != Status::kOk ? drained : met;
    });
  }
  if constexpr (std::is_same_v<S, WholeGrid>) status = end_of_grid(call, status);
  return status;
}

template <Reach R, class S>
PEAL_DEVICE Status broadcast(const BasicContext<R>& ctx, S scope, const Team& team,
                             const Buffers& buffers, int root) {
  const Status usable = check(ctx, team, root);
  if (usable != Status::kOk || buffers.bytes == 0) return usable;
  const Call<R> call = begin(ctx, scope, team);
  const auto from = static_cast<uint32_t>(root);
  return run(
      call, scope, signature(call, Kind::kBroadcast, buffers.dst, buffers.src, buffers.bytes, from),
      team.mapped != 0 && buffers.bytes <= exchange_limit(call.part),
      [&](auto lanes) {
        return exchange_from(call, lanes, from, buffers.dst, buffers.src, buffers.bytes);
      },
      [&](auto group) {
        return broadcast_long(call, group, from, buffers.to(0), buffers.from(0), buffers.bytes);
      });
}

/// Every member gets this PE's block `member`, or where all get the same, block 0; what member i
/// sends becomes block i.
template <bool kSame>
struct Blocks {
  const Buffers& buffers;
  PEAL_DEVICE uint64_t given(uint32_t member, uint32_t unit) const {
    return load_unit(buffers.from(kSame ? 0 : member), buffers.bytes, unit);
  }
  struct Taking {
    const Buffers& buffers;
    uint32_t unit;
    PEAL_DEVICE void take(uint32_t member, uint64_t value) const {
      store_unit(buffers.to(member), buffers.bytes, unit, value);
    }
    PEAL_DEVICE void done() const {}
  };
  PEAL_DEVICE Taking taking(uint32_t unit) const { return {buffers, unit}; }
};

template <Reach R, class S>
PEAL_DEVICE Status all_gather(const BasicContext<R>& ctx, S scope, const Team& team,
                              const Buffers& buffers) {
  const Status usable = check(ctx, team);
  if (usable != Status::kOk || buffers.bytes == 0) return usable;
  const Call<R> call = begin(ctx, scope, team);
  // In place each PE's source is another part of the object: the members agree on dst.
  return run(
      call, scope, signature(call, Kind::kGather, buffers.dst, buffers.dst, buffers.bytes, 0),
      team.mapped != 0 && buffers.bytes <= exchange_limit(call.part),
      [&](auto lanes) { return exchange_all(call, lanes, buffers.bytes, Blocks<true>{buffers}); },
      [&](auto group) {
        return send_all(
            call, group, buffers.bytes, [&](uint32_t) { return buffers.to(call.rank()); },
            [&](uint32_t) { return buffers.from(0); });
      });
}

template <Reach R, class S>
PEAL_DEVICE Status all_to_all(const BasicContext<R>& ctx, S scope, const Team& team,
                              const Buffers& buffers) {
  const Status usable = check(ctx, team);
  if (usable != Status::kOk || buffers.bytes == 0) return usable;
  const Call<R> call = begin(ctx, scope, team);
  return run(
      call, scope, signature(call, Kind::kAllToAll, buffers.dst, buffers.src, buffers.bytes, 0),
      team.mapped != 0 && buffers.bytes <= exchange_limit(call.part),
      [&](auto lanes) { return exchange_all(call, lanes, buffers.bytes, Blocks<false>{buffers}); },
      [&](auto group) {
        if (buffers.dst != buffers.src) {
          return send_all(
              call, group, buffers.bytes, [&](uint32_t) { return buffers.to(call.rank()); },
              [&](uint32_t member) { return buffers.from(member); });
        }
        if (team.mapped == 0) {
          return swap_all_staged(call, lanes_of(group), buffers.to(0), buffers.bytes);
        }
        swap_all_mapped(call, group, buffers.to(0), buffers.bytes);
        return Status::kOk;
      });
}

/// A short reduction: every member sends all its elements, or to their owner.
template <Result kResult, class T, class Op>
struct Reduction {
  T* dst;
  const T* src;
  uint64_t bytes;
  uint32_t rank;
  uint32_t last;  // of the members whose elements count
  bool wanted;    // here

  PEAL_DEVICE uint64_t given(uint32_t member, uint32_t unit) const {
    const uint64_t block = kResult == Result::kOwner ? member * bytes : 0;
    return load_unit(reinterpret_cast<const std::byte*>(src) + block, bytes, unit);
  }
  struct Taking {
    static constexpr uint32_t kElements = kUnit / sizeof(T);
    const Reduction& of;
    uint32_t unit;
    Folded<T, Op, kElements> folded;
    PEAL_DEVICE void take(uint32_t member, uint64_t value) {
      if (member > of.last) return;
      T values[kElements];
      memcpy(static_cast<void*>(values), &value, sizeof(value));
      if (member == 0) {
        folded.set(values);
      } else {
        folded.add(values);
      }
    }
    PEAL_DEVICE void done() const {
      if (!of.wanted) return;
      T values[kElements];
      folded.get(values);
      uint64_t value;
      memcpy(&value, static_cast<const void*>(values), sizeof(value));
      store_unit(of.dst, of.bytes, unit, value);
    }
  };
  PEAL_DEVICE Taking taking(uint32_t unit) const { return {*this, unit, {}}; }
};

/// What member `rank` is the owner of, of `count` elements.
template <class T>
PEAL_DEVICE Owned<T> share_of(T* dst, const T* src, uint64_t count, uint32_t rank,
                              uint32_t members) {
  const uint64_t lines = (count + kPerLine<T> - 1) / kPerLine<T>;
  const uint64_t each = (lines + members - 1) / members * kPerLine<T>;
  const uint64_t from = each * rank < count ? each * rank : count;
  const uint64_t left = count - from;
  return {dst, src, from, from, left < each ? left : each};
}

template <Result kResult, class Op, class T, Reach R, class S>
PEAL_DEVICE Status reduce(const BasicContext<R>& ctx, S scope, const Team& team, T* dst,
                          const T* src, size_t count, int root) {
  static_assert(kReducible<T>,
                "reductions are of integers up to 8 bytes, Half, BFloat16, float, "
                "double");
  const Status usable = check(ctx, team, root);
  if (usable != Status::kOk || count == 0) return usable;
  const Call<R> call = begin(ctx, scope, team);
  const uint64_t bytes = count * sizeof(T);
  constexpr bool kScatters = kResult == Result::kOwner;
  constexpr bool kExclusive = kResult == Result::kExclusive;
  const auto variant = static_cast<uint32_t>(root) << 8 | static_cast<uint32_t>(kResult) << 4 |
                       static_cast<uint32_t>(sizeof(T));
  const void* const agreed = kScatters ? static_cast<const void*>(src) : dst;
  return run(
      call, scope, signature(call, Kind::kReduce, agreed, src, bytes, variant),
      team.mapped != 0 && bytes <= exchange_limit(call.part),
      [&](auto lanes) {
        const uint32_t rank = call.rank();
        uint32_t last = call.members() - 1;
        if (kResult == Result::kInclusive) last = rank;
        if (kExclusive && rank != 0) last = rank - 1;
        const bool wanted = kResult == Result::kRoot ? team.rank == root : !kExclusive || rank != 0;
        return exchange_all(call, lanes, bytes,
                            Reduction<kResult, T, Op>{dst, src, bytes, rank, last, wanted});
      },
      [&](auto group) {
        Owned<T> owned = share_of(dst, src, count, call.rank(), call.members());
        if (kScatters) owned = {dst, src, count * call.rank(), 0, count};
        if (team.mapped == 0) {
          return reduce_staged<kResult, T, Op>(call, lanes_of(group), owned,
                                               static_cast<uint32_t>(root));
        }
        reduce_mapped<kResult, T, Op>(call, group, owned, static_cast<uint32_t>(root));
        return Status::kOk;
      });
}

}  // namespace peal::collective

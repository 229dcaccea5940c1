// SPDX-License-Identifier: Apache-2.0
//
// Every collective call against a serial reference: what each member has follows from its number
// and an index, so that each works out for itself what all should get.
#pragma once

#include <vector>

#include "device/collectives.h"
#include "tests/support/job.h"

namespace peal::api_test {

enum class Call : uint32_t {
  kBroadcast,
  kGather,
  kAllToAll,
  kAllReduce,
  kReduce,
  kReduceScatter,
  kScan,
  kExclusiveScan,
};
inline constexpr Call kCalls[] = {Call::kBroadcast, Call::kGather,       Call::kAllToAll,
                                  Call::kAllReduce, Call::kReduce,       Call::kReduceScatter,
                                  Call::kScan,      Call::kExclusiveScan};

/// Element `i` of what member `member` has: small, so that sums and products of few are exact.
template <class T>
T element(int member, size_t i) {
  const int small = static_cast<int>((i * 7 + static_cast<size_t>(member) * 3) % 5) + 1;
  if constexpr (std::is_same_v<T, Half>) {
    return to_half(static_cast<float>(small) / 2);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(static_cast<float>(small) / 2);
  } else {
    return static_cast<T>(small);
  }
}

/// One case: which call, how many elements, whether in place, how far into an allocation.
struct Case {
  Call call;
  size_t count;
  bool in_place;
  size_t skew;  // elements
  int root;
};

template <class T, class Op>
T folded(size_t i, int first, int last) {
  typename Accumulated<T>::Type acc = Accumulated<T>::from(element<T>(first, i));
  for (int member = first + 1; member <= last; ++member) {
    acc = Op{}(acc, Accumulated<T>::from(element<T>(member, i)));
  }
  return Accumulated<T>::to(acc);
}

template <class S, class Op, class T>
PEAL_KERNEL call_case(Verdict* verdict, Context ctx, S scope, Team team, Case c, T* dst, T* src) {
  Status status = Status::kOk;
  switch (c.call) {
    case Call::kBroadcast:
      status = broadcast(ctx, scope, team, dst, src, c.count, c.root);
      break;
    case Call::kGather:
      status = all_gather(ctx, scope, team, dst, src, c.count);
      break;
    case Call::kAllToAll:
      status = all_to_all(ctx, scope, team, dst, src, c.count);
      break;
    case Call::kAllReduce:
      status = all_reduce(ctx, scope, team, dst, src, c.count, Op{});
      break;
    case Call::kReduce:
      status = reduce(ctx, scope, team, dst, src, c.count, Op{}, c.root);
      break;
    case Call::kReduceScatter:
      status = reduce_scatter(ctx, scope, team, dst, src, c.count, Op{});
      break;
    case Call::kScan:
      status = scan(ctx, scope, team, dst, src, c.count, Op{});
      break;
    case Call::kExclusiveScan:
      status = exclusive_scan(ctx, scope, team, dst, src, c.count, Op{});
      break;
  }
  expect_ok(verdict, status);
}

/// What member `rank` of `n` finds at dst[k] afterwards; `untouched` where the call leaves it.
template <class T, class Op>
T expected(const Case& c, int rank, int n, size_t k, T untouched) {
  const int block = static_cast<int>(k / c.count);
  switch (c.call) {
    case Call::kBroadcast:
      return element<T>(c.root, k);
    case Call::kGather:
      return element<T>(block, k % c.count);
    case Call::kAllToAll:
      return element<T>(block, k % c.count + static_cast<size_t>(rank) * c.count);
    case Call::kAllReduce:
      return folded<T, Op>(k, 0, n - 1);
    case Call::kReduce:
      return rank == c.root ? folded<T, Op>(k, 0, n - 1) : untouched;
    case Call::kReduceScatter:
      return folded<T, Op>(k + static_cast<size_t>(rank) * c.count, 0, n - 1);
    case Call::kScan:
      return folded<T, Op>(k, 0, rank);
    case Call::kExclusiveScan:
      return rank == 0 ? untouched : folded<T, Op>(k, 0, rank - 1);
  }
  return untouched;
}

inline size_t given_blocks(Call call, int n) {
  return call == Call::kAllToAll || call == Call::kReduceScatter ? static_cast<size_t>(n) : 1;
}
inline size_t taken_blocks(Call call, int n) {
  return call == Call::kAllToAll || call == Call::kGather ? static_cast<size_t>(n) : 1;
}

/// Symmetric memory for cases of up to `count` elements a member, alike on all PEs.
template <class T>
struct CaseMemory {
  CaseMemory(Runtime& runtime, const Team& of, size_t count)
      : pe(runtime),
        team(of),
        room(count * static_cast<size_t>(runtime.n_pes()) + 32),
        dst(runtime, room),
        src(runtime, room) {}
  Runtime& pe;
  Team team;
  size_t room;
  Symmetric<T> dst;
  Symmetric<T> src;
};

template <class S, class Op, class T>
void run_case(CaseMemory<T>& memory, const Grid& grid, const Case& c) {
  const int n = memory.team.size;
  const int rank = memory.team.rank;
  T* src = memory.src.data() + c.skew;
  T* dst = c.in_place ? src : memory.dst.data() + c.skew;
  const T untouched = element<T>(11, 3);
  std::fill_n(memory.dst.data(), memory.room, untouched);
  std::fill_n(memory.src.data(), memory.room, untouched);
  T* given = src;
  if (c.in_place && c.call == Call::kGather) given = src + static_cast<size_t>(rank) * c.count;
  if (c.in_place && c.call == Call::kReduceScatter) dst = src + static_cast<size_t>(rank) * c.count;
  const bool gives = c.call != Call::kBroadcast || rank == c.root;
  for (size_t k = 0; gives && k < c.count * given_blocks(c.call, n); ++k) {
    given[k] = element<T>(rank, k);
  }
  run(grid, call_case<S, Op, T>, memory.pe.context(), S{}, memory.team, c, dst,
      c.call == Call::kGather ? given : src);
  size_t wrong = 0;
  for (size_t k = 0; k < c.count * taken_blocks(c.call, n); ++k) {
    const T before = c.in_place && gives ? element<T>(rank, k) : untouched;
    const T wanted = expected<T, Op>(c, rank, n, k, before);
    if (std::memcmp(&dst[k], &wanted, sizeof(T)) != 0 && wrong++ == 0) {
      ADD_FAILURE() << "call " << static_cast<int>(c.call) << ", " << c.count << " elements of "
                    << sizeof(T) << " bytes, skew " << c.skew << (c.in_place ? ", in place" : "")
                    << ", member " << rank << " of " << n << ": element " << k << " is wrong";
    }
  }
  const T behind = dst[c.count * taken_blocks(c.call, n)];
  if (!c.in_place && std::memcmp(&behind, &untouched, sizeof(T)) != 0) {
    ADD_FAILURE() << "call " << static_cast<int>(c.call) << " wrote beyond the end";
  }
}

}  // namespace peal::api_test

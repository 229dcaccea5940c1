// SPDX-License-Identifier: Apache-2.0
//
// Every collective call against a serial reference: what each member has follows from its number
// and an index, so that each works out for itself what all should get.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "device/shared/call_names.h"
#include "peal/peal.h"

namespace peal::api_test {

/// The calls that there are cases of.
inline constexpr Call kCalls[] = {Call::kBroadcast, Call::kAllGather,    Call::kAllToAll,
                                  Call::kAllReduce, Call::kReduce,       Call::kReduceScatter,
                                  Call::kScan,      Call::kExclusiveScan};

/// Element `i` of what member `member` has: small, so that sums and products of few are exact. Some
/// are negative, of unsigned types those are large.
template <class T>
T element(int member, size_t i) {
  const size_t mixed = i * 7 + static_cast<size_t>(member) * 3;
  const int small = (static_cast<int>(mixed % 5) + 1) * (mixed % 4 == 0 ? -1 : 1);
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

/// The call of a case, by a kernel.
template <class Op, class S, class T>
PEAL_DEVICE Status make_call(const Context& ctx, S scope, const Team& team, const Case& c, T* dst,
                             T* src) {
  switch (c.call) {
    case Call::kBroadcast:
      return broadcast(ctx, scope, team, dst, src, c.count, c.root);
    case Call::kAllGather:
      return all_gather(ctx, scope, team, dst, src, c.count);
    case Call::kAllToAll:
      return all_to_all(ctx, scope, team, dst, src, c.count);
    case Call::kAllReduce:
      return all_reduce(ctx, scope, team, dst, src, c.count, Op{});
    case Call::kReduce:
      return reduce(ctx, scope, team, dst, src, c.count, Op{}, c.root);
    case Call::kReduceScatter:
      return reduce_scatter(ctx, scope, team, dst, src, c.count, Op{});
    case Call::kScan:
      return scan(ctx, scope, team, dst, src, c.count, Op{});
    default:  // kExclusiveScan
      return exclusive_scan(ctx, scope, team, dst, src, c.count, Op{});
  }
}

/// The same by the host: `calls` are StreamCalls or the like.
template <class Op, class Calls, class T>
void make_call(const Calls& calls, const Team& team, const Case& c, T* dst, T* src) {
  switch (c.call) {
    case Call::kBroadcast:
      return calls.broadcast(team, dst, src, c.count, c.root);
    case Call::kAllGather:
      return calls.all_gather(team, dst, src, c.count);
    case Call::kAllToAll:
      return calls.all_to_all(team, dst, src, c.count);
    case Call::kAllReduce:
      return calls.all_reduce(team, dst, src, c.count, Op{});
    case Call::kReduce:
      return calls.reduce(team, dst, src, c.count, Op{}, c.root);
    case Call::kReduceScatter:
      return calls.reduce_scatter(team, dst, src, c.count, Op{});
    case Call::kScan:
      return calls.scan(team, dst, src, c.count, Op{});
    default:  // kExclusiveScan
      return calls.exclusive_scan(team, dst, src, c.count, Op{});
  }
}

template <class S, class Op, class T>
PEAL_KERNEL call_case(Context ctx, S scope, Team team, Case c, T* dst, T* src, Status* answer) {
  const Status status = make_call<Op>(ctx, scope, team, c, dst, src);
  if (scope.rank() == 0) *answer = status;
}

/// What member `rank` of `n` finds at dst[k] afterwards; `untouched` where the call leaves it.
template <class T, class Op>
T expected(const Case& c, int rank, int n, size_t k, T untouched) {
  const int block = static_cast<int>(k / c.count);
  switch (c.call) {
    case Call::kBroadcast:
      return element<T>(c.root, k);
    case Call::kAllGather:
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
    default:  // kExclusiveScan
      return rank == 0 ? untouched : folded<T, Op>(k, 0, rank - 1);
  }
}

inline size_t given_blocks(Call call, int n) {
  return call == Call::kAllToAll || call == Call::kReduceScatter ? static_cast<size_t>(n) : 1;
}
inline size_t taken_blocks(Call call, int n) {
  return call == Call::kAllToAll || call == Call::kAllGather ? static_cast<size_t>(n) : 1;
}

/// Symmetric memory for cases of up to `count` elements a member, alike on all PEs.
template <class T>
class CaseMemory {
 public:
  CaseMemory(Runtime& runtime, const Team& of, size_t count)
      : pe(runtime),
        team(of),
        room(count * static_cast<size_t>(runtime.n_pes()) + 32),
        dst(runtime.allocate<T>(room)),
        src(runtime.allocate<T>(room)),
        answer(runtime.allocate<Status>(32)) {}
  ~CaseMemory() {
    pe.free(answer);
    pe.free(src);
    pe.free(dst);
  }
  CaseMemory(const CaseMemory&) = delete;
  CaseMemory& operator=(const CaseMemory&) = delete;

  Runtime& pe;
  const Team team;
  const size_t room;
  T* const dst;
  T* const src;
  Status* const answer;
};

inline std::string describe(const Case& c, const Team& team, size_t element_bytes) {
  return std::string(to_string(c.call)) + ", " + std::to_string(c.count) + " elements of " +
         std::to_string(element_bytes) + " bytes, skew " + std::to_string(c.skew) +
         (c.in_place ? ", in place" : "") + ", member " + std::to_string(team.rank) + " of " +
         std::to_string(team.size);
}

/// A case whose call `make(dst, src)` makes, answering a Status: what went wrong, or nothing.
template <class Op, class T, class Make>
std::string run_case_by(CaseMemory<T>& memory, const Case& c, const Make& make) {
  const int n = memory.team.size;
  const int rank = memory.team.rank;
  const size_t given_at =
      c.in_place && c.call == Call::kAllGather ? static_cast<size_t>(rank) * c.count : 0;
  const size_t taken_at =
      c.in_place && c.call == Call::kReduceScatter ? static_cast<size_t>(rank) * c.count : 0;
  const T untouched = element<T>(11, 3);
  std::vector<T> source(memory.room, untouched);
  const bool gives = c.call != Call::kBroadcast || rank == c.root;
  for (size_t k = 0; gives && k < c.count * given_blocks(c.call, n); ++k) {
    source[c.skew + given_at + k] = element<T>(rank, k);
  }
  std::vector<T> result(memory.room, untouched);
  memory.pe.copy_in(memory.src, source.data(), memory.room * sizeof(T));
  memory.pe.copy_in(memory.dst, result.data(), memory.room * sizeof(T));
  T* const to = (c.in_place ? memory.src : memory.dst);
  const Status status = make(to + c.skew + taken_at, memory.src + c.skew + given_at);
  if (status != Status::kOk) return describe(c, memory.team, sizeof(T)) + ": " + to_string(status);
  memory.pe.copy_out(result.data(), to, memory.room * sizeof(T));
  const size_t count = c.count * taken_blocks(c.call, n);
  for (size_t k = 0; k <= count; ++k) {
    const T before = c.in_place && gives ? element<T>(rank, k) : untouched;
    T wanted = untouched;
    if (k < count) wanted = expected<T, Op>(c, rank, n, k, before);
    if (k == count && c.in_place) break;
    if (std::memcmp(&result[c.skew + taken_at + k], &wanted, sizeof(T)) != 0) {
      return describe(c, memory.team, sizeof(T)) + ": element " + std::to_string(k) + " is wrong";
    }
  }
  return "";
}

/// The same for a call by a kernel.
template <class S, class Op, class T>
std::string run_case(CaseMemory<T>& memory, const Grid& grid, const Case& c) {
  return run_case_by<Op>(memory, c, [&](T* dst, T* src) {
    launch(grid, call_case<S, Op, T>, memory.pe.context(), S{}, memory.team, c, dst, src,
           memory.answer)
        .wait();
    Status status{};
    memory.pe.copy_out(&status, memory.answer, sizeof(status));
    return status;
  });
}

/// Every call in sizes around every threshold: one unit, parts of units, the longest short message,
/// long ones in lines and with a rest. What went wrong first, or nothing.
template <class S, class Op, class T>
std::string run_sizes(Runtime& pe, const Team& team, const Grid& grid) {
  const auto members = static_cast<uint32_t>(team.size);
  const size_t limit = collective::brief_bytes(team.workspace, members) / sizeof(T);
  CaseMemory<T> memory(pe, team, team.workspace / sizeof(T));
  std::string wrong;
  for (const size_t count : {size_t{1}, size_t{5}, limit, limit + 1, 3 * limit + 7}) {
    for (const Call call : kCalls) {
      for (const bool in_place : {false, true}) {
        const int root = static_cast<int>(count) % team.size;
        const std::string one =
            run_case<S, Op>(memory, grid, Case{call, count, in_place, count % 3, root});
        if (wrong.empty()) wrong = one;
      }
    }
  }
  pe.barrier();
  return wrong;
}

/// Elements of the longest message that a call from the host sends the short way where members are
/// mapped.
template <class T>
size_t brief_count(const Team& team) {
  const auto members = static_cast<uint32_t>(team.size);
  return collective::brief_bytes(team.grid_workspace, members) / sizeof(T);
}

/// A grid for calls by a scope.
template <class S>
Grid grid_for() {
  if (std::is_same_v<S, Thread>) return {.blocks = 1, .threads = 1};
  if (std::is_same_v<S, Warp>) return {.blocks = 1, .threads = 32};
  if (std::is_same_v<S, Block>) return {.blocks = 1, .threads = 96};
  return {.blocks = 3, .threads = 64};
}

}  // namespace peal::api_test

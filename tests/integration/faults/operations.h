// SPDX-License-Identifier: Apache-2.0
//
// Every device operation as a row of the fault matrix: what it does to whose words, in which
// scopes, and the kernel that makes each lane do it once.
//
//   words of a PE:  canary | target | canary | source | canary | result | canary | flag | canary
//
// PE 0 acts on the target of PE 1, or fetches its source into a result of its own. A lane of scope
// thread has four words for itself; a warp or a block together has all of its lanes'.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "peal/peal.h"

namespace peal::fault_test {

enum class Op : uint32_t {
  kPut,
  kPutNbi,
  kGet,
  kGetNbi,
  kIput,
  kIget,
  kPutTile,
  kGetTile,
  kBatch,
  kPutSignal,
  kPutSignalNbi,
  kFence,
  kQuiet,
  kSyncAll,
  kBarrierAll,
  kWaitUntil,
  kFirstOfThreads,  // from here on: scope thread alone
  kP = kFirstOfThreads,
  kG,
  kSignal,
  kFetch,
  kSet,
  kSwap,
  kCompareSwap,
  kAdd,
  kFetchAdd,
  kFetchAddNbi,
  kInc,
  kFetchInc,
  kAnd,
  kFetchAnd,
  kOr,
  kFetchOr,
  kXor,
  kFetchXor,
  kCount,
};

inline constexpr const char* kOpNames[] = {"put",
                                           "put_nbi+wait",
                                           "get",
                                           "get_nbi+wait",
                                           "iput",
                                           "iget",
                                           "put tile",
                                           "get tile",
                                           "batch of put_nbi+wait",
                                           "put_signal",
                                           "put_signal_nbi+wait",
                                           "put_nbi+fence",
                                           "put_nbi+quiet",
                                           "sync_all",
                                           "put_nbi+barrier_all",
                                           "put_signal/wait_until",
                                           "p",
                                           "g",
                                           "signal",
                                           "atomic_fetch",
                                           "atomic_set",
                                           "atomic_swap",
                                           "atomic_compare_swap",
                                           "atomic_add",
                                           "atomic_fetch_add",
                                           "atomic_fetch_add_nbi+wait",
                                           "atomic_inc",
                                           "atomic_fetch_inc",
                                           "atomic_and",
                                           "atomic_fetch_and",
                                           "atomic_or",
                                           "atomic_fetch_or",
                                           "atomic_xor",
                                           "atomic_fetch_xor"};
static_assert(std::size(kOpNames) == static_cast<size_t>(Op::kCount));

enum class Scope : uint32_t { kThread, kWarp, kBlock };

struct Row {
  Op op;
  Scope scope;

  bool meets() const { return op == Op::kSyncAll || op == Op::kBarrierAll; }
  /// PE 1 has a part in it, and waits.
  bool both() const { return meets() || op == Op::kWaitUntil; }
  bool fetches() const {
    return op == Op::kG || op == Op::kFetch || op == Op::kSwap || op == Op::kCompareSwap ||
           op == Op::kFetchAdd || op == Op::kFetchAddNbi || op == Op::kFetchInc ||
           op == Op::kFetchAnd || op == Op::kFetchOr || op == Op::kFetchXor;
  }
  bool gets() const {
    return op == Op::kGet || op == Op::kGetNbi || op == Op::kIget || op == Op::kGetTile;
  }
  /// Its status says how its work ended; that of others only that it was posted.
  bool waits() const {
    return fetches() || gets() || op == Op::kPut || op == Op::kPutNbi || op == Op::kPutSignal ||
           op == Op::kPutSignalNbi || op == Op::kBatch || op == Op::kQuiet ||
           op == Op::kBarrierAll || op == Op::kWaitUntil;
  }
  /// It is one work request, so nothing behind it is flushed over its error.
  bool one_request() const {
    if (op == Op::kPutSignal || op == Op::kPutSignalNbi || op == Op::kWaitUntil) return false;
    if (op == Op::kBatch) return false;
    const bool rows =
        op == Op::kIput || op == Op::kIget || op == Op::kPutTile || op == Op::kGetTile;
    return lanes() == 1 || (scope != Scope::kThread && !rows);
  }
  unsigned lanes() const {
    if (scope != Scope::kThread) return scope == Scope::kWarp ? 32 : 64;
    const bool many = op < Op::kFirstOfThreads || op == Op::kP || op == Op::kFetchAdd;
    return many && !meets() ? 4 : 1;
  }
  /// The opcode of its first work request.
  uint8_t opcode() const {
    switch (op) {
      case Op::kGet:
      case Op::kGetNbi:
      case Op::kIget:
      case Op::kGetTile:
      case Op::kG:
        return 0x10;
      case Op::kCompareSwap:
        return 0x11;
      case Op::kFetch:
      case Op::kAdd:
      case Op::kFetchAdd:
      case Op::kFetchAddNbi:
      case Op::kInc:
      case Op::kFetchInc:
        return 0x12;
      case Op::kSet:
      case Op::kSwap:
      case Op::kAnd:
      case Op::kFetchAnd:
      case Op::kOr:
      case Op::kFetchOr:
      case Op::kSignal:  // words that vouch for data, where WRITEs may overtake each other
      case Op::kSyncAll:
        return 0x14;
      case Op::kXor:
      case Op::kFetchXor:
        return 0x15;
      default:
        return 0x08;
    }
  }
  std::string name() const {
    constexpr const char* kScopes[] = {"thread", "warp", "block"};
    return std::string(kOpNames[static_cast<size_t>(op)]) + " " +
           kScopes[static_cast<size_t>(scope)];
  }
};

inline std::vector<Row> all_rows() {
  std::vector<Row> rows;
  for (uint32_t i = 0; i < static_cast<uint32_t>(Op::kCount); ++i) {
    const auto op = static_cast<Op>(i);
    rows.push_back({op, Scope::kThread});
    if (op >= Op::kFirstOfThreads) continue;
    rows.push_back({op, Scope::kWarp});
    rows.push_back({op, Scope::kBlock});
  }
  return rows;
}

/// A status in a table.
inline char letter(Status status) {
  switch (status) {
    case Status::kOk:
      return '.';
    case Status::kTimeout:
      return 'T';
    case Status::kQueueError:
      return 'E';
    case Status::kPeerLost:
      return 'L';
    default:
      return '?';
  }
}

// ---- memory

inline constexpr uint32_t kPart = 256;  // words: 64 lanes of four
inline constexpr uint32_t kGuard = 32;
inline constexpr uint32_t kTarget = kGuard;
inline constexpr uint32_t kSource = kTarget + kPart + kGuard;
inline constexpr uint32_t kResult = kSource + kPart + kGuard;
inline constexpr uint32_t kFlag = kResult + kPart + kGuard;
inline constexpr uint32_t kWords = kFlag + kPart + kGuard;
inline constexpr uint64_t kOld = 5;  // of each target word
inline constexpr uint64_t kSignal = 9;

using Image = std::array<uint64_t, kWords>;

inline Image fresh_image(int pe) {
  Image image;
  for (uint32_t i = 0; i < kWords; ++i) image[i] = 0xc0ffee0000000000 + i;
  for (uint32_t i = 0; i < kPart; ++i) {
    image[kTarget + i] = kOld;
    image[kSource + i] = 0xda7a000000000000 + static_cast<uint64_t>(pe) * 4096 + i;
    image[kResult + i] = image[kFlag + i] = 0;
  }
  return image;
}

/// What an atomic makes of kOld.
inline uint64_t updated(Op op) {
  switch (op) {
    case Op::kSet:
    case Op::kSwap:
    case Op::kCompareSwap:
    case Op::kAdd:
    case Op::kFetchAdd:
    case Op::kFetchAddNbi:
      return 9;
    case Op::kInc:
    case Op::kFetchInc:
      return 6;
    case Op::kAnd:
    case Op::kFetchAnd:
    case Op::kXor:
    case Op::kFetchXor:
      return 4;
    case Op::kOr:
    case Op::kFetchOr:
      return 13;
    default:
      return kOld;
  }
}

/// Does to the images of PE 0 and PE 1 what the row does to their memory.
inline void apply(const Row& row, Image* zero, Image* one) {
  const bool alone = row.scope == Scope::kThread;
  const uint32_t parts = alone ? row.lanes() : 1;
  const uint32_t count = alone ? 4 : 4 * row.lanes();
  for (uint32_t part = 0; part < parts; ++part) {
    const uint32_t base = part * 4;
    uint64_t* const to = &(*one)[kTarget + base];
    uint64_t* const back = &(*zero)[kResult + base];
    const uint64_t* const ours = &(*zero)[kSource + base];
    const uint64_t* const theirs = &(*one)[kSource + base];
    switch (row.op) {
      case Op::kPutSignal:
      case Op::kPutSignalNbi:
      case Op::kWaitUntil:
        (*one)[kFlag + part] = kSignal;
        [[fallthrough]];
      case Op::kPut:
      case Op::kPutNbi:
      case Op::kBatch:
      case Op::kFence:
      case Op::kQuiet:
      case Op::kBarrierAll:
        std::copy_n(ours, count, to);
        break;
      case Op::kGet:
      case Op::kGetNbi:
        std::copy_n(theirs, count, back);
        break;
      case Op::kIput:
        for (uint32_t i = 0; i < count / 4; ++i) to[2 * i] = ours[i];
        break;
      case Op::kIget:
        for (uint32_t i = 0; i < count / 4; ++i) back[2 * i] = theirs[i];
        break;
      case Op::kPutTile:
        for (uint32_t i = 0; i < count / 4; ++i) std::copy_n(ours + 3 * i, 2, to + 4 * i);
        break;
      case Op::kGetTile:
        for (uint32_t i = 0; i < count / 4; ++i) std::copy_n(theirs + 3 * i, 2, back + 4 * i);
        break;
      case Op::kSignal:
        (*one)[kFlag + part] = kSignal;
        break;
      case Op::kP:
        to[0] = ours[0];
        break;
      case Op::kSyncAll:
        break;
      case Op::kFetchAddNbi:
        back[0] = to[0];
        [[fallthrough]];
      default:
        to[0] = updated(row.op);
    }
  }
}

// ---- the kernel

/// What each lane came back with.
struct Outcome {
  Status status[64];
  uint64_t value[64];
};

template <class T>
PEAL_DEVICE Status keep(const Fetched<T>& fetched, uint64_t* value) {
  *value = fetched.value;
  return fetched.status;
}

PEAL_DEVICE Status act_alone(const Context& ctx, Op op, uint64_t* words, uint32_t at,
                             uint64_t* value) {
  uint64_t* const to = words + kTarget + at;
  switch (op) {
    case Op::kP:
      return p(ctx, to, words[kSource + at], 1);
    case Op::kG:
      return keep(g(ctx, to, 1), value);
    case Op::kSignal:
      return signal(ctx, Signal::set(words + kFlag + at / 4, kSignal, 1));
    case Op::kFetch:
      return keep(atomic_fetch(ctx, to, 1), value);
    case Op::kSet:
      return atomic_set(ctx, to, 9, 1);
    case Op::kSwap:
      return keep(atomic_swap(ctx, to, 9, 1), value);
    case Op::kCompareSwap:
      return keep(atomic_compare_swap(ctx, to, kOld, 9, 1), value);
    case Op::kAdd:
      return atomic_add(ctx, to, 4, 1);
    case Op::kFetchAdd:
      return keep(atomic_fetch_add(ctx, to, 4, 1), value);
    case Op::kFetchAddNbi: {
      uint64_t* const result = words + kResult + at;
      const Status status = wait(ctx, atomic_fetch_add_nbi(ctx, result, to, 4, 1));
      *value = *result;
      return status;
    }
    case Op::kInc:
      return atomic_inc(ctx, to, 1);
    case Op::kFetchInc:
      return keep(atomic_fetch_inc(ctx, to, 1), value);
    case Op::kAnd:
      return atomic_and(ctx, to, 12, 1);
    case Op::kFetchAnd:
      return keep(atomic_fetch_and(ctx, to, 12, 1), value);
    case Op::kOr:
      return atomic_or(ctx, to, 8, 1);
    case Op::kFetchOr:
      return keep(atomic_fetch_or(ctx, to, 8, 1), value);
    case Op::kXor:
      return atomic_xor(ctx, to, 1, 1);
    default:
      return keep(atomic_fetch_xor(ctx, to, 1, 1), value);
  }
}

/// Both halves under one doorbell, or the wait's.
template <class S>
PEAL_DEVICE Status post_in_a_batch(const Context& ctx, S scope, uint64_t* to, const uint64_t* from,
                                   uint32_t count) {
  Batch batch(ctx);
  const uint32_t half = count / 2;
  const Status first = batch.put_nbi(scope, to, from, half, 1).status;
  if (first != Status::kOk) return first;
  return wait(ctx, scope, batch.put_nbi(scope, to + half, from + half, half, 1));
}

template <class S>
PEAL_DEVICE Status act_together(const Context& ctx, S scope, Op op, uint64_t* words, uint32_t at,
                                uint32_t count) {
  uint64_t* const to = words + kTarget + at;
  uint64_t* const back = words + kResult + at;
  const uint64_t* const from = words + kSource + at;
  const Signal flag = Signal::set(words + kFlag + at / 4, kSignal, 1);
  Ticket ticket{};
  switch (op) {
    case Op::kPut:
      return put(ctx, scope, to, from, count, 1);
    case Op::kGet:
      return get(ctx, scope, back, from, count, 1);
    case Op::kIput:
      return iput(ctx, scope, to, from, Strides{2, 1}, count / 4, 1);
    case Op::kIget:
      return iget(ctx, scope, back, from, Strides{2, 1}, count / 4, 1);
    case Op::kPutTile:
      return put(ctx, scope, to, from, Tile{count / 4, 2, {4, 3}}, 1);
    case Op::kGetTile:
      return get(ctx, scope, back, from, Tile{count / 4, 2, {4, 3}}, 1);
    case Op::kBatch:
      return post_in_a_batch(ctx, scope, to, from, count);
    case Op::kPutSignal:
      return put_signal(ctx, scope, to, from, count, flag);
    case Op::kSyncAll:
      return sync_all(ctx, scope);
    case Op::kGetNbi:
      ticket = get_nbi(ctx, scope, back, from, count, 1);
      break;
    case Op::kPutSignalNbi:
    case Op::kWaitUntil:
      ticket = put_signal_nbi(ctx, scope, to, from, count, flag);
      break;
    default:
      ticket = put_nbi(ctx, scope, to, from, count, 1);
  }
  if (op == Op::kFence) return fence(ctx, scope);
  if (op == Op::kQuiet) return quiet(ctx, scope);
  if (op == Op::kBarrierAll) return barrier_all(ctx, scope);
  return wait(ctx, scope, ticket);
}

template <class S>
PEAL_DEVICE Status act(const Context& ctx, S scope, Op op, uint64_t* words, uint32_t at,
                       uint32_t count) {
  if (ctx.pe == 0) return act_together(ctx, scope, op, words, at, count);
  if (op == Op::kSyncAll) return sync_all(ctx, scope);
  if (op == Op::kBarrierAll) return barrier_all(ctx, scope);
  return wait_until(ctx, scope, words + kFlag + at / 4, Compare::kEq, kSignal);
}

/// Each lane's part of a row: PE 0's, or PE 1's of those that both have a part in.
PEAL_KERNEL run_row(Outcome* outcome, Context ctx, Row row, uint64_t* words) {
  const uint32_t lane = thread_in_block();
  const uint32_t wide = 4 * threads_in_block();
  Status status;
  if (row.op >= Op::kFirstOfThreads) {
    status = act_alone(ctx, row.op, words, lane * 4, &outcome->value[lane]);
  } else if (row.scope == Scope::kThread) {
    status = act(ctx, thread, row.op, words, lane * 4, 4);
  } else if (row.scope == Scope::kWarp) {
    status = act(ctx, warp, row.op, words, 0, wide);
  } else {
    status = act(ctx, block, row.op, words, 0, wide);
  }
  outcome->status[lane] = status;
}

PEAL_KERNEL run_quiet(Status* status, Context ctx) { *status = quiet(ctx); }

}  // namespace peal::fault_test

// SPDX-License-Identifier: Apache-2.0
//
// The calls that are measured, in the words of an Api, a small value that a side supplies. Its
// functions return a Status:
//
//   put, get (scope, dst, src, bytes, pe)   p(word, value, pe)   quiet()   barrier(scope)
//   put_signal(scope, dst, src, bytes, flag, value, pe)          wait(scope, flag, value)
//   add(word, value, pe)   fetch_add(old, word, value, pe)
//
// and what the programs alone measure: get_now, g, signal, wait_equal, put_counted, copy.
//
//   post   returns once posted; quiet completes it
//   send   complete when it returns (CallWay::kCall), or the peer's turn to answer
//   (CallWay::kBounce) take   waits for the peer's message
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/base/scope.h"
#include "perf/common/cases.h"
#include "perf/common/plan.h"

namespace peal::perf {

/// One call of an agent.
template <class Api, class Scope>
struct AgentTurn {
  const Api& api;
  Scope scope;
  const Plan& plan;
  uint64_t at;  // from dst and src
  uint64_t bytes;
  uint64_t number;  // since the memory was prepared
  uint64_t agent;

  PEAL_DEVICE std::byte* dst() const { return plan.dst + at; }
  PEAL_DEVICE const std::byte* src() const { return plan.src + at; }
  template <class Word>
  PEAL_DEVICE Word* dst_word() const {
    return reinterpret_cast<Word*>(dst());
  }
  /// What a PE's pattern has here.
  template <class Word>
  PEAL_DEVICE Word value(uint64_t seed) const {
    return static_cast<Word>(pattern_word(seed, at / 8));
  }
};

/// What a call is for the tables of cases. Its size is known when compiled, or 0.
template <Op kCall, uint64_t kSize = 0, CallWay kHow = CallWay::kCall>
struct CaseKind {
  static constexpr Op kOp = kCall;
  static constexpr uint64_t kBytes = kSize;
  static constexpr CallWay kWay = kHow;
};

// Calls that return once posted.

struct PutCall : CaseKind<Op::kPut> {
  PEAL_DEVICE static Status post(const auto& t) {
    return t.api.put(t.scope, t.dst(), t.src(), t.bytes, t.plan.peer);
  }
};

struct GetCall : CaseKind<Op::kGet> {
  PEAL_DEVICE static Status post(const auto& t) {
    return t.api.get(t.scope, t.dst(), t.src(), t.bytes, t.plan.peer);
  }
};

struct CopyCall : CaseKind<Op::kCopy> {
  PEAL_DEVICE static Status post(const auto& t) {
    return t.api.copy(t.scope, t.dst(), t.src(), t.bytes, t.plan.peer);
  }
};

/// Every signal adds 1 to the agent's word.
struct PutCountedCall : CaseKind<Op::kPutSignal> {
  PEAL_DEVICE static Status post(const auto& t) {
    return t.api.put_counted(t.scope, t.dst(), t.src(), t.bytes, t.plan.words + t.agent,
                             t.plan.peer);
  }
};

template <class Word>
struct PCall : CaseKind<Op::kP, sizeof(Word)> {
  PEAL_DEVICE static Status post(const auto& t) {
    return t.api.p(t.template dst_word<Word>(), t.template value<Word>(t.plan.seed), t.plan.peer);
  }
};

/// The value is kept for the check.
template <class Word>
struct GCall : CaseKind<Op::kG, sizeof(Word)> {
  PEAL_DEVICE static Status post(const auto& t) {
    return t.api.g(t.template dst_word<Word>(), reinterpret_cast<const Word*>(t.src()),
                   t.plan.peer);
  }
  PEAL_DEVICE static Status send(const auto& t) { return post(t); }
};

template <class Word, Op kCall = Op::kAdd>
struct AddCall : CaseKind<kCall, sizeof(Word)> {
  PEAL_DEVICE static Status post(const auto& t) {
    auto* word = reinterpret_cast<Word*>(t.plan.words + (kCall == Op::kAddSame ? 0 : t.agent));
    const uint64_t value = addend(t.plan.seed, t.number * threads_in_grid() + t.agent);
    return t.api.add(word, static_cast<Word>(value), t.plan.peer);
  }
};

/// As counters are counted: one addend for the whole launch, so that the compiler makes one atomic
/// of a warp's.
struct AddAlikeCall : CaseKind<Op::kAddSame, sizeof(uint64_t)> {
  PEAL_DEVICE static Status post(const auto& t) {
    const uint64_t value = addend(t.plan.seed, t.plan.first * threads_in_grid());
    return t.api.add(t.plan.words, value, t.plan.peer);
  }
};

// Calls that end when they are complete.

template <class Call>
struct Quieted : Call {
  PEAL_DEVICE static Status send(const auto& t) {
    const Status status = Call::post(t);
    return status != Status::kOk ? status : t.api.quiet();
  }
};

struct GetNowCall : CaseKind<Op::kGet> {
  PEAL_DEVICE static Status send(const auto& t) {
    return t.api.get_now(t.scope, t.dst(), t.src(), t.bytes, t.plan.peer);
  }
};

/// Wrong when the old value is not the sum of the additions before.
template <class Word>
struct FetchAddCall : CaseKind<Op::kFetchAdd, sizeof(Word)> {
  PEAL_DEVICE static Status send(const auto& t) {
    const auto value = static_cast<Word>(addend(t.plan.seed, t.number));
    Word old{};
    const Status status =
        t.api.fetch_add(&old, reinterpret_cast<Word*>(t.plan.words), value, t.plan.peer);
    const bool right = old == static_cast<Word>(sum_of_addends(t.plan.seed, t.number, 1));
    if (status == Status::kOk && !right) count_errors(t.plan.errors, 1);
    return status;
  }
};

// Messages, and how their arrival is seen.

/// The flag only grows. Where the size is known when compiled the call may become a single store.
template <uint64_t kSize, Op kCall = Op::kPutSignal>
struct PutSignalCall : CaseKind<kCall, kSize, CallWay::kBounce> {
  PEAL_DEVICE static Status send(const auto& t) {
    return t.api.put_signal(t.scope, t.dst(), t.src(), kSize != 0 ? kSize : t.bytes, t.plan.words,
                            t.number + 1, t.plan.peer);
  }
  PEAL_DEVICE static Status take(const auto& t) {
    return t.api.wait(t.scope, t.plan.words, t.number + 1);
  }
};

struct PutThenSignalCall : PutSignalCall<0, Op::kPut> {
  PEAL_DEVICE static Status send(const auto& t) {
    const Status status = PutCall::post(t);
    if (status != Status::kOk) return status;
    return t.api.signal(t.scope, t.plan.words, t.number + 1, t.plan.peer);
  }
};

/// The value is its own flag: each side waits until its slot holds exactly what must come.
template <class Word>
struct PAsFlagCall : CaseKind<Op::kP, sizeof(Word), CallWay::kBounce> {
  PEAL_DEVICE static Status send(const auto& t) { return PCall<Word>::post(t); }
  PEAL_DEVICE static Status take(const auto& t) {
    return t.api.wait_equal(t.template dst_word<Word>(), t.template value<Word>(t.plan.peers_seed));
  }
};

}  // namespace peal::perf

// SPDX-License-Identifier: Apache-2.0
//
// Short messages between members whose memory is mapped. A unit of 8 bytes travels as a line of two
// words, and each word carries 4 bytes and the number of the exchange:
//
//   [ 4 bytes | number | 4 bytes | number ]
//
// Whoever waits for data waits for the data itself: there is no flag behind it, so one way over the
// link is all it takes, and nothing needs to be ordered. The lines lie in the team's workspace, a
// ring for each sender; all rings are at the same line. A line may be written again once all have
// read it. Whoever has heard of everybody in an exchange knows that all are done with those before
// it. Where not everybody says something nobody knows: broadcasts in a row go on until the ring is
// used up, and then the members meet (edge M21).
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "device/collective/bytes.h"
#include "device/collective/call.h"
#include "device/detail/wait.h"

namespace peal::collective {

/// An exchange under way.
struct Exchange {
  uint32_t number;
  uint32_t first;    // line of unit 0
  uint32_t lines;    // of a ring
  uint32_t unheard;  // that some member may not have read, with those of this exchange
  Status status;

  PEAL_DEVICE uint32_t line(uint32_t unit) const {
    const uint32_t at = first + unit;
    return at < lines ? at : at - lines;
  }
};

/// The largest message to one member: of two in a row the second needs no meeting.
PEAL_HD uint64_t exchange_limit(const Part& part) {
  return uint64_t{part.ring_lines() / 2} * kUnit;
}

/// Never 0, which is what fresh memory has.
PEAL_DEVICE uint32_t tag_of(uint32_t number) { return number << 1 | 1; }

/// Begins one of `units` lines, once they are free. All lanes of the scope.
template <Reach R, AnyScope S>
PEAL_DEVICE Exchange begin_exchange(const Call<R>& call, S scope, uint32_t units) {
  const Counters& counters = call.part.counters(0);
  const RingPlace place = RingPlace::of(load_relaxed<Reach::kGpu>(&counters.ring));
  const uint32_t number = load_relaxed<Reach::kGpu>(&counters.exchanges) + 1;
  Exchange exchange{number, place.line, call.part.ring_lines(), place.unheard + units,
                    refusal(counters)};
  scope.sync();  // edge M8: what the lanes stored precedes what they send; all have looked
  if (exchange.unheard > exchange.lines && !weakened(Edge::kM21)) {
    exchange.status = meet_before<true>(call, scope, kArrived);
    exchange.first = 0;
    exchange.unheard = units;
  }
  return exchange;
}

/// Ends one of `units` lines. `by_all`: every member has sent something to every other.
template <Reach R, AnyScope S>
PEAL_DEVICE Status end_exchange(const Call<R>& call, S scope, const Exchange& exchange,
                                uint32_t units, Status status, bool by_all) {
  const Status outcome =
      first_failure(scope, exchange.status != Status::kOk ? exchange.status : status);
  if (scope.leader()) {
    Counters& counters = call.part.counters(0);
    store_relaxed<Reach::kGpu>(&counters.exchanges, exchange.number);
    const RingPlace next{exchange.line(units), by_all ? units : exchange.unheard};
    store_relaxed<Reach::kGpu>(&counters.ring, next.word());
  }
  scope.sync();
  return outcome;
}

template <Reach R>
PEAL_DEVICE void send_unit(const Call<R>& call, const Exchange& exchange, uint32_t member,
                           uint32_t unit, uint64_t value) {
  const uint64_t tag = tag_of(exchange.number);
  std::byte* const line = call.part.line(call.rank(), exchange.line(unit));
  store_line_direct(call.at(member, line),
                    Line{{value << 32 | tag, (value & 0xffffffff00000000u) | tag}});
}

/// Waits for a unit of members [first, first + count), count at most kTogether, at once.
inline constexpr uint32_t kTogether = 8;
template <Reach R>
PEAL_DEVICE Status receive_units(const Call<R>& call, const Exchange& exchange, uint32_t unit,
                                 uint32_t first, uint32_t count, uint64_t* values) {
  const uint32_t tag = tag_of(exchange.number);
  return detail::spin(call.ctx, [&] {
    Line line[kTogether] = {};
    PEAL_UNROLL
    for (uint32_t k = 0; k < kTogether; ++k) {
      const uint32_t from = first + (k < count ? k : 0);
      if (from == call.rank()) continue;
      line[k] = load_line_direct(call.part.line(from, exchange.line(unit)));
    }
    bool all = true;
    PEAL_UNROLL
    for (uint32_t k = 0; k < kTogether; ++k) {
      if (k >= count || first + k == call.rank()) continue;
      const bool here = static_cast<uint32_t>(line[k].word[0]) == tag &&
                        static_cast<uint32_t>(line[k].word[1]) == tag;
      all = all && here;
      values[k] = line[k].word[0] >> 32 | (line[k].word[1] & 0xffffffff00000000u);
    }
    return all;
  });
}

/// An exchange in which every member sends `bytes` bytes to every other. `message`:
///
///   uint64_t given(member, unit)      a unit of what `member` gets; of this PE's own, too
///   auto taking(unit)                 with take(member, value) for each in order, and done()
template <Reach R, AnyScope S, class Message>
PEAL_DEVICE Status exchange_all(const Call<R>& call, S scope, uint64_t bytes,
                                const Message& message) {
  const uint32_t units = units_of(bytes);
  const Exchange exchange = begin_exchange(call, scope, units);
  Status status = exchange.status;
  for (uint32_t u = scope.rank(); u < units && status == Status::kOk; u += scope.size()) {
    for (uint32_t i = 1; i < call.members(); ++i) {
      const uint32_t member = call.after(i);
      send_unit(call, exchange, member, u, message.given(member, u));
    }
  }
  for (uint32_t u = scope.rank(); u < units && status == Status::kOk; u += scope.size()) {
    const uint64_t own = message.given(call.rank(), u);
    auto taking = message.taking(u);
    for (uint32_t first = 0; first < call.members() && status == Status::kOk; first += kTogether) {
      const uint32_t left = call.members() - first;
      const uint32_t count = left < kTogether ? left : kTogether;
      uint64_t values[kTogether] = {};
      status = receive_units(call, exchange, u, first, count, values);
      PEAL_UNROLL
      for (uint32_t k = 0; k < kTogether; ++k) {
        if (k >= count || status != Status::kOk) continue;
        taking.take(first + k, first + k == call.rank() ? own : values[k]);
      }
    }
    if (status == Status::kOk) taking.done();
  }
  return end_exchange(call, scope, exchange, units, status, true);
}

/// One in which `root` alone sends, the same to all.
template <Reach R, AnyScope S>
PEAL_DEVICE Status exchange_from(const Call<R>& call, S scope, uint32_t root, void* dst,
                                 const void* src, uint64_t bytes) {
  const uint32_t units = units_of(bytes);
  const Exchange exchange = begin_exchange(call, scope, units);
  Status status = exchange.status;
  for (uint32_t u = scope.rank(); u < units && status == Status::kOk; u += scope.size()) {
    uint64_t value = 0;
    if (call.rank() == root) {
      value = load_unit(src, bytes, u);
      for (uint32_t i = 1; i < call.members(); ++i) {
        send_unit(call, exchange, call.after(i), u, value);
      }
    } else {
      status = receive_units(call, exchange, u, root, 1, &value);
    }
    if (status == Status::kOk) store_unit(dst, bytes, u, value);
  }
  return end_exchange(call, scope, exchange, units, status, false);
}

}  // namespace peal::collective

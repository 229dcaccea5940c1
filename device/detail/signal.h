// SPDX-License-Identifier: Apache-2.0
//
// Signals and puts with signals as operations (access.h).
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "device/context.h"
#include "device/detail/access.h"
#include "device/detail/drain.h"
#include "device/detail/transfer.h"

namespace peal::detail {

/// The request of an atomic word that vouches for what is ahead of it, by ContextFields::signals.
/// Where a NIC executes an atomic ahead of that, the atomic starts when that is done.
template <Update U>
PEAL_DEVICE auto behind(uint32_t signals, const nic::Remote& at, uint64_t value) {
  using Word = nic::Atomic<U, uint64_t, nic::Nowhere>;
  const auto fence =
      (signals & kSignalsWait) != 0 ? nic::RequestFence::kAll : nic::RequestFence::kNone;
  return nic::Fenced<Word>{fence, Word{at, {}, value}};
}

/// Calls `post` with the request that sets the word `at`.
template <class Post>
PEAL_DEVICE Ticket with_set(const ContextFields& ctx, const nic::Remote& at, uint64_t value,
                            const Post& post) {
  if ((ctx.signals & kSignalsSwap) != 0 && !weakened(Edge::kDataBeforeSwap)) {
    return post(behind<Update::kSwap>(ctx.signals, at, value));
  }
  return post(nic::WriteWord<sizeof(uint64_t)>{at, value});
}

/// Calls `post` with the signal's request.
template <class Post>
PEAL_DEVICE Ticket with_signal(const ContextFields& ctx, const Destination& flag,
                               const Signal& signal, const Post& post) {
  if (signal.kind == Signal::Kind::kSet) {
    return with_set(ctx, flag.remote, signal.value, post);
  }
  return post(behind<Update::kAdd>(ctx.signals, flag.remote, signal.value));
}

template <Reach R, bool kTogether, nic::Rings kRings = nic::Rings::kNow>
PEAL_DEVICE Ticket post_signal(const BasicContext<R>& ctx, const Destination& flag,
                               const Signal& signal) {
  return with_signal(ctx, flag, signal, [&](const auto& request) {
    return post_in_order<R, kTogether, kRings>(ctx, flag, signal.pe, request);
  });
}

/// Stored, with release behind the data: kWordBeforeWait begins here when no NIC is between. By
/// kRelaxed it vouches for nothing.
template <Order O = Order::kRelease>
PEAL_DEVICE void signal_direct(std::byte* word, const Signal& signal) {
  auto* at = reinterpret_cast<uint64_t*>(word);
  if (signal.kind == Signal::Kind::kAdd) {
    update_direct<Update::kAdd, O, Edge::kStoresBeforeSignal>(at, signal.value);
  } else if constexpr (releases(O)) {
    store_release<Reach::kSystem, Edge::kStoresBeforeSignal>(at, signal.value);
  } else {
    store_relaxed<Reach::kSystem>(at, signal.value);
  }
}

/// The range of the signal's word, of a put_signal or a signal alone. Where blocks choose queues,
/// its queue is the one that the data before it travel on, unless the signal is an atomic that
/// another NIC executes.
PEAL_DEVICE Asked word_of(const Signal& signal, Call call) {
  const Use use = signal.kind == Signal::Kind::kAdd ? Use::kReleasing : Use::kWord;
  const CallSide side = call == Call::kSignal ? CallSide::kThere : CallSide::kWord;
  return {signal.word, sizeof(uint64_t), signal.pe, use, true, call, side};
}

/// The NIC's part of a put with a signal: where data and word go, what they are.
struct SignalledData {
  Destination to;
  Destination flag;
  const void* src;
  uint64_t bytes;
  Signal signal;
};

/// Where no queue carries both, one behind the other: there is a signal alone, another NIC's word,
/// or one that is stored. Out of line: posts of its own, which few calls come to.
template <Reach R, bool kTogether, nic::Rings kRings>
PEAL_DEVICE_COLD Ticket put_signal_apart(const ContextState* state, const SignalledData* what) {
  const auto& ctx = static_cast<const BasicContext<R>&>(state->fields);
  const auto& [to, flag, src, bytes, signal] = *what;
  if (bytes == 0 && flag.direct == nullptr)
    return post_signal<R, kTogether, kRings>(ctx, flag, signal);
  const Ticket put =
      put_bytes<R, kTogether, nic::Rings::kNow, Call::kPutSignal>(ctx, to, src, bytes);
  if (put.status != Status::kOk) return put;
  // Two NICs: the signal settles what is ahead of it.
  if (flag.direct == nullptr) return post_signal<R, kTogether>(ctx, flag, signal);
  // Two ways to one peer: nothing orders them but waiting, and not for a completion alone. Edge
  // kNicDataBeforeFlag.
  const Status done = weakened(Edge::kNicDataBeforeSignal)
                          ? nic::wait<R>(put)
                          : settle<R, kTogether>(ctx.state, to.queue);
  if (done == Status::kOk) signal_direct(flag.direct, signal);
  return Ticket{nullptr, 0, done};
}

template <Reach R, bool kTogether, nic::Rings kRings>
PEAL_DEVICE Ticket put_signal_bytes(const BasicContext<R>& ctx, const SignalledData& what) {
  if (what.flag.direct != nullptr || what.bytes == 0 || what.flag.queue != what.to.queue) {
    return call_apart<&put_signal_apart<R, kTogether, kRings>>(ctx.state, &what);
  }
  // Same queue, later slot: the responder executes the signal after the data. Edge kDataBeforeWord.
  return with_signal(ctx, what.flag, what.signal, [&](const auto& request) {
    return put_bytes<R, kTogether, kRings, Call::kPutSignal>(ctx, what.to, what.src, what.bytes,
                                                             request);
  });
}

/// The same out of line: in relocatable code all scopes share it.
template <Reach R, nic::Rings kRings>
PEAL_DEVICE_COLD Ticket put_signal_shared(const ContextState* state, const SignalledData* what) {
  return put_signal_bytes<R, true, kRings>(static_cast<const BasicContext<R>&>(state->fields),
                                           *what);
}

/// A put, and a signal behind it.
template <nic::Rings kRings>
struct PutSignal {
  using Answer = Ticket;
  static constexpr bool kVotes = false;
  void* dst;
  const void* src;
  uint64_t bytes;
  Signal signal;

  PEAL_DEVICE Asked asked() const {
    return {.address = dst, .bytes = bytes, .pe = signal.pe, .call = Call::kPutSignal};
  }
  PEAL_DEVICE CallNote note() const {
    CallNote note = note_of(Call::kPutSignal, signal.pe, dst, bytes, src, bytes);
    note.starts = 1;
    note.word = signal.word;
    note.value = signal.value;
    note.adds = signal.kind == Signal::Kind::kAdd ? 1 : 0;
    return note;
  }
  template <Reach R, class S>
  PEAL_DEVICE Ticket mapped(const BasicContext<R>& ctx, S scope, std::byte* there) const {
    scope.sync();  // kLanesBeforeLeader: every lane's earlier stores to the source precede the copy
    copy_mapped<p2p::Direction::kPut>(scope, there, src, bytes);
    scope.sync();
    if (scope.leader()) {
      signal_direct(find_near(ctx, word_of(signal, Call::kPutSignal)).address, signal);
    }
    return Ticket{};
  }
};

/// The data and the signal's word count as near only if both are.
template <nic::Rings kRings>
PEAL_DEVICE Near near_of(const ContextFields& ctx, const PutSignal<kRings>& op) {
  const Near flag = find_near(ctx, word_of(op.signal, Call::kPutSignal));
  const Near data = find_near(ctx, op.asked());
  const bool both = data.here & flag.here;
  return {data.address, both};
}

/// The same once the signal's word has been found.
template <nic::Rings kRings>
struct PutSignalAt {
  using Answer = Ticket;
  PutSignal<kRings> put;
  Destination flag;

  /// Data that is stored, but not into a near heap: another window, a large machine.
  template <Reach R, class S>
  PEAL_DEVICE Ticket mapped(const BasicContext<R>& ctx, S scope, std::byte* there) const {
    scope.sync();  // kLanesBeforeLeader: every lane's earlier stores to the source precede the copy
    copy_mapped<p2p::Direction::kPut>(scope, there, put.src, put.bytes);
    return by_leader(scope, [&] {
      if (flag.direct != nullptr) {
        Ticket done{};
        if (ctx.state->faults != nullptr) {
          done.status = meet_late_signal(ctx.state, put.signal.pe);
        }
        if (done.status == Status::kOk) signal_direct(flag.direct, put.signal);
        return done;
      }
      fence_direct_stores<Edge::kStoresBeforeFlag>();  // the NIC may overtake plain stores
      return post_signal<R, kRarelyTogether<false>>(ctx, flag, put.signal);
    });
  }
  template <Reach R, class S>
  PEAL_DEVICE Ticket by_nic(const BasicContext<R>& ctx, S scope, const Destination& to) const {
    SignalledData what{to, flag, put.src, put.bytes, put.signal};
    if constexpr (std::is_same_v<S, Thread>) {
      // The two were resolved one after the other, maybe in two turns of a warp (queue_choice.h).
      // A NIC's queues have the same keys: that of the data takes the word, too.
      if (ctx.rails == 1 && flag.direct == nullptr) what.flag.queue = to.queue;
    }
    return by_leader(scope, [&] {
      if constexpr (PEAL_RELOCATABLE) {
        return call_apart<&put_signal_shared<R, kRings>>(ctx.state, &what);
      } else {
        return put_signal_bytes<R, std::is_same_v<S, Thread>, kRings>(ctx, what);
      }
    });
  }
};

template <Reach R, class S, nic::Rings kRings>
PEAL_DEVICE Ticket access_far(const BasicContext<R>& ctx, S scope, const PutSignal<kRings>& put,
                              uint8_t by_warp) {
  Asked word = word_of(put.signal, Call::kPutSignal);
  word.counts = false;
  if constexpr (std::is_same_v<S, Thread>) word.by_warp = by_warp;
  const PutSignalAt<kRings> op{put, resolve(ctx, word)};
  if (op.flag.status != Status::kOk) return Ticket{nullptr, 0, op.flag.status};
  Asked data = put.asked();
  data.by_warp = word.by_warp;
  // Nothing to send needs no destination.
  if constexpr (std::is_same_v<S, Warp> && !PEAL_RELOCATABLE) {
    // Most of the call's code twice, and a register less than once.
    if (put.bytes == 0) return access_at(ctx, scope, op, op.flag);
    return access_at(ctx, scope, op, resolve_together(ctx, scope, data));
  } else {
    Destination where = op.flag;
    if (put.bytes != 0) resolve_together(ctx, scope, data, &where);
    return access_at(ctx, scope, op, where);
  }
}

/// The signal alone. By kRelaxed it need not vouch for what is ahead of it.
template <nic::Rings kRings, Order O = Order::kRelease, Reach R>
PEAL_DEVICE Ticket signal_alone(const BasicContext<R>& ctx, const Signal& what) {
  const auto note = [&] {
    CallNote signal = note_of(Call::kSignal, what.pe, what.word, sizeof(uint64_t), nullptr, 0);
    signal.word = what.word;
    signal.value = what.value;
    signal.adds = what.kind == Signal::Kind::kAdd ? 1 : 0;
    signal.releases = releases(O) ? 1 : 0;
    return signal;
  };
  return access_word<Ticket>(
      ctx, word_of(what, Call::kSignal), note,
      [what](const ContextFields&, std::byte* word) {
        signal_direct<O>(word, what);
        return Ticket{};
      },
      [what](const BasicContext<R>& context, const Destination& flag) {
        return post_signal<R, true, kRings>(context, flag, what);
      });
}

}  // namespace peal::detail

// SPDX-License-Identifier: Apache-2.0
//
// Operations that the host calls: in the order of a stream, or at once.
//
//   pe.on(stream).put(dst, src, n, peer);                    // returns; done in the stream's order
//   pe.host().all_reduce(team, dst, src, n, op::sum);        // returns when it is done
//   CallTicket put = pe.host_nbi().put(dst, src, n, peer);   // put.wait(), put.test()
//
// They are those of kernels (device/rma.h, signal.h, wait.h, atomics.h, sync.h, collectives.h) with
// the same addresses and the same meaning on the context they were asked for. "Returns when the
// source may be reused" becomes: what follows in the stream may reuse it. Calls of one context and
// team follow one another, those of kernels included: on two streams by an event between them. Of
// two that run at the same time the second does nothing and fails with kTeamBusy.
//
// A wrong argument throws Error kInvalidArgument, and nothing was given to the stream: a PE out of
// range, memory that is not symmetric or not registered, a team without this PE. What goes wrong
// later Runtime::check() throws, naming the call; wait() and the calls of host() throw it
// themselves. Every wait in a stream ends as those of kernels do (PEAL_TIMEOUT, a PE's end, abort).
//
// What a stream does for them: towards a PE whose memory is mapped put, get and Signal::set are a
// copy and a store of the stream, on a GPU without an SM; everything else is a small kernel. While
// a stream captures a CUDA graph all calls are kernels, which look up context, team and windows
// when the graph runs: it stays right across register_window, make_context, recover() and mask(),
// and where the team was freed the call fails with kBadTeam. wait() while capturing throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>

#include "device/base/scaled.h"
#include "device/reduce_op.h"
#include "device/shared/kernel_arguments.h"
#include "device/team.h"
#include "device/types.h"

namespace peal {

class CallEngine;
class StreamMark;

namespace detail {

/// Bytes between a file and memory of this PE.
struct FileCall {
  bool saves;
  std::string path;
  uint64_t offset;  // in the file; of a save 0
  std::byte* memory;
  size_t bytes;
};

/// Where calls go.
struct CallSite {
  CallEngine* engine;
  void* stream;
  ContextState* state;    // of the context
  uint32_t slot;          // its number
  bool by_nic;            // it has queues
  bool compares = false;  // the arguments of collective calls, among the members, before they begin
};

void start(const CallSite& site, kernels::TransferArguments call);
void start(const CallSite& site, kernels::Word call);
void start(const CallSite& site, const Team& team, kernels::Collective call);
void start(const CallSite& site, FileCall call);
/// Starts a call that answers a value, and waits for that.
uint64_t fetch(const CallSite& site, kernels::Word call);

template <class T>
constexpr size_t size_of() {
  if constexpr (std::is_void_v<T>) {
    return 1;
  } else {
    static_assert(std::is_trivially_copyable_v<T>);
    return sizeof(T);
  }
}

/// The bytes of `count` elements; kEndless, which is refused, where 64 bits do not hold that.
template <class T>
constexpr uint64_t length_of(size_t count) {
  return scaled_by<size_of<T>()>(count);
}

template <class T>
constexpr kernels::DataType data_type() {
  static_assert(kReducible<T>, "reductions are of integers, Half, BFloat16, float and double");
  using enum kernels::DataType;
  if constexpr (std::is_same_v<T, Half>) return f16;
  if constexpr (std::is_same_v<T, BFloat16>) return bf16;
  if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 4 ? f32 : f64;
  constexpr uint32_t kWidth = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  return static_cast<kernels::DataType>(kWidth + (std::is_signed_v<T> ? 0 : 4));
}

template <class Op>
constexpr kernels::Operation operation() {
  using enum kernels::Operation;
  if constexpr (std::is_same_v<Op, op::Sum>) return sum;
  if constexpr (std::is_same_v<Op, op::Product>) return product;
  if constexpr (std::is_same_v<Op, op::Min>) return min;
  if constexpr (std::is_same_v<Op, op::Max>) return max;
  if constexpr (std::is_same_v<Op, op::And>) return bit_and;
  if constexpr (std::is_same_v<Op, op::Or>) return bit_or;
  return bit_xor;
}

// Calls as data; what a function does not take is set behind it.

inline kernels::TransferArguments transfer_call(Call call, void* dst, const void* src, size_t bytes,
                                                int pe, const Signal& signal = {}) {
  kernels::TransferArguments made{};
  made.caller.call = call;
  made.caller.pe = pe;
  made.dst = static_cast<std::byte*>(dst);
  made.src = static_cast<const std::byte*>(src);
  made.bytes = bytes;
  made.signal = signal;
  return made;
}
inline kernels::Word word_call(Call call, const void* at = nullptr, uint64_t value = 0,
                               size_t bytes = 0, int pe = -1) {
  kernels::Word made{};
  made.caller.call = call;
  made.caller.pe = pe;
  made.word = const_cast<void*>(at);
  made.value = value;
  made.bytes = static_cast<uint32_t>(bytes);
  return made;
}
inline kernels::Word signal_call(const Signal& signal) {
  kernels::Word made =
      word_call(Call::kSignal, signal.word, signal.value, sizeof(uint64_t), signal.pe);
  made.kind = signal.kind;
  return made;
}
/// `value` as bits_of() has it.
inline kernels::Word wait_call(const void* at, size_t bytes, bool is_signed, Compare compare,
                               uint64_t value) {
  kernels::Word made = word_call(Call::kWaitUntil, at, value, bytes);
  made.compare = compare;
  made.is_signed = is_signed ? 1 : 0;
  return made;
}
/// `element` bytes each.
inline kernels::Collective collective_call(Call call, void* dst = nullptr,
                                           const void* src = nullptr, size_t count = 0,
                                           size_t element = 1, int root = -1) {
  kernels::Collective made{};
  made.caller.call = call;
  made.caller.pe = root;
  made.dst = static_cast<std::byte*>(dst);
  made.src = static_cast<const std::byte*>(src);
  made.count = count;
  made.element = element;
  return made;
}

/// The bits of a value, without a sign.
template <class T>
uint64_t bits_of(T value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(value));
  return bits;
}
template <class T>
T value_of(uint64_t bits) {
  T value;
  memcpy(static_cast<void*>(&value), &bits, sizeof(value));
  return value;
}

}  // namespace detail

/// A call under way.
class CallTicket {
 public:
  explicit CallTicket(const detail::CallSite& site);
  /// Returns when the call is done; throws what went wrong.
  void wait() const;
  /// True if wait() would not block.
  bool test() const;

 private:
  detail::CallSite site_;
  std::shared_ptr<const StreamMark> mark_;
};

/// What a call answers.
struct InOrder {
  using Answer = void;
  static void of(const detail::CallSite&) {}
};
struct AtOnce {
  using Answer = void;
  static void of(const detail::CallSite& site) { CallTicket(site).wait(); }
};
struct ByTicket {
  using Answer = CallTicket;
  static CallTicket of(const detail::CallSite& site) { return CallTicket(site); }
};

template <class Completion>
class Calls {
 public:
  using Answer = typename Completion::Answer;
  explicit Calls(const detail::CallSite& site) : site_(site) {}
  const detail::CallSite& site() const { return site_; }

  /// Counts are in elements of T, in bytes for void. Of none nothing is asked but the PE.
  template <class T>
  Answer put(T* dst, const std::type_identity_t<T>* src, size_t count, int pe) const {
    return move<T>(Call::kPut, dst, src, count, pe);
  }
  template <class T>
  Answer get(T* dst, const std::type_identity_t<T>* src, size_t count, int pe) const {
    return move<T>(Call::kGet, dst, src, count, pe);
  }
  /// Whoever sees the signal sees the data.
  template <class T>
  Answer put_signal(T* dst, const std::type_identity_t<T>* src, size_t count,
                    const Signal& signal) const {
    return move<T>(Call::kPutSignal, dst, src, count, signal.pe, signal);
  }
  /// Whoever sees it sees what this stream had put to that PE before.
  Answer signal(const Signal& what) const { return begin(detail::signal_call(what)); }

  /// One value of up to 8 bytes.
  template <class T>
  Answer p(T* dst, const std::type_identity_t<T>& value, int pe) const {
    return begin(word(Call::kP, dst, pe, detail::bits_of(value)));
  }
  /// Words have 4 or 8 bytes.
  template <class T>
  Answer atomic_set(T* dst, std::type_identity_t<T> value, int pe) const {
    return begin(word(Call::kAtomicSet, dst, pe, detail::bits_of(value)));
  }
  template <class T>
  Answer atomic_add(T* dst, std::type_identity_t<T> value, int pe) const {
    return begin(word(Call::kAtomicFetchAdd, dst, pe, detail::bits_of(value)));
  }
  template <class T>
  Answer atomic_inc(T* dst, int pe) const {
    return atomic_add(dst, T{1}, pe);
  }
  template <class T>
  Answer atomic_and(T* dst, std::type_identity_t<T> value, int pe) const {
    return begin(word(Call::kAtomicFetchAnd, dst, pe, detail::bits_of(value)));
  }
  template <class T>
  Answer atomic_or(T* dst, std::type_identity_t<T> value, int pe) const {
    return begin(word(Call::kAtomicFetchOr, dst, pe, detail::bits_of(value)));
  }
  template <class T>
  Answer atomic_xor(T* dst, std::type_identity_t<T> value, int pe) const {
    return begin(word(Call::kAtomicFetchXor, dst, pe, detail::bits_of(value)));
  }

  /// What follows in the stream waits until the word of this PE, of 4 or 8 bytes, compares so.
  template <class T>
  Answer wait_until(const T* address, Compare compare, std::type_identity_t<T> value) const {
    static_assert(std::is_integral_v<T>);
    return begin(detail::wait_call(address, sizeof(T), std::is_signed_v<T>, compare,
                                   detail::bits_of(value)));
  }

  /// Runtime::load() and save() in the stream's order: the file is opened when what is in the
  /// stream before is done, and what follows finds all of it. What fails later check() throws. At
  /// once Runtime has them. kUnsupported while the stream captures, and where a GPU's streams
  /// cannot wait for a word.
  Answer load(const std::string& path, uint64_t offset, void* symmetric, size_t bytes) const
      requires(!std::is_same_v<Completion, AtOnce>) {
    return begin(detail::FileCall{false, path, offset, static_cast<std::byte*>(symmetric), bytes});
  }
  Answer save(const std::string& path, const void* symmetric, size_t bytes) const
      requires(!std::is_same_v<Completion, AtOnce>) {
    auto* const from = static_cast<std::byte*>(const_cast<void*>(symmetric));
    return begin(detail::FileCall{true, path, 0, from, bytes});
  }

  Answer fence() const { return begin(detail::word_call(Call::kFence)); }
  Answer quiet() const { return begin(detail::word_call(Call::kQuiet)); }
  Answer sync_all() const { return begin(detail::word_call(Call::kSyncAll)); }
  Answer barrier_all() const { return begin(detail::word_call(Call::kBarrierAll)); }

  Answer sync(const Team& team) const { return together<char>(Call::kSync, team); }
  Answer barrier(const Team& team) const { return together<char>(Call::kBarrier, team); }
  template <class T>
  Answer broadcast(const Team& team, T* dst, const std::type_identity_t<T>* src, size_t count,
                   int root) const {
    return together<T>(Call::kBroadcast, team, dst, src, count, root);
  }
  template <class T>
  Answer all_gather(const Team& team, T* dst, const std::type_identity_t<T>* src,
                    size_t count) const {
    return together<T>(Call::kAllGather, team, dst, src, count);
  }
  template <class T>
  Answer all_to_all(const Team& team, T* dst, const std::type_identity_t<T>* src,
                    size_t count) const {
    return together<T>(Call::kAllToAll, team, dst, src, count);
  }
  /// The lists lie in memory of kernels; of what is received they are symmetric.
  template <class T>
  Answer all_to_all_v(const Team& team, T* dst, const Blocks<int64_t>& received,
                      const std::type_identity_t<T>* src, const Blocks<int64_t>& sent) const {
    kernels::Collective call = collective<T>(Call::kAllToAllV, dst, src, 1, -1);
    call.received_counts = received.counts;
    call.received_at = received.displacements;
    call.sent_counts = sent.counts;
    call.sent_at = sent.displacements;
    return begin(team, call);
  }
  template <class T, class Op>
  Answer all_reduce(const Team& team, T* dst, const std::type_identity_t<T>* src, size_t count,
                    Op) const {
    return reduction<T, Op>(Call::kAllReduce, team, dst, src, count);
  }
  template <class T, class Op>
  Answer reduce(const Team& team, T* dst, const std::type_identity_t<T>* src, size_t count, Op,
                int root) const {
    return reduction<T, Op>(Call::kReduce, team, dst, src, count, root);
  }
  template <class T, class Op>
  Answer reduce_scatter(const Team& team, T* dst, const std::type_identity_t<T>* src, size_t count,
                        Op) const {
    return reduction<T, Op>(Call::kReduceScatter, team, dst, src, count);
  }
  template <class T, class Op>
  Answer scan(const Team& team, T* dst, const std::type_identity_t<T>* src, size_t count,
              Op) const {
    return reduction<T, Op>(Call::kScan, team, dst, src, count);
  }
  template <class T, class Op>
  Answer exclusive_scan(const Team& team, T* dst, const std::type_identity_t<T>* src, size_t count,
                        Op) const {
    return reduction<T, Op>(Call::kExclusiveScan, team, dst, src, count);
  }

 protected:
  template <class T>
  static kernels::Word word(Call call, const T* address, int pe, uint64_t value) {
    return detail::word_call(call, address, value, sizeof(T), pe);
  }

  detail::CallSite site_;

 private:
  template <class Call>
  Answer begin(const Call& call) const {
    detail::start(site_, call);
    return Completion::of(site_);
  }
  Answer begin(const Team& team, const kernels::Collective& call) const {
    detail::start(site_, team, call);
    return Completion::of(site_);
  }
  template <class T>
  Answer move(Call call, void* dst, const void* src, size_t count, int pe,
              const Signal& signal = {}) const {
    return begin(detail::transfer_call(call, dst, src, detail::length_of<T>(count), pe, signal));
  }
  template <class T>
  static kernels::Collective collective(Call call, void* dst, const void* src, size_t count,
                                        int root) {
    return detail::collective_call(call, dst, src, count, detail::size_of<T>(), root);
  }
  template <class T>
  Answer together(Call call, const Team& team, void* dst = nullptr, const void* src = nullptr,
                  size_t count = 0, int root = -1) const {
    return begin(team, collective<T>(call, dst, src, count, root));
  }
  template <class T, class Op>
  Answer reduction(Call call, const Team& team, void* dst, const void* src, size_t count,
                   int root = -1) const {
    kernels::Collective made = collective<T>(call, dst, src, count, root);
    made.type = detail::data_type<T>();
    made.operation = detail::operation<Op>();
    return begin(team, made);
  }
};

using StreamCalls = Calls<InOrder>;
using TicketCalls = Calls<ByTicket>;

/// The calls that return when they are done, and those that answer a value.
class HostCalls : public Calls<AtOnce> {
 public:
  using Calls::Calls;

  /// One value of up to 8 bytes.
  template <class T>
  T g(const T* src, int pe) const {
    return fetch(Call::kG, src, pe);
  }
  /// Words have 4 or 8 bytes.
  template <class T>
  T atomic_fetch(const T* dst, int pe) const {
    return fetch(Call::kAtomicFetch, dst, pe);
  }
  template <class T>
  T atomic_swap(T* dst, std::type_identity_t<T> value, int pe) const {
    return fetch(Call::kAtomicSwap, dst, pe, value);
  }
  template <class T>
  T atomic_compare_swap(T* dst, std::type_identity_t<T> expected, std::type_identity_t<T> desired,
                        int pe) const {
    return fetch(Call::kAtomicCompareSwap, dst, pe, desired, expected);
  }
  template <class T>
  T atomic_fetch_add(T* dst, std::type_identity_t<T> value, int pe) const {
    return fetch(Call::kAtomicFetchAdd, dst, pe, value);
  }
  template <class T>
  T atomic_fetch_inc(T* dst, int pe) const {
    return atomic_fetch_add(dst, T{1}, pe);
  }
  template <class T>
  T atomic_fetch_and(T* dst, std::type_identity_t<T> value, int pe) const {
    return fetch(Call::kAtomicFetchAnd, dst, pe, value);
  }
  template <class T>
  T atomic_fetch_or(T* dst, std::type_identity_t<T> value, int pe) const {
    return fetch(Call::kAtomicFetchOr, dst, pe, value);
  }
  template <class T>
  T atomic_fetch_xor(T* dst, std::type_identity_t<T> value, int pe) const {
    return fetch(Call::kAtomicFetchXor, dst, pe, value);
  }

 private:
  template <class T>
  T fetch(Call call, const T* address, int pe, T value = {}, T expected = {}) const {
    kernels::Word asked = word(call, address, pe, detail::bits_of(value));
    asked.expected = detail::bits_of(expected);
    return detail::value_of<T>(detail::fetch(site_, asked));
  }
};

}  // namespace peal

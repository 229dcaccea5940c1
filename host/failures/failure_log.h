// SPDX-License-Identifier: Apache-2.0
//
// What went wrong on this PE: what its kernels ran into, what the NIC refused, which PEs are lost,
// who called the job off. All of it is collected here, and told to whoever asks or has left a
// callback, which a thread of its own calls: no other thread of peal waits for a callback.
//
// It is also here that waits are ended from outside, because a PE was lost, or because some PE
// called abort(), which it tells all others over the channel. Nothing is killed; a kernel ends
// because its waits do.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "host/base/log.h"
#include "host/contexts/context_owner.h"
#include "host/failures/failure.h"
#include "host/failures/first_word.h"
#include "host/failures/waits.h"
#include "host/job/live_group.h"

namespace peal {

/// Thread-safe.
class FailureLog {
 public:
  using Callback = std::function<void(const Failure&)>;

  FailureLog(ContextTable& contexts, LiveGroup& group, PlaceOf place_of, const Log& log);
  /// As end_callback().
  ~FailureLog();
  FailureLog(const FailureLog&) = delete;
  FailureLog& operator=(const FailureLog&) = delete;

  /// The first failure, or one with status kOk. Where there is no other, the waits that ended at
  /// their deadline, a sentence each. Whoever asks has been told of it, as by status() and check().
  Failure first() const;
  /// Its status, of which nobody has been told by this.
  Status peek() const;
  /// Throws it, if there is one: kPeerLost, or kSystem for all else.
  void check() const;
  /// What all kernels of this PE wait for, and have waited for in vain.
  std::vector<WaitNote> waits() const;
  /// Cheap while all is well: words in host memory.
  Status status() const;

  /// Called once with first(), when there is one. Until then alarm words are looked at every
  /// millisecond; without a callback there is no thread.
  void on_failure(Callback callback);
  /// Waits for a callback under way, and calls none any more: what it may use is about to end.
  void end_callback();

  /// To be called after a recovery: the callback is called again, for failures that come from now
  /// on.
  void start_again();
  /// All PEs that were lost are masked. Waits for the end of what their loss does: a recovery that
  /// follows would else be undone by it.
  void forget_losses() {
    const std::lock_guard lock(losing_);
    lost_ns_ = 0;
  }
  /// From here leaving is no failure.
  void close() { closing_ = true; }

  /// Each kLookPeriod, by the watcher: says the first failure of a kernel on stderr unless somebody
  /// has been told of it, and ends waits for what PEs that have left would have done.
  static constexpr std::chrono::milliseconds kLookPeriod{100};
  void look();
  /// The first failure that nobody has been told of, but by look(); status kOk: there is none.
  Failure untold() const;

  /// The context is about to be destroyed: its failure stays for untold().
  void keep_of(const ContextOwner& context);

  /// The process of `pe` has ended: ends all waits.
  void peer_lost(int pe, int pid);
  /// The same of a PE of another host, that was found to be lost.
  void far_peer_lost(int pe, Departure how);
  /// A Message::Kind::kLost, from the watcher.
  void hear_of_loss(const Message& message);
  /// A Message::Kind::kLeft, from the watcher.
  void peer_left(const Message& message);
  /// To be called after all messages that the watcher has: ends all waits if a PE has left, but not
  /// in order.
  void lose_leavers();
  /// Ends the waits of `context`, or of all there are, on all PEs that live. Never blocks. Throws
  /// kInvalidArgument where the context is none of this PE.
  void abort(const ContextFields* context, std::string_view reason);
  /// A Message::Kind::kAbort.
  void deliver(const Message& message);

 private:
  // What an abort ends; the words of its message.
  struct Aborted {
    static constexpr uint64_t kAllContexts = kMaxContexts;
    uint64_t generation = 0;       // counts recoveries, as the table does
    uint64_t slot = kAllContexts;  // or that of one context
    uint64_t serial = 0;           // the newest context's, or that one's
    std::array<uint64_t, 4> words() const { return {generation, slot, serial, 0}; }
    bool operator==(const Aborted&) const = default;
  };

  void watch();
  Failure earliest() const;
  Failure timeouts_among(const std::vector<WaitNote>& waits) const;
  void say_first();
  void lose(int pe);
  std::string how_left(int pe) const;
  /// It has left the job to meet all again, and its process lives.
  bool rejoins(int pe) const;
  void tell_callback(std::unique_lock<std::mutex>& lock);
  void attempt(const std::function<void()>& body) const;
  void look_now();
  void stop(const Failure& why, const Aborted& what) const;

  ContextTable& contexts_;
  LiveGroup& group_;
  const PlaceOf place_of_;
  const Log log_;
  std::atomic<uint64_t> lost_ns_{0};  // when the first PE was lost that is not masked
  std::atomic<bool> closing_{false};
  mutable FirstWord word_;  // of the first failure: to who asked, or by look()

  std::mutex losing_;  // held while a PE is made a lost one, and waits are ended
  std::mutex abort_mutex_;
  std::map<int, Aborted> told_abort_;  // by PE: what it was told last, once

  // Used by look() alone:
  std::vector<int> leavers_;  // not lost yet
  uint64_t timeout_ns_ = 0;   // when the timeout ended that the last look found
  VainWaits vain_waits_;

  mutable std::mutex mutex_;           // guards what follows
  std::optional<Failure> of_dropped_;  // contexts: the first
  std::condition_variable changed_;
  Callback callback_;
  bool due_ = false;   // not called since it was installed, or since a recovery
  bool news_ = false;  // something was done from outside
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace peal

// SPDX-License-Identifier: Apache-2.0
//
// Links that are not there from the start: when a kernel first wants a queue to a PE, the two PEs'
// linkers, and nobody else, take the link of its context through its states (link_machine.h). They
// talk over the channel:
//
//   the PE that wants                      the other
//   ends ------------------------------>   make; ends back; connect; connected ->
//   connect; connected ---------------->
//   prove; proven --------------------->   prove; proven ->
//   open                                   open
//
// Both may begin at once; then each takes the other's ends for the answer. A thread of its own,
// which never waits for a PE or for a test: it looks at all that is under way, a round at a time.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "host/base/config.h"
#include "host/base/log.h"
#include "host/contexts/context_owner.h"
#include "host/contexts/link_tester.h"
#include "host/job/live_group.h"
#include "host/memory/gpu.h"

namespace peal {

class Linker {
 public:
  /// `gpu` is that of the kernels, null when they run on the CPU.
  Linker(LiveGroup& group, ContextTable& contexts, LinkTester& link_tester,
         std::shared_ptr<Gpu> gpu, const Config& config, const Log& log);
  ~Linker() { stop(); }
  Linker(const Linker&) = delete;
  Linker& operator=(const Linker&) = delete;

  /// Ends the thread; what is delivered later is dropped.
  void stop();

  /// Kernels of the context in `slot` may ask for `links` from now on; 0: no more.
  void expect(uint32_t slot, uint32_t links);

  /// A Message::Kind::kLink. Thread-safe.
  void deliver(Message message);

  /// All that was under way is void; while paused.
  void forget();

  /// On return the thread has let go of contexts that nobody else owns any more.
  void let_go() { const auto ended = pause(); }

  /// Nothing is made, connected or proven while the lock is held. Waits for a round at most.
  std::unique_lock<std::mutex> pause() { return std::unique_lock(round_mutex_); }

 private:
  enum class Step : uint32_t { kEnds, kConnected, kTested, kRefused };
  /// Which link.
  struct Name {
    uint32_t slot;
    uint64_t serial;
    int pe;
    auto operator<=>(const Name&) const = default;
    uint32_t peer() const { return static_cast<uint32_t>(pe); }
  };
  struct Outgoing {
    Name link;
    uint64_t step;  // Step, with the first of the payload's queues above it
    std::vector<std::byte> payload;
  };
  /// What is remembered of a link that is neither open nor none.
  struct UnderWay {
    std::vector<Endpoint> ends;  // of the other, until all are here
    std::optional<LinkTester::Test> test;
    bool passed_there = false;
    std::string failed;  // why, for kernels that ask later
  };
  using Owner = std::shared_ptr<ContextOwner>;

  /// What the thread sleeps for.
  template <class Edit>
  void change(const Edit& edit) {
    const std::lock_guard lock(mutex_);
    edit();
    changed_.notify_all();
  }
  void run();
  void round(std::vector<Message> news);
  std::vector<Name> requested();
  Owner context_of(const Name& link) const;
  void attempt(const std::function<void()>& body) const;
  void advance(ContextOwner& context, const Name& link, const std::function<void()>& step);
  void advance_proofs();
  void want(ContextOwner& context, const Name& link);
  void take(const Message& message);
  void take_ends(ContextOwner& context, const Name& link, uint32_t first,
                 const std::vector<std::byte>& payload);
  void take_connected(ContextOwner& context, const Name& link);
  void take_refusal(ContextOwner& context, const Name& link, const std::string& why);
  void make(ContextOwner& context, const Name& link);
  void passed_here(ContextOwner& context, const Name& link);
  void open_if_passed(ContextOwner& context, const Name& link);
  void refuse(ContextOwner& context, const Name& link, const std::string& why);
  void send_refusal(const Name& link, const std::string& why);
  void fail(ContextOwner& context, const Name& link, const std::string& why);
  void send(const Name& link, Step step, uint32_t first, std::span<const std::byte> payload);
  void send_what_waits();

  LiveGroup& group_;
  ContextTable& contexts_;
  LinkTester& link_tester_;
  const std::shared_ptr<Gpu> gpu_;
  const bool self_test_;
  const std::chrono::nanoseconds patience_;
  const Log log_;

  std::mutex round_mutex_;  // guards what follows; the thread has it for a round at a time
  std::map<Name, UnderWay> under_way_;
  std::vector<Outgoing> waiting_;  // for room at their receivers

  std::array<std::atomic<uint32_t>, kMaxContexts> to_come_{};  // links, by slot

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Message> inbox_;
  bool ending_ = false;
  bool expecting_ = false;  // somebody may ask; the next round finds out

  std::thread thread_;  // last: uses all of the above
};

}  // namespace peal

// SPDX-License-Identifier: Apache-2.0
//
// Links that are not there from the start (host/transport/links.h): when a kernel first wants a
// queue to a PE, all queues of its context to that PE are made and connected, at both ends, by the
// two PEs' linkers and nobody else. They talk over the channel:
//
//   the PE that wants                      the other
//   ends ------------------------------>   make; ends back; connect; connected ->
//   connect; connected ---------------->
//   prove; proven --------------------->   prove; proven ->
//   open                                   open
//
// Both may begin at once; then each takes the other's ends for the answer. A thread of its own:
// proving waits for the NIC, and the watcher must not.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "host/channel.h"
#include "host/context_owner.h"
#include "host/runtime.h"
#include "host/transport/connection.h"

namespace peal {

class Linker {
 public:
  explicit Linker(Runtime::State& state);
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

  /// Nothing is made, connected or proven while the lock is held.
  std::unique_lock<std::mutex> pause() { return std::unique_lock(at_work_); }

 private:
  enum class Step : uint32_t { kEnds, kConnected, kProven, kRefused };
  /// Which link.
  struct Name {
    uint32_t slot;
    uint64_t serial;
    int pe;
    auto operator<=>(const Name&) const = default;
  };
  struct Letter {
    Name link;
    uint64_t step;  // Step, with the first of the payload's queues above it
    std::vector<std::byte> payload;
  };
  using Context = std::shared_ptr<ContextOwner>;

  void run();
  void round(std::vector<Message> news);
  std::vector<Name> wishes();
  Context context_of(const Name& link) const;
  void attempt(const std::function<void()>& body) const;
  void advance(ContextOwner& context, const Name& link, const std::function<void()>& step);
  void want(ContextOwner& context, const Name& link);
  void take(const Message& message);
  void take_ends(ContextOwner& context, const Name& link, uint32_t first,
                 const std::vector<std::byte>& payload);
  void take_connected(ContextOwner& context, const Name& link);
  void take_proven(ContextOwner& context, const Name& link);
  void take_refusal(ContextOwner& context, const Name& link, const std::string& why);
  void make(ContextOwner& context, const Name& link);
  std::vector<SelfTestResult> prove(Queues& queues, const Name& link);
  bool over(const Name& link);
  void set_link(Queues& queues, const Name& link, Link state);
  void refuse(ContextOwner& context, const Name& link, const std::string& why);
  void send_refusal(const Name& link, const std::string& why);
  void fail(ContextOwner& context, const Name& link, const std::string& why);
  void send(const Name& link, Step step, uint32_t first, std::vector<std::byte> payload);
  void send_what_waits();

  Runtime::State& state_;
  std::mutex at_work_;
  // Of the thread alone, or of who holds at_work_.
  std::map<Name, std::vector<Endpoint>> ends_;  // of the others, until all of a link are here
  std::map<Name, std::string> failed_;          // why, for kernels that ask later
  std::vector<Letter> waiting_;                 // for room at their receivers
  std::array<std::atomic<uint32_t>, kMaxContexts> to_come_{};  // links, by slot

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Message> inbox_;
  bool looked_for_ = false;  // somebody may ask
  std::atomic<bool> ending_{false};
  std::thread thread_;  // last: uses all of the above
};

}  // namespace peal

// SPDX-License-Identifier: Apache-2.0
//
// Rank 0's door: others connect, say hello (rank, size) and prove that they know the job's secret
// (proof.h). Who does not is dropped, who does not fit is refused with a reason, and one connection
// per rank is kept. The door stays open as long as the job, so that a second process with a rank
// that is taken hears why it cannot join. A stranger costs one descriptor of at most kPending and
// no waiting.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "bootstrap/bootstraps.h"
#include "bootstrap/proof.h"
#include "bootstrap/wire.h"

namespace peal::bootstrap {

/// Turns off the delay of small messages.
void send_at_once(const Fd& socket);

class Door {
 public:
  Door(TcpRoot root, int size);

  /// How long ranks that come late are told that another one has died: a busy host starts some
  /// later, and of a first connection Linux repeats what was lost after 1 and after 3 s.
  static constexpr std::chrono::seconds kLatecomers{5};

  /// Admits until everybody is in or the time is over. Once somebody who was in is gone it waits
  /// for `latecomers` at most: who comes too late would ask for a rank 0 that has ended.
  void admit_all(TimePoint until, std::chrono::seconds latecomers);

  std::vector<int> missing() const;
  /// The first that was in and is gone.
  std::optional<int> lost() const {
    return gone_.empty() ? std::nullopt : std::optional(gone_.front());
  }

  /// Ranks that a second process claimed; a wrong number explains why another is missing.
  const std::set<int>& claimed_twice() const { return claimed_twice_; }

  /// What callers of other versions of peal, which are not heard, began their hellos with.
  const std::set<std::string>& other_versions() const { return other_versions_; }

  /// Connections by rank, to be taken once. From then on every rank is taken.
  std::vector<Fd> take_peers() { return std::move(peers_); }

  /// Goes on answering callers until `stop` becomes readable.
  void refuse_until(const Fd& stop);

 private:
  struct Caller {
    Fd socket;
    Hello hello;
    std::optional<Challenge> challenge;  // sent, once the hello was whole
    Proof proof{};
    std::size_t got = 0;  // bytes of the hello, then of the proof
  };

  bool answer_some(std::vector<pollfd> watched, TimePoint until);
  void accept_one();
  void listen_to(Caller& caller);
  void challenge(Caller& caller);
  void judge(Caller caller);

  TcpRoot root_;
  std::size_t size_;
  std::vector<Fd> peers_;
  std::deque<Caller> callers_;
  std::vector<int> gone_;  // ranks that were in, the first first
  std::set<int> claimed_twice_;
  std::set<std::string> other_versions_;
};

/// The thread that stands at the door while the job runs.
class Doorkeeper {
 public:
  explicit Doorkeeper(Door door);
  ~Doorkeeper();
  Doorkeeper(const Doorkeeper&) = delete;
  Doorkeeper& operator=(const Doorkeeper&) = delete;

 private:
  Door door_;
  Fd stop_;
  std::thread thread_;
};

}  // namespace peal::bootstrap

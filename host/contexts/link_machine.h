// SPDX-License-Identifier: Apache-2.0
//
// The links of one context. A link is all its queues between two PEs: made, connected, proven and
// opened as one, by events that both ends go through alike.
//
//             make        connect         proven           open
//     none ---------> made ------> connected ------> proven ------> open
//       ^                                                             |
//       +------------- forget (recovery), also from failed            | fail, from any but none
//                                                                     v
//                                                                  failed
//
//   made       queue pairs exist and have numbers, which the other end may know
//   connected  can receive, and send
//   proven     the other end is connected, too, and this end's queues have passed their test
//   open       and so have the other's: kernels may use them
//
// Two drivers send the events: all PEs together, by allgathers (contexts.cc, recovery.cc), and the
// two PEs of a link, over the channel (linker.h). One thread at a time drives the links of a
// context; anybody may ask how they stand.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "host/failures/failure.h"
#include "host/transport/queues.h"

namespace peal {

enum class LinkState : uint8_t { kNone, kMade, kConnected, kTested, kOpen, kFailed };

/// What a queue needs to work again: nothing, to be connected anew, or that its link is forgotten.
enum class Repair : uint8_t { kNone, kReconnect, kForget };

class LinkMachine {
 public:
  /// `requests` by PE are the words by which kernels ask for links.
  LinkMachine(std::unique_ptr<Queues> queues, uint32_t* requests);

  Queues& queues() { return *queues_; }
  const Queues& queues() const { return *queues_; }
  /// The numbers of the queues of the link to one PE.
  std::vector<uint32_t> queues_to(uint32_t pe) const;

  LinkState state(uint32_t pe) const;
  /// Links that are not open: kernels may yet ask for them.
  uint32_t to_come() const;
  /// Why links have failed.
  std::vector<Failure> failures() const;

  /// Answers what the peer has to know of the ends, by queue. Takes long.
  std::vector<Endpoint> make(uint32_t pe);
  /// `ends` are the peer's. `generation` is the same at both. Takes long.
  void connect(uint32_t pe, std::span<const Endpoint> ends, uint32_t generation);
  void tested(uint32_t pe) { set(pe, LinkState::kTested); }
  void open(uint32_t pe);
  /// Every operation on the link's queues answers why.status from now on.
  void fail(uint32_t pe, const Failure& why);

  /// What each queue needs, as far as this end tells.
  std::vector<Repair> needed() const;
  /// The three steps of a repair, between which all PEs meet. `repairs` are those that both ends
  /// agreed on. For a time without kernels.
  void reset(std::span<const Repair> repairs);
  void reconnect(std::span<const Repair> repairs, uint32_t generation);
  void reopen(std::span<const Repair> repairs);

 private:
  void set(uint32_t pe, LinkState state);

  std::unique_ptr<Queues> queues_;
  uint32_t* requests_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<LinkState> states_;
  std::map<uint32_t, Failure> failures_;  // by PE
};

}  // namespace peal

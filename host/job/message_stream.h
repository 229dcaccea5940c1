// SPDX-License-Identifier: Apache-2.0
//
// Messages from one PE to another and back, whole and in order, over packets that get lost, come
// twice or out of order. No socket and no clock of its own:
//
//   push(message) -> parts 1, 2, ... -> due(now) ... lost ... due(later), all again
//   take(part): the next one -> answers the message that it completes; any other is dropped
//   acknowledged(n): parts up to n have come
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "host/job/packet.h"

namespace peal {

class MessageStream {
 public:
  using Time = std::chrono::nanoseconds;
  struct Part {
    uint64_t sequence;
    bool first;  // of its message
    uint32_t total;
    std::vector<std::byte> bytes;
  };

  static constexpr size_t kMostParts = 64;         // under way: they fit a socket's buffer
  static constexpr size_t kMostBytes = 48u << 10;  // of a message
  static constexpr Time kFirstPatience = std::chrono::milliseconds(100);
  static constexpr Time kLongestPatience = std::chrono::seconds(1);

  /// False, and nothing done, where too many parts are under way.
  bool push(std::span<const std::byte> head, std::span<const std::byte> payload);
  /// Calls send(part) for each that was not sent yet, and for all that were where their
  /// acknowledgement has not come in time.
  template <class Send>
  void due(Time now, const Send& send) {
    const bool again = sent_ != 0 && now - waiting_since_ > patience_;
    if (again) {
      sent_ = 0;
      patience_ = std::min(2 * patience_, kLongestPatience);
    }
    if (sent_ == 0) waiting_since_ = now;
    for (; sent_ < parts_.size(); ++sent_) send(parts_[sent_]);
  }
  void acknowledged(uint64_t sequence, Time now);
  /// True where all that was pushed has come.
  bool idle() const { return parts_.empty(); }

  /// A part that has come; answers the message that it ends.
  std::optional<std::vector<std::byte>> take(uint64_t sequence, bool first, uint32_t total,
                                             std::span<const std::byte> bytes);
  /// The newest part of those that came without a gap.
  uint64_t taken() const { return taken_; }

 private:
  std::deque<Part> parts_;  // not acknowledged
  size_t sent_ = 0;         // of these
  Time waiting_since_{0};   // for an acknowledgement of the first of them
  Time patience_ = kFirstPatience;
  uint64_t pushed_ = 0;

  uint64_t taken_ = 0;
  std::vector<std::byte> message_;  // as far as it has come
};

}  // namespace peal

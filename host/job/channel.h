// SPDX-License-Identifier: Apache-2.0
//
// Short messages between the PEs of one host, beside the bootstrap: it still works when a PE has
// died, and whoever sends never waits. Datagrams over Unix sockets with abstract names.
//
// A message counts only if it comes from this user and carries the job's secret, which the PEs were
// told through the bootstrap. That keeps other users and other jobs out, not this user's programs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/fd.h"
#include "host/bootstrap.h"

namespace peal {

/// One message. What the words and the payload mean is the matter of its kind.
struct Message {
  enum class Kind : uint32_t {
    kAbort,
    kExchange,
    kLink,
    kWaitsAsked,
    kWaitsTold,
    kDescriptors,
    kLeft
  };
  Kind kind;
  int32_t from;
  std::array<uint64_t, 4> word;
  std::vector<std::byte> payload;
  std::vector<Fd> descriptors = {};  // copies of the sender's
};

/// The channel of one PE. Sending is thread-safe; one thread receives.
class Channel {
 public:
  static constexpr size_t kMaxPayload = 32u << 10;
  static constexpr size_t kMaxDescriptors = 64;  // in one message; Linux has a limit of 253

  /// Collective. Opens this PE's socket and learns where the others have theirs.
  explicit Channel(Bootstrap& bootstrap);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Readable when a message waits.
  int fd() const { return fd_.get(); }

  enum class Sent {
    kDone,
    kFull,  // the peer does not keep up: try again
    kGone,  // nobody listens there
  };
  Sent send(int pe, Message::Kind kind, const std::array<uint64_t, 4>& word,
            std::span<const std::byte> payload, std::span<const Fd> descriptors = {}) const;

  /// The next message, if one waits. Strangers' are dropped.
  std::optional<Message> receive() const;

 private:
  struct Address {
    std::array<char, 48> name;  // abstract: without the leading zero byte
    std::array<std::byte, 16> secret;
  };
  struct Header {
    std::array<std::byte, 16> secret;
    Message::Kind kind;
    int32_t from;
    std::array<uint64_t, 4> word;
  };
  Address open();

  Fd fd_;
  int rank_;
  std::vector<Address> addresses_;  // by PE
};

}  // namespace peal

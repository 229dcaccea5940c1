// SPDX-License-Identifier: Apache-2.0
//
// Short messages between PEs, beside the bootstrap: it still works when a PE has died, and whoever
// sends never waits. Inside a host datagrams over Unix sockets with abstract names; between hosts,
// or network namespaces, UDP (udp_channel.h).
//
// A message counts only if it comes from this user and carries the job's secret, which the PEs were
// told through the bootstrap, or, by UDP, a proof that its sender knows that. It keeps other users
// and other jobs out, not this user's programs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "host/base/place.h"
#include "host/bootstrap.h"
#include "host/job/udp_channel.h"

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
    kLeft,
    kLost
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

  /// Collective. Opens this PE's socket and learns where the others have theirs. Sends to PEs of
  /// other hosts are refused (kGone).
  explicit Channel(Bootstrap& bootstrap);
  /// The same, with a UDP socket for PEs that are elsewhere as `places` (by PE) tell, if there are
  /// any; at the address of this host that `interface` means (host/base/address.h).
  Channel(Bootstrap& bootstrap, std::span<const Place> places, const std::string& interface);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Readable when a message of this host waits.
  int fd() const { return fd_.get(); }
  /// One of them is readable when a message waits.
  std::vector<int> fds() const;

  using Sent = UdpChannel::Sent;
  Sent send(int pe, Message::Kind kind, const std::array<uint64_t, 4>& word,
            std::span<const std::byte> payload, std::span<const Fd> descriptors = {}) const;

  /// What a PE that ends says, whose end nothing may delay: a payload of at most 1,000 bytes comes
  /// whole, but need not come from one host to another. Allocates nothing, takes no lock.
  Sent send_last(int pe, Message::Kind kind, const std::array<uint64_t, 4>& word,
                 std::span<const std::byte> payload) const noexcept;

  /// The way to PEs of other hosts; null where there are none.
  UdpChannel* udp() const { return udp_.get(); }
  /// True of a PE to which that way leads.
  bool by_udp(int pe) const { return udp_ != nullptr && by_udp_[static_cast<size_t>(pe)]; }

  /// The next message, if one waits. Strangers' are dropped.
  std::optional<Message> receive() const;

 private:
  struct Address {
    std::array<char, 48> name;  // abstract: without the leading zero byte
    JobSecret secret;
    UdpChannel::Address udp;
  };
  /// What precedes the payload of a message between hosts.
  struct UdpHead {
    Message::Kind kind;
    std::array<uint64_t, 4> word;
  };
  struct Header {
    JobSecret secret;
    Message::Kind kind;
    int32_t from;
    std::array<uint64_t, 4> word;
  };
  void open_udp(std::span<const Place> places, const std::string& interface);
  Address open();
  Sent send_here(int pe, Message::Kind kind, const std::array<uint64_t, 4>& word,
                 std::span<const std::byte> payload, std::span<const Fd> descriptors) const;
  std::optional<Message> receive_here() const;
  std::optional<Message> receive_udp() const;

  Fd fd_;
  int rank_;
  std::unique_ptr<UdpChannel> udp_;
  std::vector<bool> by_udp_;        // by PE
  std::vector<Address> addresses_;  // by PE
};

}  // namespace peal

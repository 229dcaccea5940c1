// SPDX-License-Identifier: Apache-2.0
//
// Messages to the PEs of other hosts, over one UDP socket: no connection, no thread and no
// descriptor a peer, and memory only for those that are talked to.
//
//   send()       whole, in order and again until it has come (message_stream.h)
//   send_once()  one datagram, and a second one: a last word, also of a handler of a signal
//   receive()    what has come; answers packets that ask for it
//   look()       now and then: what was not acknowledged is sent again
//
// What a network says of a port that nobody listens at (ICMP) is noted of PEs that were heard
// before: their process has ended.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/internet.h"
#include "base/run_clock.h"
#include "host/job/message_stream.h"
#include "host/job/packet.h"

namespace peal {

/// Thread-safe.
class UdpChannel {
 public:
  using Time = std::chrono::nanoseconds;
  /// Where a PE has its socket; plain bytes.
  struct Address {
    std::array<char, 32> host;  // what its host calls itself
    InternetAddress internet{};
    uint16_t port = 0;  // 0: it has none
  };
  /// What is known of a PE from what came from it.
  struct Heard {
    bool ever = false;
    bool refused = false;  // its port is closed: the network said so twice, and nothing came since
    Time at{0};            // the last time
  };

  /// Opens the socket, at the address of this host that `interface` means (host/base/address.h).
  UdpChannel(int rank, const std::string& interface);
  UdpChannel(const UdpChannel&) = delete;
  UdpChannel& operator=(const UdpChannel&) = delete;

  const Address& address() const { return address_; }
  /// `addresses` has one for each PE, in their order. To be called before anything else.
  void connect(const JobSecret& secret, std::vector<Address> addresses);

  int fd() const { return fd_.get(); }
  enum class Sent {
    kDone,
    kFull,  // the peer does not keep up: try again
    kGone,  // nobody listens there
  };
  Sent send(int pe, std::span<const std::byte> head, std::span<const std::byte> payload);
  /// `head` and `payload` together at most kPartBytes. Allocates nothing, takes no lock.
  void send_once(int pe, std::span<const std::byte> head,
                 std::span<const std::byte> payload) noexcept;
  /// The next message, and the PE that it is from.
  std::optional<std::pair<int, std::vector<std::byte>>> receive();
  void look();
  /// `pe` is lost: nothing is sent to it any more, not even an answer. If it runs on, cut off from
  /// another host than this one, it has to lose this one, too.
  void forget(int pe);
  /// Asks `pe` for an answer.
  void ask(int pe);
  Heard heard(int pe) const;
  /// The PEs that were sent something, or asked, `longer_ago` than this and were never heard, but
  /// for those that are forgotten. Each is reported once.
  std::vector<int> unheard(Time longer_ago);
  /// True where all that was sent to `pes` has come, but for those whose process has ended.
  bool idle(const std::vector<int>& pes) const;
  /// What the host of `pe` calls itself.
  std::string host_of(int pe) const { return addresses_[static_cast<size_t>(pe)].host.data(); }
  /// "UDP 10.0.0.2:4711 of host b".
  std::string describe(int pe) const;

  static Time now() { return Time(static_cast<Time::rep>(running_ns())); }

 private:
  struct Peer {
    MessageStream stream;
    Heard heard;
    int refusals = 0;   // since it was heard
    bool owes = false;  // an acknowledgement
    bool lost = false;
    std::optional<Time> spoken_to;  // the first time; none once it was told as unheard
  };
  bool transmit(int pe, const SealedPacket& packet) const noexcept;
  void send_due(int pe, Peer& peer);
  void pay(int pe, Peer& peer);
  void note_refusals();
  std::optional<std::pair<int, std::vector<std::byte>>> take(std::span<const std::byte> datagram);
  /// A peer that is sent something.
  Peer& peer(int pe);

  int rank_;
  int family_ = AF_INET6;  // takes addresses of IPv4 as well
  Fd fd_;
  Address address_{};
  JobSecret secret_{};
  std::vector<Address> addresses_;
  mutable std::mutex mutex_;
  std::map<int, Peer> peers_;
};

}  // namespace peal

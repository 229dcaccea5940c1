// SPDX-License-Identifier: Apache-2.0
#include "host/job/udp_channel.h"

#include <fmt/format.h>
#include <linux/errqueue.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/host_name.h"
#include "host/base/address.h"
#include "host/base/error.h"

namespace peal {
namespace {

// A refusal that the network told is answered to the next call: not to that one's packet.
constexpr int kAttempts = 4;
constexpr int kRefusals = 2;        // one may be a firewall's that is loaded anew
constexpr int kMostPackets = 1000;  // taken at once: nobody can keep a PE at it

void set(const Fd& socket, int level, int option, int value, const char* name) {
  if (::setsockopt(socket.get(), level, option, &value, sizeof(value)) != 0) {
    fail_errno(errno, fmt::format("setsockopt({})", name));
  }
}

// Which call of MSG_ERRQUEUE tells of an answer, by the socket's family.
bool tells_of_error(const cmsghdr& c) {
  return (c.cmsg_level == IPPROTO_IP && c.cmsg_type == IP_RECVERR) ||
         (c.cmsg_level == IPPROTO_IPV6 && c.cmsg_type == IPV6_RECVERR);
}

}  // namespace

UdpChannel::UdpChannel(int rank, const std::string& interface) : rank_(rank) {
  fd_ = Fd(::socket(family_, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd_ && errno == EAFNOSUPPORT) {  // a kernel without IPv6
    family_ = AF_INET;
    fd_ = Fd(::socket(family_, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  }
  if (!fd_) fail_errno(errno, "socket(SOCK_DGRAM)");
  set(fd_, IPPROTO_IP, IP_RECVERR, 1, "IP_RECVERR");
  if (family_ == AF_INET6) {
    set(fd_, IPPROTO_IPV6, IPV6_RECVERR, 1, "IPV6_RECVERR");
    set(fd_, IPPROTO_IPV6, IPV6_V6ONLY, 0, "IPV6_V6ONLY");
  }
  // At any address: what comes in by another interface counts as well.
  const SocketAddress any(family_, {}, 0);
  if (::bind(fd_.get(), any.get(), any.length()) != 0) fail_errno(errno, "bind of a UDP socket");
  address_.port = bound_to(fd_.get()).port();
  address_.internet = *parse_internet(find_address(interface));
  const std::string name = host_name();
  std::copy_n(name.begin(), std::min(name.size(), address_.host.size() - 1), address_.host.begin());
}

void UdpChannel::connect(const JobSecret& secret, std::vector<Address> addresses) {
  secret_ = secret;
  addresses_ = std::move(addresses);
}

UdpChannel::Peer& UdpChannel::peer(int pe) {
  const auto [known, fresh] = peers_.try_emplace(pe);
  if (fresh) known->second.spoken_to = now();
  return known->second;
}

std::vector<int> UdpChannel::unheard(Time longer_ago) {
  const std::lock_guard lock(mutex_);
  std::vector<int> found;
  for (auto& [pe, known] : peers_) {
    if (known.heard.ever || known.lost || !known.spoken_to) continue;
    if (now() - *known.spoken_to <= longer_ago) continue;
    known.spoken_to.reset();
    found.push_back(pe);
  }
  return found;
}

bool UdpChannel::transmit(int pe, const SealedPacket& packet) const noexcept {
  const Address& there = addresses_[static_cast<size_t>(pe)];
  if (family_ == AF_INET && !is_ipv4(there.internet)) return false;
  const SocketAddress to(family_, there.internet, there.port);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (::sendto(fd_.get(), packet.bytes.data(), packet.length, MSG_DONTWAIT | MSG_NOSIGNAL,
                 to.get(), to.length()) >= 0) {
      return true;
    }
  }
  return false;
}

UdpChannel::Sent UdpChannel::send(int pe, std::span<const std::byte> head,
                                  std::span<const std::byte> payload) {
  const std::lock_guard lock(mutex_);
  Peer& to = peer(pe);
  if (addresses_[static_cast<size_t>(pe)].port == 0 || to.heard.refused || to.lost) {
    return Sent::kGone;
  }
  if (!to.stream.push(head, payload)) return Sent::kFull;
  send_due(pe, to);
  return Sent::kDone;
}

void UdpChannel::send_once(int pe, std::span<const std::byte> head,
                           std::span<const std::byte> payload) noexcept {
  if (addresses_[static_cast<size_t>(pe)].port == 0) return;
  std::array<std::byte, kPartBytes> message;
  const size_t rest = std::min(payload.size(), message.size() - head.size());
  std::ranges::copy(head, message.begin());
  std::copy_n(payload.begin(), rest, message.begin() + static_cast<ptrdiff_t>(head.size()));
  const size_t bytes = head.size() + rest;
  const SealedPacket packet = seal(secret_,
                                   {.from = rank_,
                                    .to = pe,
                                    .total = static_cast<uint32_t>(bytes),
                                    .flags = PacketHeader::kFirst | PacketHeader::kOnce},
                                   std::span(message).first(bytes));
  for (int time = 0; time < 2; ++time) transmit(pe, packet);
}

void UdpChannel::send_due(int pe, Peer& to) {
  to.stream.due(now(), [&](const MessageStream::Part& part) {
    transmit(pe, seal(secret_,
                      {.from = rank_,
                       .to = pe,
                       .sequence = part.sequence,
                       .acknowledged = to.stream.taken(),
                       .total = part.total,
                       .flags = part.first ? PacketHeader::kFirst : 0u},
                      part.bytes));
    to.owes = false;
  });
}

void UdpChannel::pay(int pe, Peer& to) {
  if (!std::exchange(to.owes, false) || to.lost) return;
  transmit(pe, seal(secret_, {.from = rank_, .to = pe, .acknowledged = to.stream.taken()}, {}));
}

void UdpChannel::ask(int pe) {
  const std::lock_guard lock(mutex_);
  if (addresses_[static_cast<size_t>(pe)].port == 0) return;
  transmit(pe, seal(secret_,
                    {.from = rank_,
                     .to = pe,
                     .acknowledged = peer(pe).stream.taken(),
                     .flags = PacketHeader::kAnswer},
                    {}));
}

void UdpChannel::look() {
  const std::lock_guard lock(mutex_);
  for (auto& [pe, to] : peers_) {
    if (!to.heard.refused && !to.lost) send_due(pe, to);
  }
}

void UdpChannel::forget(int pe) {
  const std::lock_guard lock(mutex_);
  peer(pe).lost = true;
}

std::optional<std::pair<int, std::vector<std::byte>>> UdpChannel::receive() {
  const std::lock_guard lock(mutex_);
  note_refusals();
  std::array<std::byte, kPacketBytes> datagram;
  for (int taken = 0, failures = 0; taken < kMostPackets && failures < kAttempts; ++taken) {
    const ssize_t got = ::recv(fd_.get(), datagram.data(), datagram.size(), MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      ++failures;
      note_refusals();
      continue;
    }
    if (auto message = take(std::span(datagram).first(static_cast<size_t>(got)))) return message;
  }
  // Once for all that came.
  for (auto& [pe, to] : peers_) pay(pe, to);
  return std::nullopt;
}

std::optional<std::pair<int, std::vector<std::byte>>> UdpChannel::take(
    std::span<const std::byte> datagram) {
  const auto opened = open_packet(secret_, datagram);
  if (!opened) return std::nullopt;
  const PacketHeader& header = opened->header;
  const bool sane = header.to == rank_ && header.from >= 0 && header.from != rank_ &&
                    static_cast<size_t>(header.from) < addresses_.size();
  if (!sane) return std::nullopt;
  Peer& from = peer(header.from);
  from.heard = {.ever = true, .at = now()};
  from.refusals = 0;
  if ((header.flags & PacketHeader::kOnce) != 0) {
    return std::pair(header.from, std::vector<std::byte>(opened->part.begin(), opened->part.end()));
  }
  from.stream.acknowledged(header.acknowledged, from.heard.at);
  if (!from.lost) send_due(header.from, from);
  if ((header.flags & PacketHeader::kAnswer) != 0) from.owes = true;
  if (header.sequence == 0) return std::nullopt;
  from.owes = true;  // also of one that came before: its acknowledgement was lost
  auto message = from.stream.take(header.sequence, (header.flags & PacketHeader::kFirst) != 0,
                                  header.total, opened->part);
  if (!message) return std::nullopt;
  return std::pair(header.from, *std::move(message));
}

void UdpChannel::note_refusals() {
  for (;;) {
    SocketAddress to;
    alignas(cmsghdr) char control[256];
    msghdr message{};
    message.msg_name = to.get();
    message.msg_namelen = to.length();
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    if (::recvmsg(fd_.get(), &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (!tells_of_error(*c)) continue;
      sock_extended_err error{};
      std::memcpy(&error, CMSG_DATA(c), sizeof(error));
      if (error.ee_errno != ECONNREFUSED) continue;
      for (auto& [pe, known] : peers_) {
        const Address& there = addresses_[static_cast<size_t>(pe)];
        const bool its = there.internet == to.internet() && there.port == to.port();
        // One that was never heard may be another machine's, at an address that means nothing here.
        if (its && known.heard.ever) known.heard.refused = ++known.refusals >= kRefusals;
      }
    }
  }
}

UdpChannel::Heard UdpChannel::heard(int pe) const {
  const std::lock_guard lock(mutex_);
  const auto known = peers_.find(pe);
  return known == peers_.end() ? Heard() : known->second.heard;
}

bool UdpChannel::idle(const std::vector<int>& pes) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(pes, [&](int pe) {
    const auto known = peers_.find(pe);
    return known == peers_.end() || known->second.heard.refused || known->second.lost ||
           known->second.stream.idle();
  });
}

std::string UdpChannel::describe(int pe) const {
  const Address& there = addresses_[static_cast<size_t>(pe)];
  return fmt::format("UDP {} of host {}", text_of(there.internet, there.port), there.host.data());
}

}  // namespace peal

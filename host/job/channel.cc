// SPDX-License-Identifier: Apache-2.0
#include "host/job/channel.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "host/base/error.h"
#include "host/base/random.h"
#include "host/job/together.h"

namespace peal {
namespace {

// An abstract name begins with a zero byte; its length counts, no zero ends it.
socklen_t fill_in(sockaddr_un* to, const char* name) {
  const size_t bytes = std::strlen(name);
  to->sun_family = AF_UNIX;
  to->sun_path[0] = '\0';
  std::memcpy(to->sun_path + 1, name, bytes);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
}

// What the kernel adds to a datagram.
struct Attached {
  bool from_this_user = false;  // the sender's user, as the kernel knows it
  std::vector<Fd> descriptors;  // whoever sent them: they must be closed
};

Attached attached_to(msghdr& message) {
  Attached attached;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET) continue;
    if (c->cmsg_type == SCM_CREDENTIALS) {
      ucred sender{};
      std::memcpy(&sender, CMSG_DATA(c), sizeof(sender));
      attached.from_this_user = sender.uid == ::geteuid();
    }
    if (c->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, reinterpret_cast<const char*>(c) + at, sizeof(fd));
      attached.descriptors.emplace_back(fd);
    }
  }
  return attached;
}

void attach(msghdr& message, std::span<char> room, std::span<const Fd> descriptors) {
  const size_t bytes = descriptors.size() * sizeof(int);
  message.msg_control = room.data();
  message.msg_controllen = CMSG_SPACE(bytes);
  cmsghdr* const c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(bytes);
  for (size_t i = 0; i < descriptors.size(); ++i) {
    const int fd = descriptors[i].get();
    std::memcpy(CMSG_DATA(c) + i * sizeof(fd), &fd, sizeof(fd));
  }
}

constexpr size_t kDescriptorRoom = CMSG_SPACE(Channel::kMaxDescriptors * sizeof(int));

}  // namespace

// Where another PE fails, this one throws with its socket open.
Channel::Channel(Bootstrap& bootstrap)
    : rank_(bootstrap.rank()), addresses_(gather_together(bootstrap, [this] { return open(); })) {}

Channel::Channel(Bootstrap& bootstrap, std::span<const Place> places, const std::string& interface)
    : rank_(bootstrap.rank()), addresses_(gather_together(bootstrap, [&] {
        open_udp(places, interface);
        return open();
      })) {
  if (!udp_) return;
  std::vector<UdpChannel::Address> addresses;
  for (const Address& one : addresses_) addresses.push_back(one.udp);
  udp_->connect(addresses_[0].secret, std::move(addresses));
}

void Channel::open_udp(std::span<const Place> places, const std::string& interface) {
  const Place& here = places[static_cast<size_t>(rank_)];
  for (const Place& there : places) by_udp_.push_back(is_elsewhere(here, there));
  if (std::ranges::find(by_udp_, true) == by_udp_.end()) return;
  udp_ = std::make_unique<UdpChannel>(rank_, interface);
}

std::vector<int> Channel::fds() const {
  std::vector<int> both{fd_.get()};
  if (udp_) both.push_back(udp_->fd());
  return both;
}

Channel::Address Channel::open() {
  fd_ = Fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd_) fail_errno(errno, "socket(AF_UNIX, SOCK_DGRAM)");
  const int on = 1;
  if (::setsockopt(fd_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0) {
    fail_errno(errno, "setsockopt(SO_PASSCRED)");
  }
  Address address{};
  address.secret = random_bytes();
  std::string name = "peal-";
  for (const std::byte byte : random_bytes()) {
    name += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  }
  std::ranges::copy(name, address.name.begin());
  if (udp_) address.udp = udp_->address();
  sockaddr_un at{};
  if (::bind(fd_.get(), reinterpret_cast<sockaddr*>(&at), fill_in(&at, address.name.data())) != 0) {
    fail_errno(errno, "bind(@" + name + ")");
  }
  return address;
}

Channel::Sent Channel::send(int pe, Message::Kind kind, const std::array<uint64_t, 4>& word,
                            std::span<const std::byte> payload,
                            std::span<const Fd> descriptors) const {
  if (!by_udp(pe)) return send_here(pe, kind, word, payload, descriptors);
  if (!descriptors.empty()) return Sent::kGone;
  const UdpHead head{kind, word};
  return udp_->send(pe, std::as_bytes(std::span(&head, 1)), payload);
}

Channel::Sent Channel::send_last(int pe, Message::Kind kind, const std::array<uint64_t, 4>& word,
                                 std::span<const std::byte> payload) const noexcept {
  if (!by_udp(pe)) return send_here(pe, kind, word, payload, {});
  const UdpHead head{kind, word};
  udp_->send_once(pe, std::as_bytes(std::span(&head, 1)), payload);
  return Sent::kDone;
}

Channel::Sent Channel::send_here(int pe, Message::Kind kind, const std::array<uint64_t, 4>& word,
                                 std::span<const std::byte> payload,
                                 std::span<const Fd> descriptors) const {
  Header header{addresses_[0].secret, kind, rank_, word};
  iovec parts[2] = {{&header, sizeof(header)},
                    {const_cast<std::byte*>(payload.data()), payload.size()}};
  sockaddr_un to{};
  msghdr message{};
  message.msg_name = &to;
  message.msg_namelen = fill_in(&to, addresses_[static_cast<size_t>(pe)].name.data());
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  alignas(cmsghdr) char control[kDescriptorRoom] = {};
  if (!descriptors.empty()) attach(message, control, descriptors);
  for (;;) {
    if (::sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return Sent::kDone;
    if (errno == EINTR) continue;
    // The last: too many descriptors of this user are on their way.
    const bool later =
        errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ETOOMANYREFS;
    return later ? Sent::kFull : Sent::kGone;
  }
}

std::optional<Message> Channel::receive() const {
  if (auto message = receive_here()) return message;
  return udp_ ? receive_udp() : std::nullopt;
}

std::optional<Message> Channel::receive_udp() const {
  while (auto came = udp_->receive()) {
    auto& [from, bytes] = *came;
    UdpHead head{};
    if (bytes.size() < sizeof(head)) continue;
    std::memcpy(&head, bytes.data(), sizeof(head));
    bytes.erase(bytes.begin(), bytes.begin() + sizeof(head));
    return Message{head.kind, from, head.word, std::move(bytes)};
  }
  return std::nullopt;
}

std::optional<Message> Channel::receive_here() const {
  for (;;) {
    Header header{};
    std::vector<std::byte> payload(kMaxPayload);
    iovec parts[2] = {{&header, sizeof(header)}, {payload.data(), payload.size()}};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred)) + kDescriptorRoom];
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    const auto bytes = static_cast<size_t>(got);
    Attached attached = attached_to(message);
    const bool known = bytes >= sizeof(header) && (message.msg_flags & MSG_TRUNC) == 0 &&
                       header.secret == addresses_[0].secret && attached.from_this_user;
    const bool sane = header.from >= 0 && static_cast<size_t>(header.from) < addresses_.size();
    if (!known || !sane) continue;
    payload.resize(bytes - sizeof(header));
    return Message{header.kind, header.from, header.word, std::move(payload),
                   std::move(attached.descriptors)};
  }
}

}  // namespace peal

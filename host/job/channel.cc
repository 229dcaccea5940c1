// SPDX-License-Identifier: Apache-2.0
#include "host/job/channel.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "host/base/error.h"
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

// The sender's user, as the kernel knows it.
bool from_this_user(msghdr& message) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender{};
    std::memcpy(&sender, CMSG_DATA(c), sizeof(sender));
    return sender.uid == ::geteuid();
  }
  return false;
}

template <size_t kBytes>
std::array<std::byte, kBytes> random_bytes() {
  std::array<std::byte, kBytes> bytes;
  if (::getrandom(bytes.data(), kBytes, 0) != static_cast<ssize_t>(kBytes)) {
    fail_errno(errno, "getrandom");
  }
  return bytes;
}

}  // namespace

// Where another PE fails, this one throws with its socket open.
Channel::Channel(Bootstrap& bootstrap)
    : rank_(bootstrap.rank()), addresses_(gather_together(bootstrap, [this] { return open(); })) {}

Channel::Address Channel::open() {
  fd_ = Fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd_) fail_errno(errno, "socket(AF_UNIX, SOCK_DGRAM)");
  const int on = 1;
  if (::setsockopt(fd_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0) {
    fail_errno(errno, "setsockopt(SO_PASSCRED)");
  }
  Address address{};
  address.secret = random_bytes<16>();
  std::string name = "peal-";
  for (const std::byte byte : random_bytes<16>()) {
    name += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  }
  std::ranges::copy(name, address.name.begin());
  sockaddr_un at{};
  if (::bind(fd_.get(), reinterpret_cast<sockaddr*>(&at), fill_in(&at, address.name.data())) != 0) {
    fail_errno(errno, "bind(@" + name + ")");
  }
  return address;
}

Channel::Sent Channel::send(int pe, Message::Kind kind, const std::array<uint64_t, 4>& word,
                            std::span<const std::byte> payload) const {
  Header header{addresses_[0].secret, kind, rank_, word};
  iovec parts[2] = {{&header, sizeof(header)},
                    {const_cast<std::byte*>(payload.data()), payload.size()}};
  sockaddr_un to{};
  msghdr message{};
  message.msg_name = &to;
  message.msg_namelen = fill_in(&to, addresses_[static_cast<size_t>(pe)].name.data());
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  for (;;) {
    if (::sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return Sent::kDone;
    if (errno == EINTR) continue;
    const bool later = errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS;
    return later ? Sent::kFull : Sent::kGone;
  }
}

std::optional<Message> Channel::receive() const {
  for (;;) {
    Header header{};
    std::vector<std::byte> payload(kMaxPayload);
    iovec parts[2] = {{&header, sizeof(header)}, {payload.data(), payload.size()}};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    const auto bytes = static_cast<size_t>(got);
    const bool known = bytes >= sizeof(header) && (message.msg_flags & MSG_TRUNC) == 0 &&
                       header.secret == addresses_[0].secret && from_this_user(message);
    const bool sane = header.from >= 0 && static_cast<size_t>(header.from) < addresses_.size();
    if (!known || !sane) continue;
    payload.resize(bytes - sizeof(header));
    return Message{header.kind, header.from, header.word, std::move(payload)};
  }
}

}  // namespace peal

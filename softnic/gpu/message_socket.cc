// SPDX-License-Identifier: Apache-2.0
//
// SOCK_SEQPACKET over a path or a pair, with SCM_RIGHTS for descriptors.
#include "softnic/gpu/message_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/poll.h"

namespace peal::softnic::gpu {

namespace {

/// A message of one struct, with room for a descriptor, aligned as the kernel wants it.
struct Envelope {
  Envelope(void* data, size_t bytes) : part{data, bytes} {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = ancillary;
    message.msg_controllen = sizeof(ancillary);
  }

  iovec part;
  alignas(cmsghdr) char ancillary[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
};

bool address_of(const std::string& path, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  if (path.size() >= sizeof(address->sun_path)) {
    errno = ENAMETOOLONG;
    return false;
  }
  std::memcpy(address->sun_path, path.data(), path.size());
  return true;
}

/// Keeps the first descriptor of a message and closes the others.
Fd descriptor_in(msghdr* message) {
  Fd first;
  for (cmsghdr* c = CMSG_FIRSTHDR(message); c != nullptr; c = CMSG_NXTHDR(message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    int fd;
    std::memcpy(&fd, CMSG_DATA(c), sizeof(fd));
    Fd owned(fd);
    if (!first) first = std::move(owned);
  }
  return first;
}

}  // namespace

bool MessageSocket::send_bytes(const void* data, size_t bytes, int fd) {
  if (!open()) return false;
  Envelope envelope(const_cast<void*>(data), bytes);
  if (fd < 0) {
    envelope.message.msg_controllen = 0;
  } else {
    cmsghdr* header = CMSG_FIRSTHDR(&envelope.message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(fd));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  ssize_t sent;
  do {
    sent = sendmsg(fd_.get(), &envelope.message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(bytes)) return true;
  close();
  return false;
}

pid_t MessageSocket::peer_pid() const {
  ucred peer = {};
  socklen_t bytes = sizeof(peer);
  if (getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return 0;
  return peer.pid;
}

bool MessageSocket::writable() const {
  pollfd ready = {fd_.get(), POLLOUT, 0};
  return open() && poll(&ready, 1, 0) == 1;
}

bool MessageSocket::receive_bytes(void* data, size_t bytes, Milliseconds patience, Fd* fd) {
  if (!open()) return false;
  const int answer = poll_until(fd_.get(), POLLIN, std::chrono::steady_clock::now() + patience);
  Envelope envelope(data, bytes);
  ssize_t got = -1;
  if (answer == 1) {
    do {
      got = recvmsg(fd_.get(), &envelope.message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
  }
  Fd came = got >= 0 ? descriptor_in(&envelope.message) : Fd();
  if (got != static_cast<ssize_t>(bytes) || (envelope.message.msg_flags & MSG_TRUNC) != 0) {
    close();
    return false;
  }
  if (fd != nullptr) *fd = std::move(came);
  return true;
}

std::pair<MessageSocket, MessageSocket> channel_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return {};
  return {MessageSocket(Fd(ends[0])), MessageSocket(Fd(ends[1]))};
}

MessageSocket connect_to(const std::string& path) {
  sockaddr_un address;
  if (!address_of(path, &address)) return {};
  // Not blocking: a listener whose queue of callers is full is one that does not answer.
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return {};
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return {};
  }
  return MessageSocket(std::move(fd));
}

Fd listen_at(const std::string& path) {
  sockaddr_un address;
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || !address_of(path, &address) ||
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(fd.get(), 256) != 0) {
    throw std::system_error(errno, std::generic_category(), "softnic: listen at " + path);
  }
  return fd;
}

MessageSocket accept_from(const Fd& listener) {
  return MessageSocket(Fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
}

}  // namespace peal::softnic::gpu

// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/join.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "base/poll.h"
#include "bootstrap/door.h"
#include "bootstrap/star.h"
#include "bootstrap/stream_wire.h"
#include "host/base/error.h"

namespace peal::bootstrap {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRetry{10};

Hello hello_of(const UniqueId& id, const Member& member) {
  return {.secret = id.secret,
          .rank = static_cast<std::uint32_t>(member.rank),
          .size = static_cast<std::uint32_t>(member.size)};
}

bool say_hello(const Fd& socket, const UniqueId& id, const Member& member) {
  const Hello hello = hello_of(id, member);
  return ::send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) ==
         static_cast<ssize_t>(sizeof hello);
}

// A connection from a port to itself: happens on loopback when nobody listens and the kernel picks
// that very port.
bool connected_to_itself(const Fd& socket) {
  sockaddr_in mine{};
  sockaddr_in theirs{};
  socklen_t length = sizeof mine;
  return ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&mine), &length) == 0 &&
         ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&theirs), &length) == 0 &&
         mine.sin_port == theirs.sin_port && mine.sin_addr.s_addr == theirs.sin_addr.s_addr;
}

// One attempt; 0, or the errno of the failure.
int try_connect(const Fd& socket, const sockaddr_in& name, TimePoint until) {
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  if (poll_until(socket.get(), POLLOUT, until) == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error != 0 || !connected_to_itself(socket) ? error : ECONNREFUSED;
}

// Rank 0 may start later than we do: tries until it listens.
Fd connect_to_root(const UniqueId& id, Deadline deadline) {
  const sockaddr_in name = address_of(id);
  const TimePoint until = Clock::now() + deadline;
  for (;;) {
    Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket) fail_errno(errno, "socket(AF_INET)");
    const int error = try_connect(socket, name, until);
    if (error == 0) return socket;
    if (Clock::now() >= until) {
      fail(ErrorCode::kTimeout, "start of the job: rank 0 did not listen at {} within {} ({})",
           name_address(id), name_time(deadline), std::generic_category().message(error));
    }
    ::poll(nullptr, 0, std::min<int>(kRetry.count(), poll_timeout(until)));
  }
}

// Waits for the start on a connection that has said hello.
std::unique_ptr<Bootstrap> wait_for_start(Fd root, const Member& member) {
  std::vector<Fd> peers(static_cast<std::size_t>(member.size));
  peers[0] = std::move(root);
  auto star =
      std::make_unique<Star>(make_stream_wire(member.rank, std::move(peers)), member.deadline);
  try {
    star->start();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kPeerLost) throw;
    throw Error(error.code(), std::string(error.what()) + " (or it did not accept this unique id)");
  }
  return star;
}

// One place where rank 0 may listen. Who listens there and is not rank 0 may answer anything, or
// nothing for ever: an attempt is given up only by the other side.
class Attempt {
 public:
  Attempt(const UniqueId& id, const Member& member) : id_(id), member_(member) {}

  // Where to look for what comes next; no socket: nothing before retry().
  pollfd watched() const {
    return {
        .fd = socket_.get(), .events = static_cast<short>(said_ ? POLLIN : POLLOUT), .revents = 0};
  }
  TimePoint retry() const { return retry_; }

  void begin() {
    if (socket_ || Clock::now() < retry_) return;
    said_ = false;
    socket_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket_) fail_errno(errno, "socket(AF_INET)");
    const sockaddr_in name = address_of(id_);
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 &&
        errno != EINPROGRESS && errno != EINTR) {
      drop();
    }
  }

  // After an event: true when rank 0 has answered.
  bool go_on() {
    if (!said_) {
      int error = 0;
      socklen_t length = sizeof error;
      ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      said_ = error == 0 && !connected_to_itself(socket_) && say_hello(socket_, id_, member_);
      if (!said_) drop();
      return false;
    }
    // Looked at, not taken: the star reads it again.
    std::byte bytes[sizeof(std::uint64_t) + sizeof(Header)];
    const ssize_t n = ::recv(socket_.get(), bytes, sizeof bytes, MSG_PEEK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    std::uint64_t length = 0;
    Header header;
    if (n != static_cast<ssize_t>(sizeof bytes)) {
      drop();
      return false;
    }
    std::memcpy(&length, bytes, sizeof length);
    std::memcpy(&header, bytes + sizeof length, sizeof header);
    const bool ours = (header.kind == Kind::kPresent || header.kind == Kind::kFailure) &&
                      length == sizeof header + header.bytes;
    if (!ours) drop();
    return ours;
  }

  Fd socket() && { return std::move(socket_); }

 private:
  // Nobody listens, or a stranger does, who may be gone the next time: asks him less and less.
  void drop() {
    socket_ = Fd();
    retry_ = Clock::now() + pause_;
    pause_ = std::min<milliseconds>(2 * pause_, milliseconds(500));
  }

  UniqueId id_;
  Member member_;
  Fd socket_;
  bool said_ = false;
  TimePoint retry_ = Clock::now();
  milliseconds pause_ = kRetry;
};

}  // namespace

sockaddr_in address_of(const UniqueId& id) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(id.port);
  std::memcpy(&name.sin_addr, id.address.data(), 4);
  return name;
}

std::string name_address(const UniqueId& id) {
  const auto& a = id.address;
  return fmt::format("{}.{}.{}.{}:{}", a[0], a[1], a[2], a[3], id.port);
}

std::unique_ptr<Bootstrap> join(const UniqueId& id, const Member& member) {
  Fd root = connect_to_root(id, member.deadline);
  send_at_once(root);
  if (!say_hello(root, id, member)) fail_errno(errno, "send of the hello to rank 0");
  return wait_for_start(std::move(root), member);
}

std::unique_ptr<Bootstrap> join_any(std::span<const UniqueId> ids, const Member& member) {
  const TimePoint until = Clock::now() + member.deadline;
  std::vector<Attempt> attempts;
  for (const UniqueId& id : ids) attempts.emplace_back(id, member);
  while (Clock::now() < until) {
    std::vector<pollfd> watched;
    TimePoint next = until;
    for (Attempt& attempt : attempts) {
      attempt.begin();
      watched.push_back(attempt.watched());
      if (watched.back().fd < 0) next = std::min(next, attempt.retry());
    }
    if (poll_until(watched, next) < 0) fail_errno(errno, "poll");
    for (std::size_t i = 0; i < attempts.size(); ++i) {
      if (watched[i].revents == 0 || !attempts[i].go_on()) continue;
      Fd root = std::move(attempts[i]).socket();
      send_at_once(root);
      return wait_for_start(std::move(root), member);
    }
  }
  fail(ErrorCode::kTimeout, "start of the job: rank 0 did not answer at {} to {} within {}",
       name_address(ids.front()), ids.back().port, name_time(member.deadline));
}

}  // namespace peal::bootstrap

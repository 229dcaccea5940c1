// SPDX-License-Identifier: Apache-2.0
//
// Rank 0's listening socket, and joining a TCP job. Others connect to rank 0 and say hello: secret,
// rank, size. Rank 0 drops who lacks the secret, refuses (with a reason) who does not fit, and
// keeps one connection per rank. Then the star takes over. A stranger costs rank 0 one descriptor
// of at most kPending and no waiting.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/poll.h"
#include "bootstrap/bootstraps.h"
#include "bootstrap/star.h"
#include "bootstrap/stream_wire.h"
#include "host/base/error.h"

namespace peal::bootstrap {
namespace {

constexpr std::uint64_t kMagic = 0x317063746c616570;  // the bytes "pealtcp1"
constexpr std::size_t kPending = 64;                  // connections that have not said who they are
constexpr auto kRetryMs = 10;

struct Hello {
  std::uint64_t magic = kMagic;
  std::array<std::byte, 16> secret{};
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
};
static_assert(sizeof(Hello) == 32);

// Takes the same time wherever the first difference is.
bool same_secret(const std::array<std::byte, 16>& a, const std::array<std::byte, 16>& b) {
  std::byte difference{0};
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

void send_at_once(const Fd& socket) {
  const int on = 1;
  if (::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0) {
    fail_errno(errno, "setsockopt(TCP_NODELAY)");
  }
}

// Rank 0's door: admits until everybody is in, the time is over, or somebody who was in is gone.
class Door {
 public:
  Door(const TcpRoot& root, int size) : root_(root), peers_(static_cast<std::size_t>(size)) {}

  void admit_all(TimePoint until) {
    while (!missing().empty() && !lost_ && Clock::now() < until) admit_some(until);
  }

  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (std::size_t r = 1; r < peers_.size(); ++r) {
      if (!peers_[r]) ranks.push_back(static_cast<int>(r));
    }
    return ranks;
  }

  std::optional<int> lost() const { return lost_; }
  std::vector<Fd> peers() && { return std::move(peers_); }

 private:
  struct Caller {
    Fd socket;
    Hello hello;
    std::size_t got = 0;
  };

  void admit_some(TimePoint until) {
    std::vector<pollfd> fds{{.fd = root_.listener(), .events = POLLIN, .revents = 0}};
    for (const Caller& caller : callers_)
      fds.push_back({.fd = caller.socket.get(), .events = POLLIN, .revents = 0});
    const std::size_t first_peer = fds.size();
    // Negative descriptors (ranks not here yet) are ignored by poll.
    for (const Fd& peer : peers_)
      fds.push_back({.fd = peer.get(), .events = POLLRDHUP, .revents = 0});
    if (poll_until(fds, until) < 0) fail_errno(errno, "poll");
    for (std::size_t r = 1; r < peers_.size(); ++r) {
      if (fds[first_peer + r].revents != 0) lost_ = static_cast<int>(r);
    }
    for (std::size_t i = 0; i < callers_.size(); ++i) {
      if (fds[1 + i].revents != 0) listen_to(callers_[i]);
    }
    std::erase_if(callers_, [](const Caller& caller) { return !caller.socket; });
    // One a round, so that everyone waiting is heard before the oldest has to make room.
    if (fds[0].revents != 0) accept_one();
  }

  void accept_one() {
    Fd socket(::accept4(root_.listener(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
        fail_errno(errno, "accept4");
      return;  // the caller hung up before we came
    }
    if (callers_.size() == kPending) callers_.pop_front();
    callers_.push_back({.socket = std::move(socket), .hello = {}, .got = 0});
  }

  // Reads more of a hello and no byte beyond it. Leaves caller.socket empty when the caller is done
  // with.
  void listen_to(Caller& caller) {
    auto* bytes = reinterpret_cast<char*>(&caller.hello);
    const ssize_t n =
        ::recv(caller.socket.get(), bytes + caller.got, sizeof(Hello) - caller.got, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      caller.socket = Fd();
      return;
    }
    caller.got += static_cast<std::size_t>(n);
    if (caller.got == sizeof(Hello)) judge(std::move(caller.socket), caller.hello);
  }

  void judge(Fd socket, const Hello& hello) {
    if (hello.magic != kMagic || !same_secret(hello.secret, root_.id().secret)) return;
    const std::size_t size = peers_.size();
    if (hello.size != size) {
      return refuse(socket, fmt::format("rank {} joins a job of {}, but rank 0's job has {} ranks",
                                        hello.rank, hello.size, size));
    }
    if (hello.rank == 0 || hello.rank >= size || peers_[hello.rank]) {
      return refuse(
          socket, fmt::format("rank {} of {} is taken: another process joined with the same number",
                              hello.rank, size));
    }
    send_at_once(socket);
    // The caller's own deadline runs: tell it that rank 0 is here and waits for others.
    answer(socket, make_message({.kind = Kind::kPresent}, {}));
    peers_[hello.rank] = std::move(socket);
  }

  void refuse(const Fd& socket, const std::string& why) {
    answer(socket, make_failure(ErrorCode::kInvalidArgument, why));
  }

  // A fresh connection takes these few bytes at once; if it fails, the caller sees the connection
  // close.
  void answer(const Fd& socket, std::span<const std::byte> message) {
    const std::vector<std::byte> frame = make_frame(message);
    [[maybe_unused]] const ssize_t n =
        ::send(socket.get(), frame.data(), frame.size(), MSG_NOSIGNAL);
  }

  const TcpRoot& root_;
  std::vector<Fd> peers_;
  std::deque<Caller> callers_;
  std::optional<int> lost_;
};

sockaddr_in address_of(const UniqueId& id) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(id.port);
  std::memcpy(&name.sin_addr, id.address.data(), 4);
  return name;
}

// "127.0.0.1:4711".
std::string name_address(const UniqueId& id) {
  const auto& a = id.address;
  return fmt::format("{}.{}.{}.{}:{}", a[0], a[1], a[2], a[3], id.port);
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
    ::poll(nullptr, 0, std::min<int>(kRetryMs, poll_timeout(until)));
  }
}

std::unique_ptr<Bootstrap> join(const UniqueId& id, int rank, int size, Deadline deadline) {
  std::vector<Fd> peers(static_cast<std::size_t>(size));
  peers[0] = connect_to_root(id, deadline);
  send_at_once(peers[0]);
  const Hello hello{.secret = id.secret,
                    .rank = static_cast<std::uint32_t>(rank),
                    .size = static_cast<std::uint32_t>(size)};
  if (::send(peers[0].get(), &hello, sizeof hello, MSG_NOSIGNAL) !=
      static_cast<ssize_t>(sizeof hello)) {
    fail_errno(errno, "send of the hello to rank 0");
  }
  auto star = std::make_unique<Star>(make_stream_wire(rank, std::move(peers)), deadline);
  try {
    star->start();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kPeerLost) throw;
    throw Error(error.code(), std::string(error.what()) + " (or it did not accept this unique id)");
  }
  return star;
}

// A stranger must not be able to guess the secret: the kernel's generator or none.
std::array<std::byte, 16> random_secret() {
  std::array<std::byte, 16> secret;
  if (::getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size())) {
    fail_errno(errno, "getrandom(16)");
  }
  return secret;
}

}  // namespace

TcpRoot::TcpRoot(const std::string& address, std::uint16_t port) {
  if (::inet_pton(AF_INET, address.c_str(), id_.address.data()) != 1) {
    fail(ErrorCode::kInvalidArgument, "'{}' is not an IPv4 address such as 127.0.0.1", address);
  }
  id_.secret = random_secret();
  id_.port = port;
  listen_at_id();
}

TcpRoot::TcpRoot(const UniqueId& id) : id_(id) { listen_at_id(); }

void TcpRoot::listen_at_id() {
  listener_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener_) fail_errno(errno, "socket(AF_INET)");
  const int on = 1;
  // A job that follows another on the same port must not wait for the old connections to fade.
  if (::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0) {
    fail_errno(errno, "setsockopt(SO_REUSEADDR)");
  }
  sockaddr_in name = address_of(id_);
  socklen_t length = sizeof name;
  const std::string where = name_address(id_);
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name), length) < 0) {
    fail_errno(errno, fmt::format(
                          "bind to {} (rank 0 needs an address of its own machine and a free port)",
                          where));
  }
  if (::listen(listener_.get(), SOMAXCONN) < 0)
    fail_errno(errno, fmt::format("listen on {}", where));
  if (::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&name), &length) < 0) {
    fail_errno(errno, "getsockname");
  }
  id_.port = ntohs(name.sin_port);
}

UniqueId make_unique_id(const std::string& address, std::uint16_t port) {
  return TcpRoot(address, port).id();
}

std::unique_ptr<Bootstrap> make_tcp(TcpRoot root, int size, Deadline deadline) {
  check_deadline(deadline);
  if (size < 1) fail(ErrorCode::kInvalidArgument, "a job of {} ranks: at least 1 is needed", size);
  Door door(root, size);
  door.admit_all(Clock::now() + deadline);
  const std::vector<int> missing = door.missing();
  const std::optional<int> lost = door.lost();
  auto star = std::make_unique<Star>(make_stream_wire(0, std::move(door).peers()), deadline);
  if (lost) {
    star->give_up(ErrorCode::kPeerLost,
                  fmt::format("start of the job: rank {} of {} died or disconnected", *lost, size));
  }
  if (!missing.empty()) {
    star->give_up(ErrorCode::kTimeout, fmt::format("start of the job: {} did not join within {}",
                                                   name_ranks(missing, size), name_time(deadline)));
  }
  star->start();
  return star;
}

std::unique_ptr<Bootstrap> make_tcp(const UniqueId& id, int rank, int size, Deadline deadline) {
  check_deadline(deadline);
  if (size < 1 || rank < 0 || rank >= size) {
    fail(ErrorCode::kInvalidArgument, "rank {} of {}: ranks are 0 to size - 1", rank, size);
  }
  if (rank == 0) return make_tcp(TcpRoot(id), size, deadline);
  return join(id, rank, size, deadline);
}

}  // namespace peal::bootstrap

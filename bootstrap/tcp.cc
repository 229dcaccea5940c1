// SPDX-License-Identifier: Apache-2.0
//
// A TCP job: its id, which holds a secret, so that no error repeats it; rank 0's listening socket;
// and joining: rank 0 admits the others at its door (door.h), they connect and prove that they know
// the secret (join.h). Then the star takes over.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/forks.h"
#include "bootstrap/bootstraps.h"
#include "bootstrap/door.h"
#include "bootstrap/join.h"
#include "bootstrap/star.h"
#include "bootstrap/wire.h"
#include "host/base/error.h"
#include "host/base/random.h"

namespace peal::bootstrap {
namespace {

// Of 16 bytes, of 4 or 16, and of 2.
constexpr std::size_t kDigits = 44;
constexpr std::size_t kDigitsOfIpv6 = 68;
constexpr std::chrono::milliseconds kComeAgain{20};

int nibble(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

// The job of rank 0, with its door. That is closed before the others go: one that starts its next
// job at the same place would come to the door of this one.
class RootStar final : public Star {
 public:
  RootStar(std::vector<Fd> peers, Door door, Deadline deadline)
      : Star(make_stream_wire(0, std::move(peers)), deadline),
        keeper_(std::make_unique<Doorkeeper>(std::move(door))) {}

 protected:
  void all_have_come() override { const auto closed = keeper_.take(); }

 private:
  OfProcess<Doorkeeper> keeper_;
};

UniqueId fresh_id(const std::string& address, std::uint16_t port) {
  const auto parsed = parse_internet(address);
  if (!parsed) {
    fail(ErrorCode::kInvalidArgument, "'{}' is not an address such as 127.0.0.1 or ::1", address);
  }
  if (is_link_local(*parsed)) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' is a link-local address, which other machines cannot use: take another one",
         address);
  }
  return {.secret = random_bytes(), .address = *parsed, .port = port};
}

// A socket at the address of `id`, whose port is filled in when it was 0. Several may be bound
// there until one listens. At all addresses of IPv6 (::) it takes those of IPv4 as well.
Fd bind_at(UniqueId& id) {
  const SocketAddress name = address_of(id);
  Fd socket(::socket(name.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) fail_errno(errno, name.family() == AF_INET ? "socket(AF_INET)" : "socket(AF_INET6)");
  const int on = 1;
  const int off = 0;
  if (id.address == InternetAddress{} &&
      ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) < 0) {
    fail_errno(errno, "setsockopt(IPV6_V6ONLY)");
  }
  // A job that follows another on the same port must not wait for the old connections to fade.
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0) {
    fail_errno(errno, "setsockopt(SO_REUSEADDR)");
  }
  if (::bind(socket.get(), name.get(), name.length()) < 0) {
    fail_errno(errno, fmt::format("bind to {} ({})", name_address(id),
                                  errno == EADDRINUSE
                                      ? "another process listens there: a second rank 0 of this "
                                        "job, or a stranger to it"
                                      : "rank 0 needs an address of its own machine"));
  }
  id.port = bound_to(socket.get()).port();
  return socket;
}

}  // namespace

std::string UniqueId::to_string() const {
  std::string text;
  for (const std::byte byte : secret)
    text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  const std::span<const std::uint8_t> all(address);
  for (const std::uint8_t byte : is_ipv4(address) ? all.last(4) : all)
    text += fmt::format("{:02x}", byte);
  return text + fmt::format("{:04x}", port);
}

UniqueId UniqueId::from_string(std::string_view text, std::string_view name) {
  if (text.size() != kDigits && text.size() != kDigitsOfIpv6) {
    fail(ErrorCode::kInvalidArgument,
         "{} has {} characters: 44 hexadecimal digits expected, or 68, as peal-id prints them",
         name, text.size());
  }
  std::array<std::uint8_t, kDigitsOfIpv6 / 2> bytes{};
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int value = nibble(text[i]);
    if (value < 0) {
      fail(ErrorCode::kInvalidArgument, "{}: character {} is not a hexadecimal digit", name, i + 1);
    }
    bytes[i / 2] = static_cast<std::uint8_t>(bytes[i / 2] << 4 | value);
  }
  UniqueId id;
  std::memcpy(id.secret.data(), bytes.data(), 16);
  const std::size_t end = text.size() / 2;
  if (text.size() == kDigits) id.address[10] = id.address[11] = 0xff;  // ::ffff:a.b.c.d
  std::copy(bytes.begin() + 16, bytes.begin() + static_cast<std::ptrdiff_t>(end) - 2,
            id.address.end() - static_cast<std::ptrdiff_t>(end - 18));
  id.port = static_cast<std::uint16_t>(bytes[end - 2] << 8 | bytes[end - 1]);
  if (id.port == 0)
    fail(ErrorCode::kInvalidArgument, "{}: its port is 0; copy the whole text of rank 0's id",
         name);
  return id;
}

TcpRoot::TcpRoot(const std::string& address, std::uint16_t port)
    : TcpRoot(fresh_id(address, port)) {}

TcpRoot::TcpRoot(const UniqueId& id) : id_(id), listener_(bind_at(id_)) {
  if (::listen(listener_.get(), SOMAXCONN) < 0)
    fail_errno(errno, fmt::format("listen on {}", name_address(id_)));
}

ReservedId::ReservedId(const std::string& address)
    : id_(fresh_id(address, 0)), port_(bind_at(id_)) {}

UniqueId make_unique_id(const std::string& address, std::uint16_t port) {
  return TcpRoot(address, port).id();
}

namespace {

std::unique_ptr<Bootstrap> make_root(TcpRoot root, const Member& member) {
  const int size = member.size;
  const Deadline deadline = member.deadline;
  if (size < 1) fail(ErrorCode::kInvalidArgument, "a job of {} ranks: at least 1 is needed", size);
  Door door(std::move(root), size);
  // Under the id of an earlier job rank 0 is there again at once.
  door.admit_all(member.until, member.again ? std::chrono::seconds(0) : Door::kLatecomers);
  const std::vector<int> missing = door.missing();
  const std::optional<int> lost = door.lost();
  std::string refused;
  for (const int rank : door.claimed_twice()) {
    refused += fmt::format("; a second process came as rank {} and was refused", rank);
  }
  for (const std::string& version : door.other_versions()) {
    refused += fmt::format(
        "; a process of another version of peal came (its hello is {}) and was refused: install "
        "one build on all hosts",
        version);
  }
  std::vector<Fd> peers = door.take_peers();
  auto star = std::make_unique<RootStar>(std::move(peers), std::move(door), deadline);
  if (lost) {
    star->give_up(ErrorCode::kPeerLost,
                  fmt::format("start of the job: rank {} of {} died or disconnected", *lost, size));
  }
  if (!missing.empty()) {
    star->give_up(ErrorCode::kTimeout,
                  fmt::format("start of the job: {} did not join within {}{}",
                              name_ranks(missing, size), name_time(deadline), refused));
  }
  star->start();
  return star;
}

std::unique_ptr<Bootstrap> meet(const UniqueId& id, const Member& member) {
  if (member.size < 1 || member.rank < 0 || member.rank >= member.size) {
    fail(ErrorCode::kInvalidArgument, "rank {} of {}: ranks are 0 to size - 1", member.rank,
         member.size);
  }
  if (member.rank == 0) return make_root(TcpRoot(id), member);
  return join({&id, 1}, member);
}

}  // namespace

std::unique_ptr<Bootstrap> make_tcp(TcpRoot root, int size, Deadline deadline) {
  check_deadline(deadline);
  return make_root(std::move(root), {.rank = 0, .size = size, .deadline = deadline});
}

std::unique_ptr<Bootstrap> make_tcp(const UniqueId& id, int rank, int size, Deadline deadline) {
  check_deadline(deadline);
  return meet(id, {.rank = rank, .size = size, .deadline = deadline});
}

std::unique_ptr<Bootstrap> make_tcp_again(const UniqueId& id, int rank, int size,
                                          Deadline deadline) {
  check_deadline(deadline);
  Member member{.rank = rank, .size = size, .deadline = deadline, .again = true};
  for (;;) {
    try {
      return meet(id, member);
    } catch (const Error& error) {
      // kConfiguration: rank 0 is in the earlier job and holds this rank for taken. kPeerLost: it
      // leaves that job, or a process that came has died.
      member.taken |= error.code() == ErrorCode::kConfiguration;
      if (error.code() != ErrorCode::kConfiguration && error.code() != ErrorCode::kPeerLost) throw;
      if (Clock::now() >= member.until) {
        if (member.taken) fail_of_taken(member);
        throw;
      }
    }
    std::this_thread::sleep_for(kComeAgain);
  }
}

}  // namespace peal::bootstrap

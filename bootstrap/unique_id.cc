// SPDX-License-Identifier: Apache-2.0
//
// The unique id as text, and the listening socket it names. The text holds a secret: no error
// repeats it.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "bootstrap/bootstraps.h"
#include "host/base/error.h"

namespace peal::bootstrap {
namespace {

constexpr std::size_t kDigits = 2 * (16 + 4 + 2);

int nibble(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
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

std::string UniqueId::to_string() const {
  std::string text;
  for (const std::byte byte : secret)
    text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  for (const std::uint8_t byte : address) text += fmt::format("{:02x}", byte);
  return text + fmt::format("{:04x}", port);
}

UniqueId UniqueId::from_string(std::string_view text) {
  if (text.size() != kDigits) {
    fail(ErrorCode::kInvalidArgument, "unique id of {} characters: {} hexadecimal digits expected",
         text.size(), kDigits);
  }
  std::array<std::uint8_t, kDigits / 2> bytes{};
  for (std::size_t i = 0; i < kDigits; ++i) {
    const int value = nibble(text[i]);
    if (value < 0) {
      fail(ErrorCode::kInvalidArgument, "unique id: character {} is not a hexadecimal digit",
           i + 1);
    }
    bytes[i / 2] = static_cast<std::uint8_t>(bytes[i / 2] << 4 | value);
  }
  UniqueId id;
  std::memcpy(id.secret.data(), bytes.data(), 16);
  std::memcpy(id.address.data(), bytes.data() + 16, 4);
  id.port = static_cast<std::uint16_t>(bytes[20] << 8 | bytes[21]);
  if (id.port == 0)
    fail(ErrorCode::kInvalidArgument,
         "unique id: its port is 0; copy the whole text of rank 0's id");
  return id;
}

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
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(id_.port);
  std::memcpy(&name.sin_addr, id_.address.data(), 4);
  socklen_t length = sizeof name;
  const auto& a = id_.address;
  const std::string where = fmt::format("{}.{}.{}.{}:{}", a[0], a[1], a[2], a[3], id_.port);
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

}  // namespace peal::bootstrap

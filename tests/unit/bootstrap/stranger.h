// SPDX-License-Identifier: Apache-2.0
//
// Who connects to rank 0 and says what a test wants: nothing, garbage, or the right words.
#pragma once

#include <gtest/gtest.h>
#include <nettle/hmac.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/internet.h"
#include "bootstrap/bootstraps.h"
#include "bootstrap/proof.h"

namespace peal::bootstrap {

/// A connection of somebody who may not be one of us.
class Stranger {
 public:
  explicit Stranger(const UniqueId& id)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const SocketAddress name(id.address, id.port);
    EXPECT_EQ(::connect(socket_.get(), name.get(), name.length()), 0);
  }

  Stranger& say(const void* data, std::size_t bytes) {
    EXPECT_EQ(::send(socket_.get(), data, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
    return *this;
  }
  Stranger& say(const std::string& text) { return say(text.data(), text.size()); }

  // 32 bytes: magic, challenge, rank, size.
  Stranger& hello(std::uint32_t rank, std::uint32_t size) {
    hello_ = "pealtcp3sixteen bytes...";
    hello_.append(reinterpret_cast<const char*>(&rank), sizeof rank);
    hello_.append(reinterpret_cast<const char*>(&size), sizeof size);
    return say(hello_);
  }

  // 32 bytes, when the challenge of 16 has come.
  Stranger& prove(const Secret& secret) {
    return say(hashed(secret, "peal: joiner" + hello_ + hear(16)));
  }
  Stranger& join(const UniqueId& id, std::uint32_t rank, std::uint32_t size) {
    return hello(rank, size).prove(id.secret);
  }

  std::string hear(std::size_t bytes) {
    std::string text(bytes, '\0');
    EXPECT_EQ(::recv(socket_.get(), text.data(), bytes, MSG_WAITALL), static_cast<ssize_t>(bytes));
    return text;
  }

  // Waits until the other side has closed; how many bytes it had sent.
  std::size_t bytes_until_closed() {
    std::size_t total = 0;
    for (;;) {
      pollfd readable{.fd = socket_.get(), .events = POLLIN, .revents = 0};
      if (::poll(&readable, 1, 30'000) <= 0) {
        ADD_FAILURE() << "not closed";
        return total;
      }
      char chunk[256];
      const ssize_t n = ::recv(socket_.get(), chunk, sizeof chunk, 0);
      if (n <= 0) return total;
      total += static_cast<std::size_t>(n);
    }
  }

 private:
  static std::string hashed(const Secret& secret, const std::string& text) {
    hmac_sha256_ctx hash;
    const auto* const key = reinterpret_cast<const std::uint8_t*>(secret.data());
    ::hmac_sha256_set_key(&hash, secret.size(), key);
    ::hmac_sha256_update(&hash, text.size(), reinterpret_cast<const std::uint8_t*>(text.data()));
    std::string digest(32, '\0');
    ::hmac_sha256_digest(&hash, digest.size(), reinterpret_cast<std::uint8_t*>(digest.data()));
    return digest;
  }

  Fd socket_;
  std::string hello_;
};

}  // namespace peal::bootstrap

// SPDX-License-Identifier: Apache-2.0
//
// Stream sockets driven by poll(): non-blocking reads and writes into one buffer per peer and
// direction. Reading decides about life and death: a failed write only ends writing, because the
// peer's last words (an error that rank 0 sent before it closed) may still wait to be read.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/poll.h"
#include "bootstrap/wire.h"
#include "host/base/error.h"

namespace peal::bootstrap {
namespace {

struct Peer {
  Fd socket;
  std::vector<std::byte> in;
  std::vector<std::byte> out;
  std::size_t sent = 0;  // bytes of out that are gone
  bool ended = false;    // nothing more to read
  bool told = false;     // that it is lost
  bool writable = true;  // no write has failed
};

void drop_output(Peer& peer) {
  peer.out.clear();
  peer.sent = 0;
}

void write_some(Peer& peer) {
  while (peer.sent < peer.out.size()) {
    const ssize_t n = ::send(peer.socket.get(), peer.out.data() + peer.sent,
                             peer.out.size() - peer.sent, MSG_NOSIGNAL);
    if (n < 0) {
      if (would_block(errno)) return;
      peer.writable = false;
      break;
    }
    peer.sent += static_cast<std::size_t>(n);
  }
  drop_output(peer);
}

void read_some(Peer& peer) {
  std::vector<std::byte> chunk(65536);  // on the heap: a stack may have no more
  const ssize_t n = ::recv(peer.socket.get(), chunk.data(), chunk.size(), 0);
  if (n < 0 && would_block(errno)) return;
  if (n <= 0) {
    peer.ended = true;
    peer.writable = false;
    drop_output(peer);
    return;
  }
  peer.in.insert(peer.in.end(), chunk.begin(), chunk.begin() + n);
}

class StreamWire final : public Wire {
 public:
  StreamWire(int rank, std::vector<Fd> peers) : rank_(rank), peers_(peers.size()) {
    for (std::size_t r = 0; r < peers.size(); ++r) {
      if (peers[r] && !set_non_blocking(peers[r].get())) fail_errno(errno, "fcntl(O_NONBLOCK)");
      peers_[r].socket = std::move(peers[r]);
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }

  int connection(int peer) const override {
    return peers_[static_cast<std::size_t>(peer)].socket.get();
  }

  void send(int to, std::span<const std::byte> message) override {
    Peer& peer = peers_[static_cast<std::size_t>(to)];
    if (!peer.socket || !peer.writable) return;
    const std::vector<std::byte> frame = make_frame(message);
    peer.out.insert(peer.out.end(), frame.begin(), frame.end());
    write_some(peer);
  }

  std::optional<Event> next(TimePoint until) override {
    for (;;) {
      if (std::optional<Event> event = ready()) return event;
      // Data that came in the last moment still counts: look once more after the wait has ended.
      if (!progress(until)) return ready();
    }
  }

  void flush(TimePoint until) override {
    const auto pending = [](const Peer& peer) { return peer.socket && !peer.out.empty(); };
    while (std::ranges::any_of(peers_, pending) && progress(until)) {
    }
  }

 private:
  // An event that needs no waiting.
  std::optional<Event> ready() {
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      Peer& peer = peers_[r];
      if (!peer.socket || peer.told) continue;
      std::uint64_t length = 0;
      if (peer.in.size() >= sizeof length) {
        std::memcpy(&length, peer.in.data(), sizeof length);
        if (length > kMaxMessage) peer.ended = true;  // not one of us
        if (length <= kMaxMessage && peer.in.size() - sizeof length >= length) {
          const auto begin = peer.in.begin() + sizeof length;
          const auto end = begin + static_cast<std::ptrdiff_t>(length);
          Event event{.peer = static_cast<int>(r), .lost = false, .message = {begin, end}};
          peer.in.erase(peer.in.begin(), end);
          return event;
        }
      }
      if (peer.ended) {
        // Not closed: others poll it by its number, which the next descriptor to be opened would
        // have.
        ::shutdown(peer.socket.get(), SHUT_RDWR);
        peer.in.clear();
        drop_output(peer);
        peer.writable = false;
        peer.told = true;
        return Event{.peer = static_cast<int>(r), .lost = true, .message = {}};
      }
    }
    return std::nullopt;
  }

  // Waits for any socket and moves what can be moved; false once `until` has passed.
  bool progress(TimePoint until) {
    std::vector<pollfd> fds;
    std::vector<Peer*> owners;
    for (Peer& peer : peers_) {
      if (!peer.socket || peer.ended) continue;
      const auto events = static_cast<short>(POLLIN | (peer.out.empty() ? 0 : POLLOUT));
      fds.push_back({.fd = peer.socket.get(), .events = events, .revents = 0});
      owners.push_back(&peer);
    }
    const int found = poll_until(fds, until);
    if (found < 0) fail_errno(errno, "poll");
    if (found == 0) return false;
    for (std::size_t i = 0; i < fds.size(); ++i) {
      if (fds[i].revents & POLLOUT) write_some(*owners[i]);
      if (fds[i].revents & (POLLIN | POLLHUP | POLLERR)) read_some(*owners[i]);
    }
    return true;
  }

  int rank_;
  std::vector<Peer> peers_;
};

}  // namespace

std::unique_ptr<Wire> make_stream_wire(int rank, std::vector<Fd> peers) {
  return std::make_unique<StreamWire>(rank, std::move(peers));
}

std::vector<std::vector<Fd>> connect_locally(int count) {
  if (count < 1) fail(ErrorCode::kInvalidArgument, "{} PEs: at least 1 is needed", count);
  const auto ranks = static_cast<std::size_t>(count);
  std::vector<std::vector<Fd>> links(ranks);
  for (std::vector<Fd>& peers : links) peers.resize(ranks);
  for (std::size_t r = 1; r < ranks; ++r) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
      fail_errno(errno, "socketpair");
    links[0][r] = Fd(ends[0]);
    links[r][0] = Fd(ends[1]);
  }
  return links;
}

std::vector<std::byte> make_frame(std::span<const std::byte> message) {
  const std::uint64_t length = message.size();
  std::vector<std::byte> frame(sizeof length + message.size());
  std::memcpy(frame.data(), &length, sizeof length);
  if (!message.empty()) std::memcpy(frame.data() + sizeof length, message.data(), message.size());
  return frame;
}

}  // namespace peal::bootstrap

// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/door.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/poll.h"
#include "bootstrap/star.h"
#include "bootstrap/wire.h"
#include "host/base/error.h"
#include "host/base/random.h"

namespace peal::bootstrap {
namespace {

constexpr std::size_t kPending = 64;  // connections that have not said who they are

// A fresh connection takes these few bytes at once; if it fails, the caller sees the connection
// close.
void say(const Fd& socket, std::span<const std::byte> bytes) {
  [[maybe_unused]] const ssize_t n = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

// "pealtcp2", or nothing where it is no peal's.
std::string version_of(const Hello& hello) {
  std::string text(sizeof hello.magic, '\0');
  std::memcpy(text.data(), &hello.magic, text.size());
  const bool peal = text.starts_with("pealtcp") && text.back() >= '0' && text.back() <= '9';
  return peal ? text : "";
}

}  // namespace

void send_at_once(const Fd& socket) {
  const int on = 1;
  if (::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0) {
    fail_errno(errno, "setsockopt(TCP_NODELAY)");
  }
}

Door::Door(TcpRoot root, int size)
    : root_(std::move(root)), size_(static_cast<std::size_t>(size)), peers_(size_) {}

void Door::admit_all(TimePoint until, std::chrono::seconds latecomers) {
  while (!missing().empty() && Clock::now() < until) {
    std::vector<pollfd> watched;
    // Poll ignores negative descriptors: of ranks that are not here yet, and of those that are
    // gone.
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      const bool gone = std::ranges::find(gone_, static_cast<int>(r)) != gone_.end();
      watched.push_back({.fd = gone ? -1 : peers_[r].get(), .events = POLLRDHUP, .revents = 0});
    }
    const bool whole = gone_.empty();
    answer_some(std::move(watched), until);
    if (whole && !gone_.empty()) until = std::min<TimePoint>(until, Clock::now() + latecomers);
  }
}

void Door::refuse_until(const Fd& stop) {
  const std::vector<pollfd> watched{{.fd = stop.get(), .events = POLLIN, .revents = 0}};
  while (!answer_some(watched, TimePoint::max())) {
  }
}

std::vector<int> Door::missing() const {
  std::vector<int> ranks;
  for (std::size_t r = 1; r < peers_.size(); ++r) {
    if (!peers_[r]) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

// One round: true if one of `watched` had an event. Of the peers such an event is their end.
bool Door::answer_some(std::vector<pollfd> watched, TimePoint until) {
  const std::size_t count = watched.size();
  watched.push_back({.fd = root_.listener(), .events = POLLIN, .revents = 0});
  for (const Caller& caller : callers_) {
    watched.push_back({.fd = caller.socket.get(), .events = POLLIN, .revents = 0});
  }
  if (poll_until(watched, until) < 0) fail_errno(errno, "poll");
  bool event = false;
  for (std::size_t i = 0; i < count; ++i) {
    if (watched[i].revents == 0) continue;
    event = true;
    if (!peers_.empty()) gone_.push_back(static_cast<int>(i));
  }
  for (std::size_t i = 0; i < callers_.size(); ++i) {
    if (watched[count + 1 + i].revents != 0) listen_to(callers_[i]);
  }
  std::erase_if(callers_, [](const Caller& caller) { return !caller.socket; });
  // One a round, so that everyone waiting is heard before the oldest has to make room.
  if (watched[count].revents != 0) accept_one();
  return event;
}

void Door::accept_one() {
  Fd socket(::accept4(root_.listener(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
      fail_errno(errno, "accept4");
    return;  // the caller hung up before we came
  }
  if (callers_.size() == kPending) {
    // One that has said hello as ours do answers soon.
    const auto mute =
        std::ranges::find_if(callers_, [](const Caller& caller) { return !caller.challenge; });
    callers_.erase(mute == callers_.end() ? callers_.begin() : mute);
  }
  callers_.emplace_back().socket = std::move(socket);
}

// Reads more of a hello or a proof and no byte beyond it. Leaves caller.socket empty when the
// caller is done with.
void Door::listen_to(Caller& caller) {
  const auto wanted = caller.challenge ? std::as_writable_bytes(std::span(caller.proof))
                                       : std::as_writable_bytes(std::span(&caller.hello, 1));
  const auto missing = wanted.subspan(caller.got);
  const ssize_t n = ::recv(caller.socket.get(), missing.data(), missing.size(), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    caller.socket = Fd();
    return;
  }
  caller.got += static_cast<std::size_t>(n);
  if (caller.got != wanted.size()) return;
  if (caller.challenge) return judge(std::exchange(caller, {}));
  challenge(caller);
}

void Door::challenge(Caller& caller) {
  if (caller.hello.magic != Hello::kMagic) {
    if (const std::string other = version_of(caller.hello); !other.empty()) {
      other_versions_.insert(other);
    }
    caller.socket = Fd();
    return;
  }
  caller.got = 0;
  caller.challenge = random_bytes();
  say(caller.socket, *caller.challenge);
}

void Door::judge(Caller caller) {
  const Hello& hello = caller.hello;
  const auto proof_of = [&](ProofSide side) {
    return make_proof(root_.id().secret, side, hello, *caller.challenge);
  };
  if (!same_proof(caller.proof, proof_of(ProofSide::kJoiner))) return;
  const auto answer = [&](std::span<const std::byte> message) {
    const Proof proof = proof_of(ProofSide::kRoot);
    std::vector<std::byte> bytes = make_frame(message);
    bytes.insert(bytes.begin(), proof.begin(), proof.end());
    say(caller.socket, bytes);
  };
  const auto refuse = [&](ErrorCode code, const std::string& why) {
    answer(make_failure(code, why));
  };
  if (hello.size != size_) {
    return refuse(ErrorCode::kInvalidArgument,
                  fmt::format("rank {} joins a job of {}, but rank 0's job has {} ranks",
                              hello.rank, hello.size, size_));
  }
  if (hello.rank == 0 || hello.rank >= size_ || peers_.empty() || peers_[hello.rank]) {
    if (hello.rank < size_) claimed_twice_.insert(static_cast<int>(hello.rank));
    return refuse(ErrorCode::kConfiguration,
                  fmt::format("rank {} of {} is taken: another process joined with the same "
                              "number; each PE needs its own (PEAL_TCP_RANK), and one that takes "
                              "the place of a process that died PEAL_TCP_RESTART=1",
                              hello.rank, size_));
  }
  send_at_once(caller.socket);
  // The caller's own deadline runs: tell it that rank 0 is here and waits for others.
  answer(make_message({.kind = FrameKind::kPresent}, {}));
  peers_[hello.rank] = std::move(caller.socket);
}

Doorkeeper::Doorkeeper(Door door) : door_(std::move(door)), stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (!stop_) fail_errno(errno, "eventfd");
  thread_ = std::thread([this] {
    ::prctl(PR_SET_NAME, "peal-door");
    try {
      door_.refuse_until(stop_);
    } catch (const std::exception&) {
      // No descriptor is left for strangers: who comes late hears nothing, the job goes on.
    }
  });
}

Doorkeeper::~Doorkeeper() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

}  // namespace peal::bootstrap

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
#include "bootstrap/proof.h"
#include "bootstrap/star.h"
#include "bootstrap/wire.h"
#include "host/base/error.h"
#include "host/base/random.h"

namespace peal::bootstrap {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRetry{10};
// A host that is off or cut off answers nothing, and Linux asks it again after 1, 3, 7, 15, 31 s:
// who only waited for that would come late to one that is back.
constexpr milliseconds kUntilAnswered{3000};

// A connection from a port to itself: happens on loopback when nobody listens and the kernel picks
// that very port.
bool connected_to_itself(const Fd& socket) {
  const SocketAddress mine = bound_to(socket.get());
  SocketAddress theirs;
  socklen_t length = theirs.length();
  return ::getpeername(socket.get(), theirs.get(), &length) == 0 && mine.port() == theirs.port() &&
         mine.internet() == theirs.internet();
}

std::unique_ptr<Bootstrap> wait_for_start(Fd root, const Member& member) {
  send_at_once(root);
  std::vector<Fd> peers(static_cast<std::size_t>(member.size));
  peers[0] = std::move(root);
  auto star =
      std::make_unique<Star>(make_stream_wire(member.rank, std::move(peers)), member.deadline);
  star->start();
  return star;
}

// One place where rank 0 may listen. Who listens there and is not rank 0 may answer anything, or
// nothing for ever: it has proven nothing, and learns nothing but a hash.
class Attempt {
 public:
  enum class Step {
    kGoing,
    kNobody,    // listens there
    kHungUp,    // died, or does not know our secret
    kStranger,  // does not know our secret itself
    kProven     // is rank 0
  };

  // Who finds nobody comes again: after kRetry, then less and less often, up to `longest_pause`.
  Attempt(const UniqueId& id, const Member& member, milliseconds longest_pause)
      : id_(id), longest_pause_(longest_pause) {
    hello_.rank = static_cast<std::uint32_t>(member.rank);
    hello_.size = static_cast<std::uint32_t>(member.size);
  }

  // Where to look for what comes next; no socket: nothing before retry().
  pollfd watched() const {
    const bool connecting = stage_ == Stage::kConnecting;
    return {.fd = socket_.get(),
            .events = static_cast<short>(connecting ? POLLOUT : POLLIN),
            .revents = 0};
  }
  TimePoint retry() const { return retry_; }
  // When a connection that nobody answers is given up.
  TimePoint gives_up() const {
    return socket_ && stage_ == Stage::kConnecting ? begun_ + kUntilAnswered : TimePoint::max();
  }
  // Somebody listens there.
  bool connected() const { return socket_ && stage_ != Stage::kConnecting; }
  // The errno of the last connection that nobody took.
  int error() const { return error_; }

  void begin() {
    if (Clock::now() >= gives_up()) drop(Step::kNobody, ETIMEDOUT);
    if (socket_ || Clock::now() < retry_) return;
    begun_ = Clock::now();
    stage_ = Stage::kConnecting;
    got_ = 0;
    hello_.challenge = random_bytes();
    const SocketAddress name = address_of(id_);
    socket_ = Fd(::socket(name.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket_) fail_errno(errno, fmt::format("socket for {}", name_address(id_)));
    if (::connect(socket_.get(), name.get(), name.length()) != 0 && errno != EINPROGRESS &&
        errno != EINTR) {
      drop(Step::kNobody, errno);
    }
  }

  // After an event.
  Step go_on() {
    switch (stage_) {
      case Stage::kConnecting:
        return greet();
      case Stage::kGreeted:
        return hear(std::as_writable_bytes(std::span(challenge_)), [this] { return prove(); });
      case Stage::kAnswered:
        return hear(std::as_writable_bytes(std::span(proof_)), [this] { return judge(); });
    }
    return Step::kGoing;
  }

  Fd socket() && { return std::move(socket_); }

 private:
  enum class Stage { kConnecting, kGreeted, kAnswered };

  Step greet() {
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0 || connected_to_itself(socket_)) {
      return drop(Step::kNobody, error != 0 ? error : ECONNREFUSED);
    }
    stage_ = Stage::kGreeted;
    return say(std::as_bytes(std::span(&hello_, 1)));
  }

  Step prove() {
    stage_ = Stage::kAnswered;
    return say(make_proof(id_.secret, ProofSide::kJoiner, hello_, challenge_));
  }

  Step judge() {
    const bool right =
        same_proof(proof_, make_proof(id_.secret, ProofSide::kRoot, hello_, challenge_));
    return right ? Step::kProven : drop(Step::kStranger, 0);
  }

  // Takes more of `wanted` and no byte beyond it, which is the star's; `then` when it is whole.
  template <class Then>
  Step hear(std::span<std::byte> wanted, const Then& then) {
    const auto missing = wanted.subspan(got_);
    const ssize_t n = ::recv(socket_.get(), missing.data(), missing.size(), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return Step::kGoing;
    if (n <= 0) return drop(Step::kHungUp, 0);
    got_ += static_cast<std::size_t>(n);
    if (got_ < wanted.size()) return Step::kGoing;
    got_ = 0;
    return then();
  }

  // A fresh connection takes these few bytes at once.
  Step say(std::span<const std::byte> bytes) {
    const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return n == static_cast<ssize_t>(bytes.size()) ? Step::kGoing : drop(Step::kHungUp, 0);
  }

  Step drop(Step why, int error) {
    socket_ = Fd();
    error_ = error;
    retry_ = Clock::now() + pause_;
    pause_ = std::min(2 * pause_, longest_pause_);
    return why;
  }

  UniqueId id_;
  milliseconds longest_pause_;
  Hello hello_;
  Challenge challenge_{};
  Proof proof_{};
  std::size_t got_ = 0;  // of the challenge, then of the proof
  Fd socket_;
  Stage stage_ = Stage::kConnecting;
  int error_ = 0;
  TimePoint begun_;  // the connection
  TimePoint retry_ = Clock::now();
  milliseconds pause_ = kRetry;
};

[[noreturn]] void fail_to_join(Attempt::Step step, const UniqueId& id, const Member& member) {
  if (step == Attempt::Step::kHungUp) {
    fail(ErrorCode::kPeerLost,
         "start of the job: rank 0 of {} died or disconnected (or it did not accept this unique "
         "id, or is of another version of peal)",
         member.size);
  }
  fail(
      ErrorCode::kPeerLost,
      "start of the job: who listens at {} is not rank 0 of this job and does not know its secret: "
      "another process has taken the port; take another unique id",
      name_address(id));
}

}  // namespace

void fail_of_taken(const Member& member) {
  fail(ErrorCode::kTimeout,
       "start of the job: rank 0 of {} did not come within {}: it is in the earlier job yet, or "
       "another process came as rank {}",
       member.size, name_time(member.deadline), member.rank);
}

SocketAddress address_of(const UniqueId& id) { return {id.address, id.port}; }

std::string name_address(const UniqueId& id) { return text_of(id.address, id.port); }

std::unique_ptr<Bootstrap> join(std::span<const UniqueId> ids, const Member& member) {
  const TimePoint until = member.until;
  const bool one_place = ids.size() == 1;
  std::vector<Attempt> attempts;
  // Rank 0 may start later than we do: tries until it listens.
  for (const UniqueId& id : ids) {
    attempts.emplace_back(id, member, one_place ? kRetry : milliseconds(500));
  }
  while (Clock::now() < until) {
    std::vector<pollfd> watched;
    TimePoint next = until;
    for (Attempt& attempt : attempts) {
      attempt.begin();
      watched.push_back(attempt.watched());
      next = std::min(
          {next, attempt.gives_up(), watched.back().fd < 0 ? attempt.retry() : TimePoint::max()});
    }
    if (poll_until(watched, next) < 0) fail_errno(errno, "poll");
    for (std::size_t i = 0; i < attempts.size(); ++i) {
      const auto step = watched[i].revents == 0 ? Attempt::Step::kGoing : attempts[i].go_on();
      if (step == Attempt::Step::kProven) {
        return wait_for_start(std::move(attempts[i]).socket(), member);
      }
      const bool turned_away = step == Attempt::Step::kHungUp || step == Attempt::Step::kStranger;
      if (one_place && turned_away) fail_to_join(step, ids.front(), member);
    }
  }
  if (member.taken) fail_of_taken(member);
  if (!one_place) {
    fail(ErrorCode::kTimeout, "start of the job: rank 0 did not answer at {} to {} within {}",
         name_address(ids.front()), ids.back().port, name_time(member.deadline));
  }
  const Attempt& attempt = attempts.front();
  if (attempt.connected()) {
    fail(ErrorCode::kTimeout, "start of the job: rank 0 of {} did not arrive within {}",
         member.size, name_time(member.deadline));
  }
  const int error = attempt.error() == 0 ? ETIMEDOUT : attempt.error();
  fail(ErrorCode::kTimeout, "start of the job: rank 0 did not listen at {} within {} ({}){}",
       name_address(ids.front()), name_time(member.deadline),
       std::generic_category().message(error),
       member.again ? "; who takes the place of PE 0 runs on the host with that address: start it "
                      "there, or the job anew"
                    : "");
}

}  // namespace peal::bootstrap

// SPDX-License-Identifier: Apache-2.0
//
// Callers at the port where rank 0 of a TCP job waits: members, members of other jobs, and anything
// else that connects. Strangers do not disturb: where every rank has come, the job starts.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <thread>
#include <vector>

#include "bootstrap/bootstraps.h"
#include "bootstrap/proof.h"
#include "bootstrap/star.h"
#include "bootstrap/wire.h"
#include "host/base/error.h"
#include "tests/fuzz/input.h"

namespace peal::fuzz {
namespace {

using namespace peal::bootstrap;

/// A caller that has said hello, and what it will say when it is asked for a proof.
struct Introduced {
  Fd socket;
  Hello hello;
  Secret secret;
  size_t bytes;  // of the proof
  bool stays;
};

class Street {
 public:
  explicit Street(Input& in) : in_(in), size_(2 + in.below(2)), came_(size_) {}

  void go() {
    const uint32_t callers = in_.below(8);
    for (uint32_t i = 0; i < callers; ++i) call();
    bool all = true;
    for (uint32_t rank = 1; rank < size_; ++rank) all &= came_[rank];
    // Ends when the last socket has, with the star.
    const std::jthread answers([this] { answer_all(); });
    try {
      // Who has to wait for others need not be patient here; who need not must not fail.
      const Deadline deadline(all ? 10'000 : 2);
      const auto star = make_tcp(std::move(root_), static_cast<int>(size_), deadline);
      // A member that left right behind its request may have been heard in time.
      require(all || left_);
      require(star->rank() == 0 && star->size() == static_cast<int>(size_));
    } catch (const Error& error) {
      require(!all);
      require(error.code() == ErrorCode::kTimeout || error.code() == ErrorCode::kPeerLost ||
              error.code() == ErrorCode::kInvalidArgument || error.code() == ErrorCode::kInternal);
    }
  }

 private:
  void call() {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(root_.id().port);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!connected(socket, name)) return;
    // Ports are few: none shall linger.
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    const uint8_t kind = in_.byte();
    const bool stays = (kind & 0x38) != 0x38;
    if ((kind & 3) != 3) return introduce(std::move(socket), stays);
    say(socket, in_.take(in_.below(100)));
    if (!stays) ::shutdown(socket.get(), SHUT_WR);
    strangers_.push_back(std::move(socket));
  }
  // False where so many callers came in a second that the machine has no port left. libFuzzer's
  // alarm may interrupt connect(); the connection then goes on by itself.
  static bool connected(const Fd& socket, const sockaddr_in& name) {
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0) {
      return true;
    }
    require(errno == EADDRNOTAVAIL || errno == EINTR);
    if (errno == EADDRNOTAVAIL) return false;
    pollfd there{.fd = socket.get(), .events = POLLOUT, .revents = 0};
    int found = 0;
    do {
      found = ::poll(&there, 1, -1);
    } while (found < 0 && errno == EINTR);
    return found == 1;
  }
  void introduce(Fd socket, bool stays) {
    Hello hello;
    Secret secret = root_.id().secret;
    hello.rank = in_.below(4) == 3 ? in_.number<uint32_t>() : in_.below(size_ + 1);
    hello.size = in_.below(8) == 7 ? in_.number<uint32_t>() : size_;
    const bool wrong = in_.below(8) == 7;
    if (wrong) secret[in_.below(16)] ^= std::byte{1} << in_.below(8);
    const uint32_t cut = in_.below(8);  // 7: the hello, 6: the proof
    const auto bytes = as_bytes(std::span(&hello, 1));
    say(socket, cut == 7 ? bytes.first(in_.below(sizeof hello)) : bytes);
    const size_t proof = cut == 6 ? in_.below(sizeof(Proof)) : sizeof(Proof);
    if (cut == 7) {
      if (!stays) ::shutdown(socket.get(), SHUT_WR);
      strangers_.push_back(std::move(socket));
      return;
    }
    introduced_.push_back({std::move(socket), hello, secret, proof, stays});
    if (cut == 6) return;
    const bool fits = !wrong && hello.size == size_ && hello.rank > 0 && hello.rank < size_;
    // The first one who names a rank has it, and a member that leaves ends the job.
    left_ |= fits && !stays;
    if (fits) came_[hello.rank] = true;
    if (left_) came_.assign(size_, false);
  }
  void answer_all() {
    for (const Introduced& one : introduced_) {
      Challenge challenge;
      ssize_t n = 0;
      do {
        n = ::recv(one.socket.get(), challenge.data(), challenge.size(), MSG_WAITALL);
      } while (n < 0 && errno == EINTR);
      if (n != static_cast<ssize_t>(challenge.size())) continue;  // the door has closed
      const Proof proof = make_proof(one.secret, ProofSide::kJoiner, one.hello, challenge);
      say(one.socket, std::span(proof).first(one.bytes));
      if (one.bytes == sizeof proof) {
        say(one.socket, make_frame(make_message({.kind = FrameKind::kStart}, {})));
      }
      if (!one.stays) ::shutdown(one.socket.get(), SHUT_WR);
    }
  }
  static void say(const Fd& socket, std::span<const std::byte> bytes) {
    static_cast<void>(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  static void say(const Fd& socket, std::span<const uint8_t> bytes) {
    say(socket, std::as_bytes(bytes));
  }

  Input& in_;
  uint32_t size_;
  TcpRoot root_;
  std::vector<Fd> strangers_;
  std::vector<Introduced> introduced_;
  std::vector<bool> came_;
  bool left_ = false;
};

}  // namespace
}  // namespace peal::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  peal::fuzz::Input input(data, bytes);
  peal::fuzz::Street(input).go();
  return 0;
}

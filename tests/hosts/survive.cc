// SPDX-License-Identifier: Apache-2.0
//
// A job that loses PE 1 and goes on: the others see it end in a barrier, mask it, and exchange
// words. For hosts_test.py.
//
//   survive         PE 1 kills itself
//   survive stay    PE 1 stays, until its host is switched off
//   survive abort   PE 1 calls the job off, and the others hear of that
//   survive rounds  nobody ends: all exchange blocks until there is a file /run/last_round on PE
//   0's
//                   host, or until PEs are lost; then those that are left go on without them
//   survive rounds PE ROUND   the same, but that PE calls the job off in that round
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/patience.h"
#include "peal/peal.h"

namespace {

using peal::Status;

PEAL_KERNEL meet(peal::Context ctx, Status* ended) { *ended = barrier_all(ctx); }

/// The first barrier. PE 1 ends after it, and no other may still be in it then: each of them tells
/// PE 1.
PEAL_KERNEL meet_for_the_last_time(peal::Context ctx, uint64_t* told, Status* ended) {
  *ended = barrier_all(ctx);
  for (int pe = 0; pe < ctx.n_pes && *ended == Status::kOk; ++pe) {
    if (ctx.pe != 1 && pe == 1) *ended = p(ctx, told + ctx.pe, uint64_t{1}, 1);
    if (ctx.pe == 1 && pe != 1)
      *ended = wait_until(ctx, told + pe, peal::Compare::kEq, uint64_t{1});
  }
}

/// Every PE but `without` writes into every other one's word, and finds theirs after the barrier.
PEAL_KERNEL exchange(peal::Context ctx, uint64_t* words, int without, Status* ended) {
  *ended = Status::kOk;
  for (int pe = 0; pe < ctx.n_pes && *ended == Status::kOk; ++pe) {
    if (pe != without) *ended = p(ctx, words + ctx.pe, uint64_t{7}, pe);
  }
  if (*ended == Status::kOk) *ended = barrier_all(ctx);
  for (int pe = 0; pe < ctx.n_pes && *ended == Status::kOk; ++pe) {
    if (pe != without && words[pe] != 7) *ended = Status::kTimeout;
  }
}

/// Every PE that lives finds every other one's block of `words` words.
PEAL_KERNEL exchange_blocks(peal::Context ctx, uint64_t* blocks, const uint64_t* mine, size_t words,
                            Status* ended) {
  *ended = Status::kOk;
  for (int pe = 0; pe < ctx.n_pes && *ended == Status::kOk; ++pe) {
    const size_t place = static_cast<size_t>(ctx.pe) * words;
    *ended = put(ctx, peal::thread, blocks + place, mine, words, pe);
    if (*ended == Status::kPeerMasked) *ended = Status::kOk;
  }
  if (*ended == Status::kOk) *ended = barrier_all(ctx);
}

void require(Status seen, Status wanted, const char* what) {
  if (seen != wanted) throw std::runtime_error(std::string(what) + ": " + to_string(seen));
}

/// PE 1's part, once all others are past the first barrier.
void end_somehow(peal::Runtime& pe, std::string_view how) {
  if (how == "abort") {
    pe.abort("PE 1 has had enough");
    return;
  }
  if (how != "stay") raise(SIGKILL);
  for (;;) ::pause();
}

/// The NIC may tell of it before the operating system, or another host, does.
void await_loss(const peal::Runtime& pe) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  peal::wait_until([&] { return !pe.lost_pes().empty(); }, until);
}

/// Rounds in which every PE finds every other one's block, of which it looks at each byte. Blocks
/// of two rounds take turns: who is in the next one may not yet be followed.
class Rounds {
 public:
  explicit Rounds(peal::Runtime& pe)
      : pe_(pe),
        n_pes_(static_cast<size_t>(pe.n_pes())),
        blocks_(pe.allocate<uint64_t>(2 * n_pes_ * kWords)),
        mine_(pe.allocate<uint64_t>(kWords)) {}

  /// `last` counts on PE 0.
  Status exchange(uint64_t number, bool last) {
    uint64_t* const now = blocks_ + (number % 2) * n_pes_ * kWords;
    for (size_t i = 0; i < kWords; ++i) mine_[i] = word(number, last, me(), i);
    Status ended{};
    peal::launch({}, exchange_blocks, pe_.context(), now, mine_, kWords, &ended).wait();
    for (size_t from = 0; ended == Status::kOk && from < n_pes_; ++from) {
      if (!masked_.contains(static_cast<int>(from))) look_at(now + from * kWords, number, from);
    }
    is_last_ = ended == Status::kOk && now[0] == word(number, true, 0, 0);
    return ended;
  }
  /// PE 0 has said so of the newest one.
  bool is_last() const { return is_last_; }

  /// Masks all that are lost, one by one as that is noticed, until the others have made a round.
  void go_on_without_the_lost() {
    Status ended = Status::kPeerLost;
    for (size_t left = n_pes_; ended == Status::kPeerLost && left > 0; --left) {
      await_loss(pe_);
      try {
        const std::vector<int> lost = pe_.lost_pes();
        masked_.insert(lost.begin(), lost.end());  // mask() that throws has masked them
        pe_.mask(lost);
      } catch (const peal::Error& error) {
        if (error.code() != peal::ErrorCode::kPeerLost) throw;
        continue;  // one more is lost
      }
      // All that met have masked the same, but need not have come to the same round.
      ended = exchange(kMostRounds + masked_.size(), false);
    }
    require(ended, Status::kOk, "the round of those that are left");
  }

 private:
  static constexpr size_t kWords = 512;
  static constexpr uint64_t kMostRounds = uint64_t{1} << 32;

  static uint64_t word(uint64_t number, bool last, size_t from, size_t index) {
    return (2 * number + (last ? 1 : 0)) << 24 | from << 16 | index;
  }
  size_t me() const { return static_cast<size_t>(pe_.my_pe()); }
  static void look_at(const uint64_t* block, uint64_t number, size_t from) {
    const bool last = block[0] == word(number, true, from, 0);
    for (size_t i = 0; i < kWords; ++i) {
      if (block[i] != word(number, last, from, i)) throw std::runtime_error("a wrong word");
    }
  }

  peal::Runtime& pe_;
  size_t n_pes_;
  uint64_t* blocks_;
  uint64_t* mine_;
  std::set<int> masked_;
  bool is_last_ = false;
};

/// Says one line at once.
void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

int live_in_rounds(int aborter, uint64_t abort_round) {
  constexpr uint64_t kSaid = 32;  // rounds: nobody waits for a later one
  say("starting");
  peal::Runtime pe = peal::start();
  Rounds rounds(pe);
  say("in the rounds");
  Status ended = Status::kOk;
  for (uint64_t number = 1; ended == Status::kOk && !rounds.is_last(); ++number) {
    if (number <= kSaid) say("round " + std::to_string(number));
    if (pe.my_pe() == aborter && number == abort_round) pe.abort("enough of it");
    ended = rounds.exchange(number, ::access("/run/last_round", F_OK) == 0);
  }
  if (ended == Status::kOk) {
    say("all rounds were right");
    return 0;
  }
  if (ended == Status::kAborted) {
    say("called off: " + pe.failure().text);
    return 0;
  }
  await_loss(pe);
  say("lost: " + pe.failure().text + " (" + to_string(ended) + ")");
  rounds.go_on_without_the_lost();
  say("went on without them");
  return 0;
}

int live(std::string_view how) {
  peal::Runtime pe = peal::start();
  auto* const words = pe.allocate<uint64_t>(static_cast<size_t>(pe.n_pes()));
  auto* const told = pe.allocate<uint64_t>(static_cast<size_t>(pe.n_pes()));
  Status ended{};
  peal::launch({}, meet_for_the_last_time, pe.context(), told, &ended).wait();
  require(ended, Status::kOk, "the first barrier");
  std::puts("in the second barrier");
  std::fflush(stdout);
  if (pe.my_pe() == 1) {
    end_somehow(pe, how);
    std::puts(pe.failure().text.c_str());
    return 0;  // the others are in a barrier that it does not come to
  }
  peal::launch({}, meet, pe.context(), &ended).wait();
  std::fprintf(stderr, "PE %d: %s\n", pe.my_pe(), to_string(ended));
  if (how == "abort") {
    require(ended, Status::kAborted, "the second barrier");
    std::puts(pe.failure().text.c_str());
    return 0;
  }

  await_loss(pe);
  pe.mask(pe.lost_pes());
  peal::launch({}, exchange, pe.context(), words, 1, &ended).wait();
  require(ended, Status::kOk, "the exchange of those that are left");
  std::puts("went on without PE 1");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return peal::run_main([&] {
    const std::string_view how = argc > 1 ? argv[1] : "";
    if (how != "rounds") return live(how);
    const bool aborts = argc == 4;
    return live_in_rounds(aborts ? std::atoi(argv[2]) : -1,
                          aborts ? static_cast<uint64_t>(std::atoi(argv[3])) : 0);
  });
}

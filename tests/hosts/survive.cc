// SPDX-License-Identifier: Apache-2.0
//
// A job that loses PE 1 and goes on: the others see it end in a barrier, mask it, and exchange
// words. For hosts_test.py.
//
//   survive         PE 1 kills itself
//   survive stay    PE 1 stays, until its host is switched off
//   survive abort   PE 1 calls the job off, and the others hear of that
//   survive rounds  nobody ends: all exchange words until there is a file /run/last_round on PE 0's
//                   host, or until PEs are lost; then those that are left meet without them
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

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

/// Round `number`: every PE finds every other one's word of it. Words of two rounds take turns: who
/// is in the next one may not yet be followed.
PEAL_KERNEL exchange_in_round(peal::Context ctx, uint64_t* words, uint64_t word, Status* ended) {
  *ended = Status::kOk;
  for (int pe = 0; pe < ctx.n_pes && *ended == Status::kOk; ++pe) {
    *ended = p(ctx, words + ctx.pe, word, pe);
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
  while (pe.lost_pes().empty() && std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
  }
}

/// All rounds until the last one or the first that fails; answers how that ended. In a word there
/// is the number of the round, twice, and one more in the last round.
Status go_round(peal::Runtime& pe) {
  const auto n_pes = static_cast<size_t>(pe.n_pes());
  auto* const words = pe.allocate<uint64_t>(2 * n_pes);
  std::puts("in the rounds");
  std::fflush(stdout);
  for (uint64_t number = 1;; ++number) {
    uint64_t* const now = words + (number % 2) * n_pes;
    const bool last = ::access("/run/last_round", F_OK) == 0;
    Status ended{};
    peal::launch({}, exchange_in_round, pe.context(), now, 2 * number + (last ? 1 : 0), &ended)
        .wait();
    if (ended != Status::kOk) return ended;
    for (size_t other = 0; other < n_pes; ++other) {
      if (now[other] / 2 != number) throw std::runtime_error("a word of another round");
    }
    if (now[0] % 2 == 1) return ended;
  }
}

/// Masks all that are lost, one by one as that is noticed, until the others meet.
void meet_without_the_lost(peal::Runtime& pe) {
  Status ended = Status::kPeerLost;
  for (int left = pe.n_pes(); ended == Status::kPeerLost && left > 0; --left) {
    await_loss(pe);
    try {
      pe.mask(pe.lost_pes());
    } catch (const peal::Error& error) {
      if (error.code() != peal::ErrorCode::kPeerLost) throw;
      continue;  // one more is lost
    }
    peal::launch({}, meet, pe.context(), &ended).wait();
  }
  require(ended, Status::kOk, "the barrier of those that are left");
}

int live_in_rounds(peal::Runtime& pe) {
  if (go_round(pe) == Status::kOk) {
    std::puts("all rounds were right");
    return 0;
  }
  await_loss(pe);
  std::printf("lost: %s\n", pe.failure().text.c_str());
  std::fflush(stdout);
  meet_without_the_lost(pe);
  std::puts("went on without them");
  return 0;
}

int live(std::string_view how) {
  peal::Runtime pe = peal::start();
  if (how == "rounds") return live_in_rounds(pe);
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
  return peal::run_main([&] { return live(argc > 1 ? argv[1] : ""); });
}

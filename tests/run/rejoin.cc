// SPDX-License-Identifier: Apache-2.0
//
// A job whose PEs die and are replaced. In each generation of the job all PEs put, add and get, and
// verify every word; then one dies, while deaths are left. For rejoin_test.sh.
//
//   rejoin MOMENT VICTIM...   in generation n the n-th victim dies; the MOMENT is
//     kernel    while the others wait in a kernel
//     call      before a collective call of the others
//     twice     in a kernel, and the process that takes its place while it joins
//     masked    in a kernel; the others mask it, and work without it before they rejoin
//     nobody    in a kernel, and no process takes its place: rejoin() ends at its deadline
//   rejoin alive              nobody dies: rejoin() is refused, and the job goes on
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "host/base/error.h"
#include "peal/peal.h"

extern char** environ;

namespace {

using peal::Error;
using peal::ErrorCode;

struct Words {
  uint64_t* box;      // by PE: what it put
  uint64_t* counter;  // what all have added
};

// One lane. Leaves out `absent`, which is masked, or -1.
PEAL_KERNEL exchange(peal::Context ctx, Words at, uint64_t base, int absent, peal::Status* ended,
                     uint64_t* got) {
  const uint64_t mine = base + static_cast<uint64_t>(my_pe(ctx));
  for (int pe = 0; pe < n_pes(ctx); ++pe) {
    if (pe == absent) continue;
    (void)p(ctx, at.box + my_pe(ctx), mine, pe);
    (void)atomic_add(ctx, at.counter, mine, pe);
  }
  *ended = barrier_all(ctx);
  for (int pe = 0; pe < n_pes(ctx); ++pe) {
    if (pe != absent) got[pe] = g(ctx, at.box + pe, pe).value;
  }
}

PEAL_KERNEL wait_for_ever(peal::Context ctx, uint64_t* word, peal::Status* ended) {
  *ended = wait_until(ctx, word, peal::Compare::kEq, 99);
}

void require(bool holds, const std::string& what) {
  if (!holds) peal::fail(ErrorCode::kInternal, "{}", what);
}

void work(peal::Runtime& pe, uint64_t base, int absent = -1) {
  const auto n = static_cast<size_t>(pe.n_pes());
  const Words at{static_cast<uint64_t*>(pe.calloc(n, 8)), static_cast<uint64_t*>(pe.calloc(1, 8))};
  std::vector<uint64_t> got(n);
  peal::Status ended{};
  pe.barrier();
  peal::launch({}, exchange, pe.context(), at, base, absent, &ended, got.data()).wait();
  require(ended == peal::Status::kOk, "the barrier");
  pe.check();
  uint64_t sum = 0;
  for (size_t i = 0; i < n; ++i) {
    if (static_cast<int>(i) == absent) continue;
    require(got[i] == base + i && at.box[i] == base + i, "what was put");
    sum += base + i;
  }
  require(*at.counter == sum, "what was added");
  pe.barrier();
  pe.free(at.counter);
  pe.free(at.box);
}

// What the others have counted: a process that is new knows nothing.
uint64_t newest(peal::Runtime& pe, uint64_t mine) {
  const auto n = static_cast<size_t>(pe.n_pes());
  auto* const told = static_cast<uint64_t*>(pe.calloc(n, 8));
  peal::Status ended{};
  std::vector<uint64_t> got(n);
  pe.barrier();
  peal::launch({}, exchange, pe.context(), Words{told, static_cast<uint64_t*>(pe.calloc(1, 8))},
               mine * 1000, -1, &ended, got.data())
      .wait();
  require(ended == peal::Status::kOk, "the barrier");
  pe.barrier();
  return *std::max_element(told, told + n) / 1000;
}

template <class Call>
ErrorCode refused(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    std::fprintf(stderr, "refused: %s\n", error.what());
    return error.code();
  }
  peal::fail(ErrorCode::kInternal, "not refused");
}

void lose_one(peal::Runtime& pe, const std::string& moment, int victim, uint64_t generation) {
  auto* const word = static_cast<uint64_t*>(pe.calloc(1, 8));
  pe.barrier();
  if (pe.my_pe() == victim) raise(SIGKILL);
  if (moment == "call") {
    const ErrorCode code = refused([&] { pe.barrier(); });
    require(code == ErrorCode::kPeerLost, "a collective call beside a death");
  } else {
    peal::Status ended{};
    peal::launch({}, wait_for_ever, pe.context(), word, &ended).wait();
    require(ended == peal::Status::kPeerLost, "a wait beside a death");
    require(pe.failure().status == peal::Status::kPeerLost, "failure()");
  }
  if (moment != "masked") return;
  pe.mask({victim});
  work(pe, 500 + generation, victim);
}

void come_together(peal::Runtime& pe) {
  for (;;) {
    try {
      return peal::rejoin(pe);
    } catch (const Error& error) {
      std::fprintf(stderr, "once more: %s\n", error.what());
      if (error.code() != ErrorCode::kPeerLost) throw;
    }
  }
}

// The deadline is that of the rejoin alone: a start may take long.
void meet_nobody(peal::Runtime& pe) {
  const ErrorCode code = refused([&] {
    pe.rejoin([](const peal::Config& config) {
      peal::Config again = config;
      again.tcp_restart = 1;
      again.bootstrap_timeout = std::chrono::milliseconds(500);
      return peal::bootstrap::make_launched(again);
    });
  });
  require(code == ErrorCode::kTimeout, "rejoin() without a new process");
  require(refused([&] { pe.barrier(); }) == ErrorCode::kInvalidArgument, "a call after that");
}

int live(const std::string& moment, const std::vector<int>& victims) {
  const auto config = peal::Config::from_environment(environ);
  if (moment == "twice" && config.tcp_restart == 1) {
    const auto group = peal::bootstrap::make_launched(config);  // the others are on their way, too
    raise(SIGKILL);
  }
  peal::Runtime pe = peal::start(config);
  if (moment == "alive") {
    const ErrorCode code = refused([&] { peal::rejoin(pe); });
    require(code == ErrorCode::kInvalidArgument, "rejoin() of the living");
    work(pe, 7);
    return 0;
  }
  for (uint64_t generation = config.tcp_restart > 0 ? 0 : 1;;) {
    generation = newest(pe, generation);
    work(pe, 100 * generation);
    std::printf("generation %d is right\n", static_cast<int>(generation));
    if (generation > victims.size()) return 0;
    lose_one(pe, moment, victims[generation - 1], generation);
    if (moment == "nobody") {
      meet_nobody(pe);
      return 0;
    }
    come_together(pe);
    ++generation;
  }
}

}  // namespace

int main(int argc, char** argv) {
  return peal::run_main([&] {
    std::vector<int> victims;
    for (int i = 2; i < argc; ++i) victims.push_back(std::atoi(argv[i]));
    return live(argc > 1 ? argv[1] : "alive", victims);
  });
}

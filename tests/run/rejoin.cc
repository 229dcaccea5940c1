// SPDX-License-Identifier: Apache-2.0
//
// A job whose PEs die and are replaced. In each generation of the job (its epoch + 1) all PEs put,
// add and get, each to all and around a ring, reduce and exchange, and verify every word; then one
// dies, while deaths are left. For rejoin_test.sh, and between hosts for hosts_test.py.
//
//   rejoin MOMENT VICTIM...   in generation n the n-th victim dies; the MOMENT is
//     kernel    while the others wait in a kernel
//     call      before a collective call of the others
//     twice     in a kernel, and the process that takes its place while it joins
//     masked    in a kernel; the others mask it, and work without it before they rejoin
//     nobody    in a kernel, and no process takes its place: rejoin() ends at its deadline
//     stay      none dies: the victim's host is switched off, or cut off from the others
//     reach     the same, and the others' kernels transfer to the victim
//     c         as kernel, by the calls of C
//     keep      as kernel, and heaps outlive it: they are of the generation before, or a new
//     process keep-c    the same by the calls of C differ    in a kernel; first one PE alone would
//     keep its heap, and all are refused
//   rejoin alive              nobody dies: rejoin() is refused, and the job goes on
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "host/base/error.h"
#include "peal/c_api.h"
#include "peal/c_calls.h"
#include "peal/peal.h"

extern char** environ;

namespace {

using peal::Error;
using peal::ErrorCode;

struct Words {
  uint64_t* box;      // by PE: what it put
  uint64_t* counter;  // what all have added
};

constexpr size_t kRing = 512;  // words that travel around the ring

/// Words by PE, and what the collective calls make of them.
struct Lists {
  uint64_t* mine;
  uint64_t* sums;
  uint64_t* from;     // by PE: its word for this one
  uint64_t* ring;     // kRing, written by the PE before
  uint64_t* arrived;  // counts those
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

// One lane: collective calls, then each PE's words by a put with a signal to the next one.
PEAL_KERNEL meet(peal::Context ctx, peal::Team team, Lists at, peal::Status* ended) {
  using peal::thread;
  const auto n = static_cast<size_t>(n_pes(ctx));
  *ended = all_reduce(ctx, thread, team, at.sums, at.mine, n, peal::op::sum);
  if (*ended == peal::Status::kOk) {
    *ended = all_to_all(ctx, thread, team, at.from, at.mine, 1);
  }
  const int next = (my_pe(ctx) + 1) % n_pes(ctx);
  if (*ended == peal::Status::kOk) {
    *ended =
        put_signal(ctx, at.ring, at.ring + kRing, kRing, peal::Signal::set(at.arrived, 1, next));
  }
  if (*ended == peal::Status::kOk) *ended = wait_until(ctx, at.arrived, peal::Compare::kGe, 1);
  if (*ended == peal::Status::kOk) *ended = barrier_all(ctx);
}

// One lane: until the NIC gives `pe` up, or another hears of its loss.
PEAL_KERNEL reach_for_ever(peal::Context ctx, uint64_t* word, int pe, peal::Status* ended) {
  do {
    *ended = p(ctx, word, uint64_t{1}, pe);
    if (*ended == peal::Status::kOk) *ended = quiet(ctx);
  } while (*ended == peal::Status::kOk);
}

// One lane.
PEAL_KERNEL read_block(peal::Context ctx, uint64_t* into, const uint64_t* from, size_t words,
                       int pe, peal::Status* ended) {
  *ended = get(ctx, into, from, words, pe);
}

PEAL_KERNEL wait_for_ever(peal::Context ctx, uint64_t* word, peal::Status* ended) {
  *ended = wait_until(ctx, word, peal::Compare::kEq, 99);
}

bool keeps_heap(const std::string& moment) { return moment.starts_with("keep"); }
bool in_c(const std::string& moment) { return moment == "c" || moment == "keep-c"; }

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

void work_together(peal::Runtime& pe, uint64_t base) {
  const auto n = static_cast<size_t>(pe.n_pes());
  const auto me = static_cast<uint64_t>(pe.my_pe());
  const auto words = [&pe](size_t count) { return static_cast<uint64_t*>(pe.calloc(count, 8)); };
  const Lists at{words(n), words(n), words(n), words(2 * kRing), words(1)};
  for (size_t i = 0; i < n; ++i) at.mine[i] = base + 10 * me + i;
  for (size_t i = 0; i < kRing; ++i) at.ring[kRing + i] = base * 1000 + me + i;
  peal::Status ended{};
  pe.barrier();
  peal::launch({}, meet, pe.context(), pe.world(), at, &ended).wait();
  pe.check();
  require(ended == peal::Status::kOk, "the collective calls");
  for (size_t i = 0; i < n; ++i) {
    require(at.sums[i] == n * (base + i) + 5 * n * (n - 1), "a sum");
    require(at.from[i] == base + 10 * i + me, "what each sent to each");
  }
  const uint64_t before = (me + n - 1) % n;
  for (size_t i = 0; i < kRing; ++i) {
    require(at.ring[i] == base * 1000 + before + i, "what came around the ring");
  }
  pe.barrier();
}

/// Blocks that outlive a rejoin(), one of them beyond the heap's first segment.
struct KeptBlocks {
  static constexpr size_t kSmall = 1000;     // words
  static constexpr size_t kLarge = 1 << 20;  // likewise: twice the heap of the test
  uint64_t* small = nullptr;
  uint64_t* large = nullptr;

  static uint64_t mark(uint64_t generation, int pe, size_t i) {
    return generation << 40 | static_cast<uint64_t>(pe) << 32 | i;
  }
  bool hold(uint64_t generation, int pe) const {
    for (size_t i = 0; i < kSmall; ++i) {
      if (small[i] != (generation == 0 ? 0 : mark(generation, pe, i))) return false;
    }
    return large[kLarge - 1] == (generation == 0 ? 0 : mark(generation, pe, kLarge - 1));
  }
};

KeptBlocks make_blocks(peal::Runtime& pe) {
  void* const hole = pe.malloc(64);
  const KeptBlocks made{pe.allocate<uint64_t>(KeptBlocks::kSmall),
                        pe.allocate<uint64_t>(KeptBlocks::kLarge)};
  pe.free(hole);
  return made;
}

KeptBlocks find_blocks(peal::Runtime& pe, bool by_c) {
  const std::vector<peal::HeapBlock> blocks = pe.blocks();
  require(blocks.size() >= 2 && blocks[0].bytes == 8 * KeptBlocks::kSmall &&
              blocks[1].bytes == 8 * KeptBlocks::kLarge,
          "the blocks that were kept");
  if (by_c) {
    for (size_t i = 0; i < blocks.size(); ++i) {
      size_t bytes = 0;
      require(peal_block(i, &bytes) == blocks[i].address && bytes == blocks[i].bytes, "peal_block");
    }
    require(peal_block(blocks.size(), nullptr) == nullptr, "peal_block of none");
  }
  return {static_cast<uint64_t*>(blocks[0].address), static_cast<uint64_t*>(blocks[1].address)};
}

// What was kept is as this process left it, and peers reach it. Then all of it is of `generation`.
void work_on_kept(peal::Runtime& pe, KeptBlocks& kept, uint64_t generation, bool by_c) {
  const KeptBlocks before = kept;
  kept = pe.epoch() == 0 ? make_blocks(pe) : find_blocks(pe, by_c);
  const bool lived = before.small != nullptr;
  require(!lived || (kept.small == before.small && kept.large == before.large), "addresses");
  require(kept.hold(lived ? generation - 1 : 0, pe.my_pe()), "what the blocks held");
  for (size_t i = 0; i < KeptBlocks::kSmall; ++i) {
    kept.small[i] = KeptBlocks::mark(generation, pe.my_pe(), i);
  }
  for (size_t i = 0; i < KeptBlocks::kLarge; ++i) {
    kept.large[i] = KeptBlocks::mark(generation, pe.my_pe(), i);
  }
  const int next = (pe.my_pe() + 1) % pe.n_pes();
  const auto read = [&](const uint64_t* from, size_t words) {
    auto* const into = static_cast<uint64_t*>(pe.malloc(8 * words));
    peal::Status ended{};
    pe.barrier();
    peal::launch({}, read_block, pe.context(), into, from, words, next, &ended).wait();
    require(ended == peal::Status::kOk, "a get of a block that was kept");
    for (size_t i = 0; i < words; ++i) {
      require(into[i] == KeptBlocks::mark(generation, next, i), "a peer's block");
    }
    pe.barrier();
    pe.free(into);
  };
  read(kept.small, KeptBlocks::kSmall);
  read(kept.large, KeptBlocks::kLarge);
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
  std::printf("waiting for the end of PE %d\n", victim);
  std::fflush(stdout);
  if (pe.my_pe() == victim && moment != "stay" && moment != "reach") raise(SIGKILL);
  if (moment == "reach" && pe.my_pe() != victim) {
    peal::Status ended{};
    peal::launch({}, reach_for_ever, pe.context(), word, victim, &ended).wait();
    require(ended == peal::Status::kQueueError || ended == peal::Status::kPeerLost,
            "a transfer to a host that is off");
  } else if (in_c(moment)) {
    require(peal_wait_until(word, PEAL_UINT64, PEAL_EQ, 99) == -1, "a wait beside a death");
  } else if (moment == "call") {
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

void come_together(peal::Runtime& pe, const std::string& moment) {
  if (moment == "differ") {
    const bool keeps = pe.my_pe() == 0;
    const ErrorCode code = refused([&] { peal::rejoin(pe, {.keep_heap = keeps}); });
    require(code == ErrorCode::kConfiguration, "heaps of which one would be kept");
    if (!keeps) {
      require(
          refused([&] { peal::rejoin(pe, {.keep_heap = true}); }) == ErrorCode::kInvalidArgument,
          "a heap that is gone");
    }
  }
  if (moment == "checked") {
    const ErrorCode code = refused([&] { peal::rejoin(pe, {.keep_heap = true}); });
    require(code == ErrorCode::kUnsupported, "a heap to be kept in checked mode");
    pe.lost_pes();  // nothing has changed
  }
  for (;;) {
    try {
      if (!in_c(moment)) return peal::rejoin(pe, {.keep_heap = keeps_heap(moment)});
      if ((keeps_heap(moment) ? peal_rejoin_keeping_heap() : peal_rejoin()) == 0) return;
      require(peal_error_code() == PEAL_ERROR_PEER_LOST, peal_error());
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
  const pid_t child = ::fork();
  if (child == 0) {
    const ErrorCode of_child = refused([&] { peal::rejoin(pe); });
    ::_exit(of_child == ErrorCode::kInvalidArgument ? 0 : 1);
  }
  int ended = 0;
  require(::waitpid(child, &ended, 0) == child && ended == 0, "a rejoin() of a forked child");
}

int live_in(peal::Runtime& pe, const std::string& moment, const std::vector<int>& victims) {
  KeptBlocks kept;
  for (;;) {
    const uint64_t generation = pe.epoch() + 1;
    if (keeps_heap(moment)) work_on_kept(pe, kept, generation, in_c(moment));
    work(pe, 100 * generation);
    work_together(pe, 100 * generation);
    std::printf("generation %d is right\n", static_cast<int>(generation));
    std::fflush(stdout);
    if (generation > victims.size()) return 0;
    lose_one(pe, moment, victims[generation - 1], generation);
    if (moment == "nobody") {
      meet_nobody(pe);
      return 0;
    }
    come_together(pe, moment);
    require(pe.epoch() == generation, "epoch() after a rejoin()");
    require(!in_c(moment) || peal_epoch() == static_cast<long long>(generation), "peal_epoch()");
  }
}

int live(const std::string& moment, const std::vector<int>& victims) {
  const auto config = peal::Config::from_environment(environ);
  if (moment == "twice" && config.tcp_restart == 1) {
    const auto group = peal::bootstrap::make_launched(config);  // the others are on their way, too
    raise(SIGKILL);
  }
  if (in_c(moment)) {
    require(peal_init() == 0, peal_error());
    const int code = live_in(*peal_runtime(), moment, victims);
    require(peal_finalize() == 0, peal_error());
    return code;
  }
  peal::Runtime pe = peal::start(config);
  if (moment == "alive") {
    const ErrorCode code = refused([&] { peal::rejoin(pe); });
    require(code == ErrorCode::kInvalidArgument, "rejoin() of the living");
    require(pe.epoch() == 0, "epoch() of a job that was never rejoined");
    work(pe, 7);
    return 0;
  }
  return live_in(pe, moment, victims);
}

}  // namespace

int main(int argc, char** argv) {
  return peal::run_main([&] {
    std::vector<int> victims;
    for (int i = 2; i < argc; ++i) victims.push_back(std::atoi(argv[i]));
    return live(argc > 1 ? argv[1] : "alive", victims);
  });
}

// SPDX-License-Identifier: Apache-2.0
//
// What ends waits from outside, and what makes contexts work again, with kernels on GPUs: recover()
// after an error of the NIC, abort() while kernels wait, mask() after a PE has ended. Each over the
// NIC and, where no NIC is at fault, over mapped memory.
//
//   recovery_test       three processes of its own for each case
//
// Prints "N passed, N failed". Nothing waits longer than kLimit.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "bootstrap/borrowed.h"
#include "peal/peal.h"
#include "tests/support/require.h"

extern "C" char** environ;

namespace {

using namespace peal;
using namespace std::chrono_literals;

constexpr int kPes = 3;
constexpr int kVictim = 2;
constexpr int kGone = 7;  // how the victim ends
constexpr auto kLimit = 30s;

/// To each PE that `alive` has a bit of: a word, a signal, an atomic, a word back; then a barrier.
PEAL_KERNEL exchange(Context ctx, uint64_t* words, uint64_t round, uint32_t alive, Status* ended) {
  const auto me = static_cast<uint64_t>(my_pe(ctx));
  Status first = Status::kOk;
  const auto attempt = [&](Status status) {
    if (first == Status::kOk) first = status;
  };
  for (int pe = 0; pe < n_pes(ctx); ++pe) {
    if ((alive >> pe & 1) == 0) continue;
    attempt(p(ctx, words + 4 * me, round + me, pe));
    attempt(signal(ctx, Signal::set(words + 4 * me + 1, round, pe)));
    attempt(wait_until(ctx, words + 4 * pe + 1, Compare::kGe, round));
    attempt(atomic_fetch_inc(ctx, words + 100, pe).status);
    const Fetched<uint64_t> seen = g(ctx, words + 4 * me, pe);
    attempt(seen.status == Status::kOk && seen.value != round + me ? Status::kQueueError
                                                                   : seen.status);
  }
  attempt(barrier_all(ctx));
  *ended = first;
}

PEAL_KERNEL reach_outside(Context ctx, uint64_t* outside, int pe, Status* ended) {
  ctx.heap.bytes += 4096;  // only the NIC can tell
  const Status posted = p(ctx, outside, uint64_t{7}, pe);
  *ended = posted == Status::kOk ? quiet(ctx) : posted;
}

PEAL_KERNEL wait_for_ever(Context ctx, uint64_t* word, Status* ended) {
  *ended = wait_until(ctx, word, Compare::kEq, uint64_t{99});
}

PEAL_KERNEL put_to(Context ctx, uint64_t* word, int pe, Status* ended) {
  *ended = p(ctx, word, uint64_t{1}, pe);
}

/// One PE and its memory.
class Pe {
 public:
  Pe(Bootstrap& group, TransportKind transport)
      : runtime(std::make_unique<bootstrap::BorrowedBootstrap>(group), config(transport)),
        words(runtime.allocate<uint64_t>(256)),
        ended(runtime.allocate<Status>(1)) {}

  template <class... Parameters, class... Arguments>
  Status run(void (*kernel)(Parameters...), Arguments... arguments) {
    launch({}, kernel, runtime.context(), arguments..., ended).wait();
    return status();
  }
  Status status() const {
    Status now = Status::kOk;
    runtime.copy_out(&now, ended, sizeof now);
    return now;
  }
  void all_is_well(uint32_t alive) {
    runtime.barrier();
    require(run(exchange, words, round_ += 1000, alive) == Status::kOk, "an exchange among all");
    runtime.check();
  }

  Runtime runtime;
  uint64_t* words;
  Status* ended;

 private:
  static Config config(TransportKind transport) {
    Config config = Config::from_environment(environ);
    config.transport = transport;
    config.timeout = kLimit;
    config.heap_size = 32u << 20;
    return config;
  }

  uint64_t round_ = 0;
};

constexpr uint32_t kAll = 0b111;

/// The NIC refuses what lies behind the heap: both ends of that queue are reset, no other.
int recover(Bootstrap& group, TransportKind transport) {
  Pe pe(group, transport);
  const Window heap = pe.runtime.context().heap;
  pe.all_is_well(kAll);
  for (int round = 0; round < 3; ++round) {
    if (pe.runtime.my_pe() == 0) {
      auto* const outside = reinterpret_cast<uint64_t*>(heap.base + heap.bytes);
      require(pe.run(reach_outside, outside, 1) == Status::kQueueError, "an error of the NIC");
      require(pe.runtime.failure().status == Status::kQueueError, "a failure that tells of it");
    }
    pe.runtime.barrier();
    require(pe.runtime.recover() == (pe.runtime.my_pe() == 2 ? 0u : 1u), "one queue each");
    pe.all_is_well(kAll);
  }
  pe.runtime.barrier();
  return 0;
}

/// Kernels of all PEs wait, and one PE calls the job off.
int abort_waits(Bootstrap& group, TransportKind transport) {
  Pe pe(group, transport);
  pe.all_is_well(kAll);
  auto running = launch({}, wait_for_ever, pe.runtime.context(), pe.words + 200, pe.ended);
  pe.runtime.barrier();
  if (pe.runtime.my_pe() == 1) pe.runtime.abort("enough");
  running.wait();
  require(pe.status() == Status::kAborted, "a wait that ends");
  const std::string text = pe.runtime.failure().text;
  require(text.find("PE 1 aborted: enough") != std::string::npos, text);
  pe.runtime.barrier();
  pe.runtime.recover();
  pe.all_is_well(kAll);
  pe.runtime.barrier();
  return 0;
}

/// A PE ends while the kernels of the others wait; they go on without it.
int mask(Bootstrap& group, TransportKind transport) {
  Pe pe(group, transport);
  pe.all_is_well(kAll);
  if (pe.runtime.my_pe() == kVictim) _exit(kGone);
  require(pe.run(wait_for_ever, pe.words + 200) == Status::kPeerLost, "a wait that ends");
  pe.runtime.mask({kVictim});
  require(pe.run(put_to, pe.words, kVictim) == Status::kPeerMasked, "a put that is refused");
  pe.all_is_well(kAll & ~(1u << kVictim));
  pe.runtime.barrier();
  return 0;
}

struct Case {
  const char* name;
  int (*body)(Bootstrap&, TransportKind);
  TransportKind transport;
  bool loses_a_pe = false;
};
constexpr Case kCases[] = {
    {"recover() after an error of the NIC", recover, TransportKind::kIbgda},
    {"abort() over the NIC", abort_waits, TransportKind::kIbgda},
    {"abort() over mapped memory", abort_waits, TransportKind::kP2p},
    {"mask() over mapped memory", mask, TransportKind::kP2p, true},
    {"mask() over the NIC", mask, TransportKind::kIbgda, true},
};

/// What is wrong; empty if nothing is.
std::string run(const Case& one) {
  std::string text;
  try {
    bootstrap::run_processes(kPes, [&](Bootstrap& group) { return one.body(group, one.transport); },
                             {.job = 90s});
  } catch (const std::exception& error) {
    text = error.what();
  }
  if (!one.loses_a_pe) return text;
  // The victim is the only one that fails.
  const bool alone = text.find("rank " + std::to_string(kVictim)) != std::string::npos &&
                     text.find(';') == std::string::npos;
  return alone ? "" : "not the victim alone: " + text;
}

}  // namespace

int main() {
  int passed = 0;
  int failed = 0;
  for (const Case& one : kCases) {
    const std::string wrong = run(one);
    std::printf("%s: %s\n", one.name, wrong.empty() ? "ok" : wrong.c_str());
    std::fflush(stdout);
    ++(wrong.empty() ? passed : failed);
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

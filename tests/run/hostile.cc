// SPDX-License-Identifier: Apache-2.0
//
// PEs that do not end as they should, one way each; hostile_test.sh runs them and knows what each
// PE must answer. PE 0 is the one that misbehaves, the others do what every job does meanwhile:
// wait in a kernel, meet in a collective call, or end.
//
//   hostile WAY        exit code 2: the job did not come as far as the way
#include <nvshmem.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "peal/c_api.h"
#include "peal/c_calls.h"
#include "peal/peal.h"

namespace {

std::optional<peal::Runtime> of_namespace;
uint64_t* words =
    nullptr;  // symmetric: what another PE puts here, what this one puts, and one more

PEAL_KERNEL nothing() {}
PEAL_KERNEL wait_for_nine(peal::Context ctx, uint64_t* word) {
  static_cast<void>(peal::wait_until(ctx, word, peal::Compare::kEq, uint64_t{9}));
}
PEAL_KERNEL put_nowhere(peal::Context ctx, uint64_t* word) {
  static_cast<void>(peal::put(ctx, word, word + 1, 1, 17));
}
PEAL_KERNEL wait_again_and_again(peal::Context ctx, uint64_t* word) {
  for (int i = 0; i < 1000; ++i) {
    const peal::Status ended = peal::wait_until(ctx, word, peal::Compare::kEq, uint64_t{9});
    if (ended == peal::Status::kOk) return;
  }
}
PEAL_KERNEL write_to_null(peal::Context, volatile int* nowhere) {
  if (blockIdx.x == 1 && threadIdx.x == 32) *nowhere = 1;
}
PEAL_KERNEL put_often(peal::Context ctx, uint64_t* word) {
  for (uint64_t i = 0; i < 20'000; ++i) {
    static_cast<void>(peal::p(ctx, word, i, (ctx.pe + 1) % ctx.n_pes));
  }
  static_cast<void>(peal::quiet(ctx));
}

bool first() { return peal_my_pe() == 0; }
// PE 0 goes on when the others have come here, too.
bool begin() {
  if (peal_init() != 0) return false;
  words = static_cast<uint64_t*>(peal_calloc(4, sizeof(uint64_t)));
  if (words == nullptr) return false;
  words[1] = 7;
  const int next = (peal_my_pe() + 1) % peal_n_pes();
  if (peal_put(words, words + 1, sizeof(uint64_t), next) != 0 || peal_barrier_all() != 0 ||
      words[0] != 7) {
    return false;
  }
  const auto others = static_cast<uint64_t>(peal_n_pes() - 1);
  if (!first()) {
    // It may fail: PE 0 may be gone before this PE sees that it is done.
    static_cast<void>(peal_atomic(PEAL_ATOMIC_ADD, words + 2, 1, sizeof(uint64_t), 0));
    return true;
  }
  return peal_wait_until(words + 2, PEAL_UINT64, PEAL_EQ, others) == 0;
}

int say(const char* call, int answer) {
  const std::string error = answer == 0 ? "" : peal_error();  // of the last call, whichever
  std::fprintf(stderr, "PE %d: %s answered %d: %s\n", peal_my_pe(), call, answer, error.c_str());
  return answer == 0 ? 0 : 5;
}
// peal_my_pe() is no call after the end.
int finalize(int pe) {
  const int answer = peal_finalize();
  std::fprintf(stderr, "PE %d: finalize answered %d: %s\n", pe, answer,
               answer == 0 ? "" : peal_error());
  return answer == 0 ? 0 : 5;
}

// What the others do while PE 0 goes its way.
int meet() { return say("barrier", peal_barrier()); }
int wait() { return say("wait", peal_wait_until(words, PEAL_UINT64, PEAL_EQ, 9)); }
int end() { return finalize(peal_my_pe()); }

/// PE 0 does `leave`, the others `meanwhile`; with the C API.
std::function<int()> job(std::function<int()> leave, std::function<int()> meanwhile) {
  return [=] {
    if (!begin()) return 2;
    return first() ? leave() : meanwhile();
  };
}

int exits(int code) { std::exit(code); }

pid_t others[2] = {};  // PE 1's process and PE 2's; at PE 0
/// At the end of PE 0's process: until that of PE 1 has ended. Then PE 2, which has stopped, hears
/// of both at once, and ends.
void outlive_others() {
  if (others[0] == 0) return;
  pollfd first_end{static_cast<int>(::syscall(SYS_pidfd_open, others[0], 0)), POLLIN, 0};
  pollfd second_end{static_cast<int>(::syscall(SYS_pidfd_open, others[1], 0)), POLLIN, 0};
  if (first_end.fd >= 0) ::poll(&first_end, 1, 60'000);
  // Again and again, for it may not have stopped yet.
  for (int i = 0; i < 6'000 && second_end.fd >= 0; ++i) {
    ::kill(others[1], SIGCONT);
    if (::poll(&second_end, 1, 10) != 0) return;
  }
}
/// PE 0 exits, and its process is the last to end.
int exits_last() {
  std::atexit(outlive_others);
  if (!begin()) return 2;
  auto* const pids = static_cast<uint64_t*>(peal_calloc(4, sizeof(uint64_t)));
  if (pids == nullptr) return 2;
  if (first()) {
    if (peal_wait_until(pids + 3, PEAL_UINT64, PEAL_EQ, 2) != 0) return 2;
    others[1] = static_cast<pid_t>(pids[2]);
    others[0] = static_cast<pid_t>(pids[1]);
    return exits(3);
  }
  pids[3] = static_cast<uint64_t>(::getpid());
  if (peal_put(pids + peal_my_pe(), pids + 3, sizeof(uint64_t), 0) != 0) return 2;
  // As in begin().
  static_cast<void>(peal_atomic(PEAL_ATOMIC_ADD, pids + 3, 1, sizeof(uint64_t), 0));
  if (peal_my_pe() == 2) ::raise(SIGSTOP);
  return wait();
}
/// For more than two deadlines of the others, which are whole seconds.
int work_for_a_while() {
  const char* const text = std::getenv("PEAL_BOOTSTRAP_TIMEOUT");
  const int deadline_s = text == nullptr ? 1 : std::atoi(text);
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(2500) * deadline_s;
  while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
  return end();
}
int stop() {
  ::raise(SIGSTOP);
  return 0;
}

/// The C++ API: run_main(), with `body` behind a barrier.
int by_run_main(const std::function<int(peal::Runtime&)>& body) {
  return peal::run_main([&] {
    peal::Runtime pe = peal::start();
    words = pe.allocate<uint64_t>(2);
    pe.host().barrier_all();
    return body(pe);
  });
}
int cxx_wait(peal::Runtime& pe) {
  pe.host().wait_until(words, peal::Compare::kEq, uint64_t{9});
  return 0;
}

int return_cxx() {
  peal::Runtime& pe = of_namespace.emplace(peal::start());
  words = pe.allocate<uint64_t>(2);
  words[1] = 7;
  pe.host().put(words, words + 1, 1, (pe.my_pe() + 1) % pe.n_pes());
  pe.host().barrier_all();
  return words[0] != 7 ? 2 : 0;
}
int return_nvshmem() {
  nvshmem_init();
  auto* const word = static_cast<int*>(nvshmem_calloc(1, sizeof(int)));
  nvshmem_int_p(word, 7, (nvshmem_my_pe() + 1) % nvshmem_n_pes());
  nvshmem_barrier_all();
  return nvshmem_int_g(word, nvshmem_my_pe()) == 7 ? 0 : 2;
}

int throw_while(const std::function<int(peal::Runtime&)>& meanwhile) {
  return by_run_main([&](peal::Runtime& pe) {
    if (pe.my_pe() == 0) throw std::runtime_error("the disk is full");
    return meanwhile(pe);
  });
}
int barrier_cxx(peal::Runtime& pe) {
  pe.barrier();
  return 0;
}
int caught_elsewhere() {
  try {
    peal::Runtime pe = peal::start();
    if (pe.my_pe() == 0) throw std::runtime_error("the disk is full");
    pe.barrier();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "caught: %s\n", error.what());
    return 4;
  }
  return 0;
}
int crash() {
  peal::launch({.blocks = 2, .threads = 33}, write_to_null, peal_runtime()->context(), nullptr)
      .wait();
  return 0;
}
int terminate() { throw std::runtime_error("nobody catches this"); }

/// A kernel whose failure nobody asks for; its waits end soon.
template <class Kernel>
int drop(const Kernel& kernel) {
  return by_run_main([&](peal::Runtime& pe) {
    const auto own = pe.make_context({.timeout = std::chrono::milliseconds(300)});
    peal::launch({}, kernel, own.value(), words).wait();
    return 0;
  });
}
/// The same of one that goes on waiting, until the watcher has said so: what is said on stderr goes
/// through a pipe here.
int drop_when_said() {
  return by_run_main([](peal::Runtime& pe) {
    int ends[2];
    const int out = ::dup(STDERR_FILENO);
    if (::pipe(ends) != 0 || ::dup2(ends[1], STDERR_FILENO) < 0) return 2;
    const auto own = pe.make_context({.timeout = std::chrono::milliseconds(300)});
    auto waiting = peal::launch({}, wait_again_and_again, own.value(), words);
    std::string said;
    char part[512];
    while (said.find("wait_again_and_again") == std::string::npos) {
      const ssize_t n = ::read(ends[0], part, sizeof part);
      if (n <= 0 || ::write(out, part, static_cast<size_t>(n)) != n) return 2;
      said.append(part, static_cast<size_t>(n));
    }
    ::dup2(out, STDERR_FILENO);
    __atomic_store_n(words, uint64_t{9}, __ATOMIC_RELEASE);
    waiting.wait();
    return 0;
  });
}
int drop_by_c() {
  if (!begin()) return 2;
  peal::launch({}, put_nowhere, peal_runtime()->context(), words).wait();
  return end();
}
int end_while_running() {
  if (!begin()) return 2;
  static peal::Stream stream;
  peal::launch({.stream = stream}, put_often, peal_runtime()->context(), words + 3);
  return end();
}

struct CallsAtTheEnd {
  bool wanted = false;
  ~CallsAtTheEnd() {
    if (wanted) std::fprintf(stderr, "late put: %s\n", late());
  }
  static const char* late() {
    return peal_put(words, words + 1, 8, 0) == 0 ? "answered 0" : peal_error();
  }
};
CallsAtTheEnd calls_at_the_end;
int call_in_a_destructor() {
  calls_at_the_end.wanted = true;
  return begin() ? end() : 2;
}

/// PE 0 forks, the child does `in_child`, whose answer is its exit code; then the job goes on.
std::function<int()> forks(std::function<int()> in_child) {
  return [=] {
    if (!begin() || peal_barrier() != 0) return 2;
    pid_t child = -1;
    if (first()) child = ::fork();
    if (child == 0) ::_exit(in_child());
    for (uint64_t round = 8; round < 12; ++round) {
      words[1] = round;
      const int next = (peal_my_pe() + 1) % peal_n_pes();
      if (peal_put(words, words + 1, 8, next) != 0 || peal_barrier_all() != 0 || words[0] != round)
        return 3;
      if (peal_barrier() != 0) return 3;
    }
    int status = 0;
    if (child > 0 && (::waitpid(child, &status, 0) != child || status != 0)) return 4;
    return end();
  };
}
/// 0 where the call fails with a sentence about fork().
std::function<int()> refused(const std::function<int()>& call) {
  return [=] {
    if (call() == 0) return 1;
    return std::strstr(peal_error(), "forked") != nullptr ? 0 : 1;
  };
}
int exits_in_child() {
  if (!begin()) return 2;
  const pid_t child = first() ? ::fork() : -1;
  if (child == 0) std::exit(7);
  int status = 0;
  if (child > 0 && (::waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7)) return 4;
  return meet() == 0 ? end() : 3;
}
// The child lives on, with what it has inherited, when PE 0 is no more.
int child_outlives() {
  if (!begin()) return 2;
  if (!first()) return meet();
  int ends[2];
  if (::pipe(ends) != 0) return 2;
  if (::fork() == 0) {
    ::close(ends[1]);
    char nothing = 0;
    // Until PE 0 has ended, and the others have heard of it.
    if (::read(ends[0], &nothing, 1) != 0) ::_exit(1);
    ::alarm(3);
    for (;;) ::pause();
  }
  ::raise(SIGKILL);
  return 0;
}
int kernels_in_child() {
  std::optional<peal::Stream> stream(std::in_place);
  peal::launch({.stream = *stream}, nothing);
  stream->synchronize();
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      peal::launch({.stream = *stream}, nothing);
    } catch (const std::exception& error) {
      stream.reset();
      std::exit(std::strstr(error.what(), "forked") != nullptr ? 0 : 1);
    }
    std::exit(1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && status == 0 ? 0 : 4;
}

const std::map<std::string, std::function<int()>> kWays = {
    {"return_c", [] { return begin() ? 0 : 2; }},
    {"return_cxx", return_cxx},
    {"return_nvshmem", return_nvshmem},
    {"exit3_meet", job([] { return exits(3); }, meet)},
    {"exit3_wait", job([] { return exits(3); }, wait)},
    {"exit3_last", exits_last},
    {"exit3_end", job([] { return exits(3); }, end)},
    {"exit0_wait", job([] { return exits(0); }, wait)},
    {"quick_exit_wait", job(
                            [] {
                              ::quick_exit(6);
                              return 0;
                            },
                            wait)},
    {"kill_wait", job([] { return ::raise(SIGKILL); }, wait)},
    {"kill_meet", job([] { return ::raise(SIGKILL); }, meet)},
    {"abort_wait", job(
                       [] {
                         std::abort();
                         return 0;
                       },
                       wait)},
    {"crash_wait", job(crash, wait)},
    {"terminate_wait", job(terminate, wait)},
    {"finalize_wait", job(end, wait)},
    {"finalize_meet", job(end, meet)},
    {"slow_end", job(work_for_a_while, end)},
    {"stop_end", job(stop, end)},
    {"stop_malloc", job(stop, [] { return peal_malloc(8) != nullptr ? 0 : say("malloc", -1); })},
    {"throw_meet", [] { return throw_while(barrier_cxx); }},
    {"throw_wait", [] { return throw_while(cxx_wait); }},
    {"throw_end", [] { return throw_while([](peal::Runtime&) { return 0; }); }},
    {"caught_elsewhere", caught_elsewhere},
    {"drop_wait", [] { return drop(wait_for_nine); }},
    {"drop_put", [] { return drop(put_nowhere); }},
    {"drop_c", drop_by_c},
    {"wait_again", drop_when_said},
    {"end_while_running", end_while_running},
    {"pthread_exit", [] { return begin() ? (::pthread_exit(nullptr), 0) : 2; }},
    {"destructor", call_in_a_destructor},
    {"fork_exit", exits_in_child},
    {"fork_put", forks(refused([] { return peal_put(words, words + 1, 8, 1); }))},
    {"fork_barrier", forks(refused([] { return peal_barrier(); }))},
    {"fork_barrier_all", forks(refused([] { return peal_barrier_all(); }))},
    {"fork_malloc", forks(refused([] { return peal_malloc(64) == nullptr ? 1 : 0; }))},
    {"fork_finalize", forks(refused([] { return peal_finalize(); }))},
    {"fork_init", forks(refused([] { return peal_init(); }))},
    {"fork_outlives", child_outlives},
    {"fork_kernels", kernels_in_child},
};

}  // namespace

int main(int argc, char** argv) {
  const auto way = kWays.find(argc > 1 ? argv[1] : "");
  if (way != kWays.end()) return way->second();
  std::fprintf(stderr, "hostile: '%s' is none of its ways\n", argc > 1 ? argv[1] : "");
  return 2;
}

// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the API share: the PEs they run on, kernels that report. bytes.h comes along.
//
//   TEST(Rma, PutArrives) { on_every_pe([](Runtime& pe) { ... run(pe, grid, kernel, ...); ... }); }
//
// Under mpirun, or in a TCP job, a process is one PE and the Runtime is the program's; without it
// each test runs as
// --pes=N threads of one process, each with a Runtime of its own. The body is the same.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/bootstraps.h"
#include "bootstrap/launch.h"
#include "host/base/error.h"
#include "peal/peal.h"
#include "tests/support/bytes.h"

namespace peal::api_test {

/// How this program's tests run; set once by run_tests().
struct Arrangement {
  std::optional<Runtime> process_pe;  // where a process is one PE
  int threads = 3;                    // else
  TransportKind transport = TransportKind::kAuto;
  std::vector<int> rails;  // of PE k: number k modulo their count; none: as configured
};
inline Arrangement& arrangement() {
  static Arrangement the_one;  // gtest hands nothing to its tests
  return the_one;
}

/// The settings of tests in one process: small, and deadlines that a broken test meets before Bazel
/// ends it.
inline Config small_config() {
  Config config = Config::defaults();
  config.heap_size = 32u << 20;
  config.heap_limit = 4 * config.heap_size;
  config.timeout = std::chrono::seconds(60);
  config.bootstrap_timeout = std::chrono::seconds(60);
  config.transport = arrangement().transport;
  if (!arrangement().rails.empty()) config.rails = arrangement().rails[0];
  return config;
}

/// A Runtime over a borrowed group.
inline Runtime start(Bootstrap& group, const Config& config = small_config()) {
  return peal::join(group, config);
}

/// Runs `body` on every PE; ends when all have ended. A PE whose body throws fails the test.
inline void on_every_pe(const std::function<void(Runtime&)>& body) {
  try {
    if (auto& pe = arrangement().process_pe) {
      body(*pe);
      pe->barrier();
      return;
    }
    bootstrap::run_threads(arrangement().threads, [&](Bootstrap& group) {
      Runtime pe = start(group);
      body(pe);
      pe.barrier();
    });
  } catch (const std::exception& error) {
    FAIL() << error.what();
  }
}

/// "2,1" as numbers. Lets the software NIC of this process be as many as the largest of them.
inline std::vector<int> read_rails(const std::string& text) {
  std::vector<int> rails;
  std::istringstream numbers(text);
  for (std::string number; std::getline(numbers, number, ',');) rails.push_back(std::stoi(number));
  const std::string devices = std::to_string(*std::max_element(rails.begin(), rails.end()));
  ::setenv("PEAL_SOFTNIC_PRESENT", ("devices=" + devices).c_str(), 1);
  return rails;
}

/// Reads the program's own arguments: --pes=N, --transport=p2p or proxy, --rails=N,N,...
inline void read_arguments(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--transport=p2p") {
      arrangement().transport = TransportKind::kP2p;
    } else if (argument == "--transport=proxy") {
      arrangement().transport = TransportKind::kProxy;
    } else if (argument.starts_with("--pes=")) {
      arrangement().threads = std::stoi(argument.substr(6));
    } else if (argument.starts_with("--rails=")) {
      arrangement().rails = read_rails(argument.substr(8));
    } else {
      fail(ErrorCode::kInvalidArgument,
           "{}: only --pes=N, --transport=p2p, --transport=proxy and --rails=N are known",
           argument);
    }
  }
}

/// The main() of these programs.
inline int run_tests(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return run_main([&] {
    read_arguments(argc, argv);
    Config config = Config::from_environment(environ);
    config.heap_limit = 4 * config.heap_size;
    if (bootstrap::choose_launch(config).kind != BootstrapKind::kSingle) {
      config.transport = arrangement().transport;
      if (const auto& rails = arrangement().rails; !rails.empty()) {
        const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
        config.rails = rails[std::stoul(rank ? rank : "0") % rails.size()];
      }
      arrangement().process_pe = peal::start(config);
    }
    const int result = RUN_ALL_TESTS();
    arrangement().process_pe.reset();
    return result;
  });
}

/// No NIC takes part: nobody checks keys, and what a process has allocated for itself others cannot
/// reach.
inline bool without_nic(const Runtime& pe) { return std::string(pe.transport()) == "p2p"; }
inline bool can_share_any_memory(const Runtime& pe) {
  return !without_nic(pe) || !arrangement().process_pe || pe.n_pes() == 1;
}

/// A context that takes 4 KiB behind the heap for heap: only the NIC can tell, and refuses them.
template <Reach R>
PEAL_HD BasicContext<R> past_the_heap(BasicContext<R> ctx) {
  ctx.heap.bytes += 4096;
  return ctx;
}
inline uint64_t* behind_heap(const ContextFields& ctx) {
  return reinterpret_cast<uint64_t*>(ctx.heap.base + ctx.heap.bytes);
}

/// Symmetric memory of `count` zeroed T for the length of a scope. Construction and destruction are
/// collective.
template <class T>
class Symmetric {
 public:
  Symmetric(Runtime& pe, size_t count) : pe_(pe), data_(pe.allocate<T>(count)) {}
  ~Symmetric() {
    try {
      pe_.free(data_);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
  Symmetric(const Symmetric&) = delete;
  Symmetric& operator=(const Symmetric&) = delete;
  T* data() const { return data_; }
  T& operator[](size_t i) const { return data_[i]; }

 private:
  Runtime& pe_;
  T* data_;
};

/// Who calls, for tests of a template: a scope, on a kind of context, in a block of so many
/// threads.
template <class S, Reach R, unsigned kThreads>
struct Caller {
  using Scope = S;
  static constexpr Reach kReach = R;
  static Grid grid() { return {.blocks = 1, .threads = kThreads}; }
};

/// What the lanes of a kernel found wrong; the first finding is kept.
struct Verdict {
  unsigned failures = 0;
  unsigned line = 0;
  unsigned long long seen = 0;
  unsigned long long wanted = 0;
};

/// Fails the kernel's test unless `seen == wanted`.
PEAL_DEVICE void expect_eq(Verdict* verdict, unsigned long long seen, unsigned long long wanted,
                           unsigned line = __builtin_LINE()) {
  if (seen == wanted) return;
  if (atomicAdd(&verdict->failures, 1u) != 0) return;
  verdict->line = line;
  verdict->seen = seen;
  verdict->wanted = wanted;
}

PEAL_DEVICE void expect_ok(Verdict* verdict, Status status, unsigned line = __builtin_LINE()) {
  expect_eq(verdict, static_cast<unsigned>(status), 0u, line);
}

PEAL_DEVICE void expect(Verdict* verdict, bool holds, unsigned line = __builtin_LINE()) {
  expect_eq(verdict, holds ? 1u : 0u, 1u, line);
}

/// Runs a kernel that takes a Verdict* first, and fails the test for what it found.
template <class... Parameters, class... Arguments>
void run(const Grid& grid, void (*kernel)(Verdict*, Parameters...), Arguments&&... arguments) {
  Verdict verdict;
  launch(grid, kernel, &verdict, std::forward<Arguments>(arguments)...).wait();
  EXPECT_EQ(verdict.failures, 0u) << "lanes; the first at line " << verdict.line << ": saw "
                                  << verdict.seen << ", wanted " << verdict.wanted;
}

/// The same, and the PE must be without a failure afterwards.
template <class... Parameters, class... Arguments>
void run_clean(Runtime& pe, const Grid& grid, void (*kernel)(Verdict*, Parameters...),
               Arguments&&... arguments) {
  run(grid, kernel, std::forward<Arguments>(arguments)...);
  const Failure failure = pe.failure();
  EXPECT_EQ(failure.status, Status::kOk) << failure.text;
}

}  // namespace peal::api_test

// SPDX-License-Identifier: Apache-2.0
//
// The planted mistakes (plants.h) as jobs of two PEs that are threads of this process, in checked
// mode; and kernels in which all is right, about which nothing may be said.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <regex>

#include "tests/checked/ranges.h"
#include "tests/checked/scopes.h"
#include "tests/support/injector.h"
#include "tests/support/job.h"

namespace peal::planted {
namespace {

/// What all PEs were told.
class Told {
 public:
  void add(const std::string& text) {
    const std::lock_guard lock(mutex_);
    texts_.push_back(text);
  }
  std::string all() const {
    std::string all;
    for (const std::string& text : texts_) all += "\n  " + text;
    return all;
  }
  bool nothing() const { return texts_.empty(); }
  /// A sentence that has all parts of it, and names kernel and line.
  bool has(const Plant& plant) const {
    const std::regex name("kernel " + plant.kernel +
                          " \\([a-z_]+\\.(h|cc):[0-9]+\\), block [0-9]+, thread");
    return std::ranges::any_of(texts_, [&](const std::string& text) {
      return std::regex_search(text, name) &&
             std::ranges::all_of(plant.parts, [&](const std::string& part) {
               return text.find(part) != text.npos;
             });
    });
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> texts_;
};

/// Runs `body` on two PEs, whose waits last for `timeout`, and collects what check() says.
void run_job(bool checked, TransportKind transport, Told& told,
             const std::function<void(Runtime&, const Memory&)>& body,
             std::chrono::seconds timeout = std::chrono::seconds(60)) {
  Config config = api_test::small_config();
  config.check = checked;
  config.transport = transport;
  config.timeout = timeout;
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Runtime pe = api_test::start(group, config);
    const Memory memory{static_cast<std::byte*>(pe.malloc(100)),
                        static_cast<std::byte*>(pe.malloc(4096)), pe.allocate<uint64_t>(16)};
    try {
      body(pe, memory);
    } catch (const std::exception& error) {
      told.add(error.what());
    }
    pe.barrier();
    const Failure failure = pe.failure();
    if (failure.status != Status::kOk) told.add(failure.text);
    pe.barrier();
  });
}

class Planted : public testing::TestWithParam<Plant> {};

TEST_P(Planted, IsFound) {
  const Plant& plant = GetParam();
  for (const TransportKind transport : {TransportKind::kIbgda, TransportKind::kP2p}) {
    if (plant.by_nic && transport == TransportKind::kP2p) continue;
    // Some plants wait in vain. The other PE of one that does not may be late.
    for (const int seconds : {1, 20}) {
      Told told;
      run_job(true, transport, told, plant.run, std::chrono::seconds(seconds));
      if (told.has(plant)) break;
      if (seconds == 20) ADD_FAILURE() << plant.kernel << " was not found; told:" << told.all();
    }
  }
}

std::string name_of(const testing::TestParamInfo<Plant>& info) { return info.param.kernel; }
INSTANTIATE_TEST_SUITE_P(Range, Planted, testing::ValuesIn(range_plants()), name_of);
INSTANTIATE_TEST_SUITE_P(Scope, Planted, testing::ValuesIn(scope_plants()), name_of);

// ---- right ones

PEAL_KERNEL use_all_of_it(Context ctx, Team team, Memory m) {
  const int other = 1 - ctx.pe;
  static_cast<void>(put(ctx, block, m.block, m.beside, 100, other));
  static_cast<void>(barrier_all(ctx, block));
  static_cast<void>(put(ctx, block, m.beside, m.block, 99, other));
  if (thread_in_block() == 0) {
    static_cast<void>(p(ctx, m.words + 15, 1, other));
    static_cast<void>(atomic_fetch_add(ctx, m.words, 1, other).status);
    static_cast<void>(put(ctx, m.beside + 4096, m.beside, 0, other));
  }
  static_cast<void>(barrier_all(ctx, block));
  static_cast<void>(all_gather(ctx, block, team, m.words, m.words + 8, 8));
  static_cast<void>(barrier_all(ctx, block));
}

PEAL_KERNEL all_alike(Context ctx, BlockContext own, Team team, Memory m) {
  const int other = 1 - ctx.pe;
  static_cast<void>(put(own, block, m.beside + 64 * block_in_grid(), m.beside + 2048, 64, other));
  static_cast<void>(quiet(own, block));
  if (block_in_grid() != 0) return;
  static_cast<void>(
      put(ctx, warp, m.beside + 1024 + thread_in_block() / 32 * 64, m.beside + 2048, 64, other));
  __syncthreads();
  static_cast<void>(barrier_all(ctx, block));
  static_cast<void>(sync(ctx, block, team));
  static_cast<void>(barrier(ctx, block, team));
  if (thread_in_block() >= 32) return;
  static_cast<void>(quiet(ctx, warp));
}

TEST(Planted, NothingIsSaidWhereAllIsRight) {
  for (const TransportKind transport : {TransportKind::kIbgda, TransportKind::kP2p}) {
    Told told;
    run_job(true, transport, told, [](Runtime& pe, const Memory& memory) {
      const auto own = pe.make_context<Reach::kBlock>({.queues_per_peer = 2});
      pe.free(pe.malloc(1));
      launch({.threads = 64}, use_all_of_it, pe.context(), pe.world(), memory).wait();
      pe.barrier();
      for (int i = 0; i < 2; ++i) {
        launch({.blocks = 2, .threads = 64}, all_alike, pe.context(), own.value(), pe.world(),
               memory)
            .wait();
      }
      pe.barrier();
    });
    EXPECT_TRUE(told.nothing()) << told.all();
  }
}

PEAL_KERNEL keep_ticket(Context ctx, Memory m, Ticket* kept) {
  for (int i = 0; i < 3; ++i) *kept = put_nbi(ctx, thread, m.beside, m.beside + 2048, 64, 1);
  static_cast<void>(quiet(ctx));
}
PEAL_KERNEL use_kept_ticket(Context ctx, const Ticket* kept) {
  static_cast<void>(wait(ctx, *kept));
}
// A queue that fails is reset, and counts from the beginning.
TEST(Planted, TicketsOfBeforeARecoveryAreFound) {
  Told told;
  run_job(true, TransportKind::kIbgda, told, [](Runtime& pe, const Memory& memory) {
    Ticket kept;
    pe.barrier();
    if (pe.my_pe() == 0) fault_test::Injector().inject("wqe=3 fault=syndrome:0x13");
    pe.barrier();
    if (pe.my_pe() == 0) launch({}, keep_ticket, pe.context(), memory, &kept).wait();
    pe.barrier();
    if (pe.my_pe() == 0) fault_test::Injector().clear();
    pe.recover();
    if (pe.my_pe() == 0) launch({}, use_kept_ticket, pe.context(), &kept).wait();
  });
  const Plant plant{"use_kept_ticket", {"a ticket of before recover()"}, nullptr};
  EXPECT_TRUE(told.has(plant)) << told.all();
}

TEST(Planted, BlocksThatWereFreedTwiceAreNamed) {
  Told told;
  run_job(true, TransportKind::kAuto, told, [](Runtime& pe, const Memory& memory) {
    pe.free(memory.block);
    try {
      pe.free(memory.block);
      ADD_FAILURE() << "freed twice";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("freed 100 bytes"), std::string::npos)
          << error.what();
    }
  });
}

}  // namespace
}  // namespace peal::planted

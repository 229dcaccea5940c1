// SPDX-License-Identifier: Apache-2.0
//
// Queues that a CPU thread serves: what goes wrong in them, and what is done for them that a verbs
// NIC has no opcode for. That all operations work there the API's tests show (--transport=proxy).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "tests/support/job.h"

namespace peal::api_test {
namespace {

using Body = std::function<void(Runtime&, uint64_t* words)>;

Config proxied() {
  Config config = small_config();
  config.transport = TransportKind::kProxy;
  config.rails = 1;  // of the two that main() makes
  return config;
}

/// Runs `body` on `pes` PEs, each with 1024 words of heap; PE 0 is over its NIC by `first`.
void on_pes(int pes, const Body& body, TransportKind first = TransportKind::kProxy) {
  bootstrap::run_threads(pes, [&](Bootstrap& group) {
    Config config = proxied();
    if (group.rank() == 0) config.transport = first;
    Runtime pe = start(group, config);
    auto* const words = pe.allocate<uint64_t>(1024);
    pe.barrier();
    body(pe, words);
    pe.barrier();
  });
}

PEAL_KERNEL exchange(Verdict* verdict, Context ctx, uint64_t* words, uint64_t round) {
  const auto me = static_cast<uint64_t>(my_pe(ctx));
  for (int pe = 0; pe < n_pes(ctx); ++pe) {
    expect_ok(verdict, p(ctx, words + me, round, pe));
    expect_ok(verdict, put(ctx, words + 100 + 100 * me, words + 600, 64, pe));
    expect_ok(verdict, quiet(ctx));
    expect_eq(verdict, g(ctx, words + me, pe).value, round);
    expect_ok(verdict, atomic_fetch_inc(ctx, words + 50, pe).status);
    expect_ok(verdict, atomic_swap(ctx, words + 51 + me, round, pe).status);
    expect_eq(verdict, atomic_fetch(ctx, words + 51 + me, pe).value, round);
  }
  expect_ok(verdict, barrier_all(ctx));
}

TEST(Proxy, NamesItself) {
  on_pes(2, [](Runtime& pe, uint64_t*) {
    EXPECT_STREQ(pe.transport(), "proxy");
    EXPECT_EQ(pe.nic(), "softnic-cpu");
    EXPECT_NE(pe.dump().find("transport proxy, NIC softnic-cpu"), std::string::npos);
  });
}

// A queue of kernels of one PE is the other end of a queue that a CPU serves.
TEST(Proxy, MeetsAPeerWhoseKernelsDriveTheirNic) {
  on_pes(
      3,
      [](Runtime& pe, uint64_t* words) {
        EXPECT_STREQ(pe.transport(), pe.my_pe() == 0 ? "ibgda" : "proxy");
        for (uint64_t round = 1; round < 10; ++round) {
          run_clean(pe, {}, exchange, pe.context(), words, round);
        }
      },
      TransportKind::kIbgda);
}

PEAL_KERNEL mix(Verdict* verdict, Context ctx, uint64_t* words, int rounds) {
  auto* const halves = reinterpret_cast<uint32_t*>(words);
  const auto me = static_cast<uint32_t>(my_pe(ctx));
  for (int i = 0; i < rounds; ++i) {
    expect_ok(verdict, atomic_add(ctx, halves, 1u, 0));
    expect_ok(verdict, atomic_fetch_add(ctx, halves + 1, 3u, 0).status);
    expect_ok(verdict, atomic_xor(ctx, words + 1, uint64_t{1} << (8 * me), 0));
    expect_ok(verdict,
              atomic_or(ctx, words + 2, uint64_t{1} << (8 * me + static_cast<uint32_t>(i) % 8), 0));
    expect_ok(verdict, atomic_and(ctx, words + 3, ~(uint64_t{1} << (8 * me)), 0));
    const Fetched<uint32_t> old = atomic_compare_swap(
        ctx, halves + 8 + me, static_cast<uint32_t>(i), static_cast<uint32_t>(i) + 1, 0);
    expect_eq(verdict, old.value, static_cast<unsigned>(i));
  }
  expect_ok(verdict, quiet(ctx));
}

constexpr int kRounds = 41;

// Each is compare-and-swap of the proxy's on 8 bytes, against all others at once.
TEST(Proxy, LosesNoMaskedAtomic) {
  on_pes(3, [](Runtime& pe, uint64_t* words) {
    words[3] = ~uint64_t{0};
    pe.barrier();
    run_clean(pe, {}, mix, pe.context(), words, kRounds);
    pe.barrier();
    if (pe.my_pe() != 0) return;
    EXPECT_EQ(words[0], (uint64_t{9 * kRounds} << 32) + 3 * kRounds);
    EXPECT_EQ(words[1], 0x010101u) << "an odd number of times each";
    EXPECT_EQ(words[2], 0xffffffu);
    EXPECT_EQ(words[3], ~uint64_t{0x010101});
    EXPECT_EQ(words[4], (uint64_t{kRounds} << 32) + kRounds);
    EXPECT_EQ(words[5], uint64_t{kRounds});
  });
}

/// Posts the request behind a good put, and waits for it.
template <class Request>
PEAL_DEVICE Status post_behind_a_put(const Context& ctx, uint64_t* words, const Request& request) {
  Status status = p(ctx, words + 7, 77, 1);
  if (status != Status::kOk) return status;
  SendQueue* const q = detail::queue_at(ctx, 1);
  status = nic::post<Reach::kGpu>(*q, nic::Alone{}, request).status;
  return status == Status::kOk ? quiet(ctx) : status;
}

PEAL_KERNEL post_bad_key(Status* ended, Context ctx, uint64_t* words) {
  const uint32_t payload[3] = {1, 2, 3};
  const nic::Remote nowhere{0, mlx5::key(0x00badbad)};
  *ended = post_behind_a_put(ctx, words, nic::write_inline(nowhere, payload, 8));
}
PEAL_KERNEL post_wait(Status* ended, Context ctx, uint64_t* words) {
  *ended = post_behind_a_put(ctx, words, mlx5::WaitForCq{1, 1});
}
/// A NOP that another lap of the ring left.
struct LateNop {};
PEAL_HD mlx5::Wqe<1> compose(mlx5::Header h, LateNop) {
  h.index += 1024;  // as many as the ring has
  return mlx5::compose(h, mlx5::Nop{});
}
PEAL_KERNEL post_other_lap(Status* ended, Context ctx, uint64_t* words) {
  *ended = post_behind_a_put(ctx, words, LateNop{});
}
PEAL_KERNEL post_result_elsewhere(Status* ended, Context ctx, uint64_t* words) {
  using Add = nic::Atomic<Update::kAdd, uint32_t>;
  *ended = post_behind_a_put(ctx, words, Add{{0, ctx.heap.rkeys[1]}, {0, ctx.heap.lkeys[0]}, 1});
}

struct Mistake {
  const char* name;
  void (*kernel)(Status*, Context, uint64_t*);
  uint8_t syndrome;
};

// The work before it is done; its error is told with its own syndrome; recovery heals.
TEST(Proxy, TellsWhatIsWrongWithAWorkRequest) {
  const Mistake kMistakes[] = {{"a key that is none", post_bad_key, 0x13},
                               {"an opcode no kernel composes", post_wait, 0x02},
                               {"the entry of another lap", post_other_lap, 0x02},
                               {"a result where no CPU writes", post_result_elsewhere, 0x04}};
  on_pes(2, [&](Runtime& pe, uint64_t* words) {
    for (const Mistake& mistake : kMistakes) {
      words[7] = 0;
      pe.barrier();
      if (pe.my_pe() == 0) {
        Status ended = Status::kOk;
        launch({}, mistake.kernel, &ended, pe.context(), words).wait();
        EXPECT_EQ(ended, Status::kQueueError) << mistake.name;
        const Failure failure = pe.failure();
        EXPECT_EQ(failure.syndrome, mistake.syndrome) << mistake.name << ": " << failure.text;
        EXPECT_EQ(failure.pe, 1) << mistake.name;
      }
      pe.barrier();
      if (pe.my_pe() == 1) {
        EXPECT_EQ(words[7], 77u) << mistake.name;
      }
      EXPECT_EQ(pe.recover(), 1u) << mistake.name;
      run_clean(pe, {}, exchange, pe.context(), words, 5);
    }
  });
}

PEAL_KERNEL stream(Verdict* verdict, Context ctx, uint64_t* words) {
  const unsigned me = thread_in_block() + block_in_grid() * threads_in_block();
  for (uint64_t i = 0; i < 200; ++i) {
    if (i == 199) expect_ok(verdict, quiet(ctx));  // puts to one word may overtake each other
    expect_ok(verdict, put(ctx, words + me, words + 512 + me, 1, 1));
    expect_ok(verdict, p(ctx, words + 256 + me, i, 1));
  }
  expect_ok(verdict, quiet(ctx));
}

// A ring that is short, and so is the NIC's: kernels wait for room over and over.
TEST(Proxy, KeepsUpWithFullQueues) {
  on_pes(2, [](Runtime& pe, uint64_t* words) {
    const auto ctx = pe.make_context({.queues_per_peer = 1, .depth = 128});
    for (int i = 0; i < 128; ++i) words[512 + i] = static_cast<uint64_t>(i);
    pe.barrier();
    run_clean(pe, {.blocks = 4, .threads = 32}, stream, Context{ctx.value()}, words);
    pe.barrier();
    if (pe.my_pe() != 1) return;
    for (uint64_t i = 0; i < 128; ++i) {
      EXPECT_EQ(words[i], i);
      EXPECT_EQ(words[256 + i], 199u);
    }
  });
}

/// Threads of this process that carry work requests.
int proxies() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    count += name == "peal-proxy";
  }
  return count;
}

TEST(Proxy, IsOneForEachNic) {
  bootstrap::run_threads(2, [](Bootstrap& group) {
    Config config = proxied();
    config.rails = group.rank() == 0 ? 2 : 1;
    Runtime pe = start(group, config);
    auto* const words = pe.allocate<uint64_t>(1024);
    for (uint64_t i = 0; i < 128; ++i) words[512 + i] = i;
    pe.barrier();
    EXPECT_EQ(pe.nic(), group.rank() == 0 ? "softnic-cpu(mlx5_0+mlx5_1)" : "softnic-cpu");
    EXPECT_EQ(proxies(), 3);
    if (group.rank() == 0) run_clean(pe, {.blocks = 4, .threads = 32}, stream, pe.context(), words);
    pe.barrier();
    for (uint64_t i = 0; group.rank() == 1 && i < 128; ++i) EXPECT_EQ(words[256 + i], 199u);
    pe.barrier();
  });
  EXPECT_EQ(proxies(), 0);
}

}  // namespace
}  // namespace peal::api_test

int main(int argc, char** argv) {
  ::setenv("PEAL_SOFTNIC_PRESENT", "devices=2", 1);
  return peal::api_test::run_tests(argc, argv);
}

// SPDX-License-Identifier: Apache-2.0
//
// A runtime that knows what completions vouch for: on a CUDA driver that is a fake, whose GPUs show
// a NIC's writes in order or not, with memory of theirs and of the host; on NICs, what signals do.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "host/memory/backing_cuda.h"
#include "host/transport/self_test.h"
#include "tests/support/gpu_job.h"
#include "tests/support/injector.h"

namespace peal {
namespace {

PEAL_KERNEL fetch_all_ways(Context ctx, uint64_t* box, Status* status) {
  const int next = (ctx.pe + 1) % ctx.n_pes;
  Status s = get(ctx, box, box + 1, 1, next);
  if (s == Status::kOk) s = g(ctx, box + 1, next).status;
  if (s == Status::kOk) s = atomic_fetch_add(ctx, box + 2, 1, next).status;
  if (s == Status::kOk) s = quiet(ctx);
  *status = s;
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The opcodes that the PE's only queue to `peer` has carried since it was made.
std::vector<int> opcodes(const Runtime& pe, int peer) {
  const Context ctx = pe.context();
  const auto* const q = reinterpret_cast<const SendQueue*>(
      ctx.queues + static_cast<uint64_t>(peer) * ctx.queue_stride);
  std::vector<int> all;
  for (uint64_t i = pe.config().self_test ? kSelfTestBlocks : 0; i < posted_end(q->posted); ++i) {
    const auto* const control =
        reinterpret_cast<const mlx5::ControlSegment*>(q->nic.block(i, q->mask));
    all.push_back(static_cast<int>(control->opmod_idx_opcode.host() & 0xff));
  }
  return all;
}

// A GPU before Hopper shows its kernels a NIC's writes in no order. Fails at 438a779: nobody asked.
TEST_F(RuntimeOnGpu, DumpsWhatItFetchesWhereTheGpuDoesNotOrderWrites) {
  config_.transport = TransportKind::kIbgda;
  config_.queues = 1;
  for (const int ordering : {100, 0}) {
    bootstrap::run_processes(2, [&](Bootstrap& group) {
      ::setenv("PEAL_SOFTNIC_FABRIC",
               ("order-" + std::to_string(ordering) + std::to_string(::getppid())).c_str(), 1);
      fake_.writes_ordering = ordering;
      testing::internal::CaptureStderr();
      std::vector<int> seen;
      Status ended = Status::kAborted;
      {
        Runtime pe = start(group);
        auto* const box = pe.allocate<uint64_t>(3);
        auto* const status = pe.allocate<Status>(1);
        launch({}, fetch_all_ways, pe.context(), box, status).wait();
        pe.copy_out(&ended, status, sizeof(ended));
        seen = opcodes(pe, 1 - pe.my_pe());
        pe.barrier();
      }
      const std::string said = testing::internal::GetCapturedStderr();
      const std::string warning = "Fake H200: kernels see a NIC's writes in no order (ordering 0";
      const bool warns = ordering == 0 && group.rank() == 0;  // one PE for all
      if (ended != Status::kOk) return 1;
      if (warns ? !holds(said, warning) || !holds(said, "likewise PE 1") : !said.empty()) return 2;
      const std::vector<int> plain = {0x10, 0x10, 0x12};
      const std::vector<int> dumped = {0x10, 0x23, 0x10, 0x23, 0x12, 0x23, 0x10};
      return seen == (ordering == 100 ? plain : dumped) ? 0 : 3;
    });
  }
}

// Completions come to the GPU and do not vouch for what lies elsewhere. Fails at 438a779: a get
// into memory of the host was done when its READ was.
TEST_F(RuntimeOnGpu, KnowsWhichMemoryItsCompletionsVouchFor) {
  bootstrap::run_threads(1, [&](Bootstrap& group) {
    Runtime pe = start(group);
    std::vector<uint64_t> of_host(64);
    Backing of_other = make_cuda_backing(Gpu::open(1, 0), 4096, "of GPU 1");
    pe.register_local(of_host.data(), of_host.size() * sizeof(uint64_t));
    pe.register_local(pe.allocate<uint64_t>(1), 8);
    pe.register_local(of_other.address(), 4096);
    const Window* const window = pe.context().windows->window;
    EXPECT_EQ(pe.context().heap.dumped, 0u);
    EXPECT_EQ(window[1].dumped, 1u) << "of the host";
    EXPECT_EQ(window[2].dumped, 0u) << "of its own GPU";
    EXPECT_EQ(window[3].dumped, 1u) << "of another GPU";
  });
}

// Whatever memory a NIC is told of: heap, queues, windows. A cudaMemset that has returned and not
// ended would be overtaken by the put behind it. The fixture looks at each dma-buf.
TEST_F(RuntimeOnGpu, HasCallsOnWhatANicReachesReturnWhenTheyAreDone) {
  config_.transport = TransportKind::kIbgda;
  for (const bool old : {false, true}) {
    if (old) fake_.refuse["cuCtxSetFlags"] = cuda::kNotSupported;
    testing::internal::CaptureStderr();
    bootstrap::run_processes(1, [&](Bootstrap& group) {
      Runtime pe = start(group);
      const auto gpu = Gpu::open(0, 0);
      const Backing whole = make_cuda_backing(gpu, 4096, "cudaMalloc");
      const Backing of_other = make_cuda_backing(Gpu::open(1, 0), 4096, "of GPU 1");
      fake_.lagging = 0;
      const int before = fake_.exported;
      pe.register_local(whole.address(), 4096);
      pe.register_local(of_other.address(), 4096);
      return fake_.exported >= before + 2 && fake_.lagging == 0 ? 0 : 1;
    });
    EXPECT_EQ(holds(testing::internal::GetCapturedStderr(),
                    "cudaMemset and cudaMemcpy may return before"),
              old)
        << "of the heap, which is of cuMemCreate";
  }
}

/// What one kernel finds of a get and a fetch once they have completed.
struct Fetched {
  uint64_t got, old;
  bool operator==(const Fetched&) const = default;
};
PEAL_KERNEL look_behind_fetches(Context ctx, uint64_t* box, Fetched* found) {
  if (get(ctx, box, box + 1, 1, ctx.pe) != Status::kOk) return;
  found->got = load_relaxed<Reach::kSystem>(box);
  found->old = atomic_fetch_add(ctx, box + 2, 1, ctx.pe).value;
}

// No driver's attribute was ever proven on a card, neither way: with a NIC whose completions are
// ahead of what was fetched, `auto` is wrong where the driver promises order and does not keep it;
// `dump` never is.
TEST_F(RuntimeOnGpu, DumpsWhatItFetchesWhereTheSettingSaysSo) {
  struct Case {
    GetFlush asked;
    int ordering;
    bool right;
  };
  constexpr Case kCases[] = {{GetFlush::kAuto, 100, false},
                             {GetFlush::kAuto, 0, true},
                             {GetFlush::kDump, 100, true},
                             {GetFlush::kNothing, 100, false},
                             {GetFlush::kNothing, 0, false}};
  config_.queues = 1;
  const auto fetch = [&](const Case& one) {
    config_.get_flush = one.asked;
    fake_.writes_ordering = one.ordering;
    testing::internal::CaptureStderr();
    bootstrap::run_threads(1, [&](Bootstrap& group) {
      Runtime pe = start(group);
      auto* const box = pe.allocate<uint64_t>(3);
      auto* const found = pe.allocate<Fetched>(1);
      const uint64_t words[] = {1, 5, 40};
      pe.copy_in(box, words, sizeof(words));
      const fault_test::Injector softnic;
      softnic.inject("wqe=* fault=late_data ms=60000");
      launch({}, look_behind_fetches, pe.context(), box, found).wait();
      softnic.clear();
      Fetched seen{};
      pe.copy_out(&seen, found, sizeof(seen));
      EXPECT_EQ((seen == Fetched{5, 40}), one.right)
          << static_cast<int>(one.asked) << " " << one.ordering << ": " << seen.got << " "
          << seen.old;
    });
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(holds(said, "(get and fetching operations do not: PEAL_GET_FLUSH=none)"),
              one.ordering == 0 && one.asked == GetFlush::kNothing)
        << said;
  };
  // By the proxy a DUMP is a READ of the NIC's own memory.
  for (const TransportKind transport : {TransportKind::kIbgda, TransportKind::kProxy}) {
    config_.transport = transport;
    for (const Case& one : kCases) fetch(one);
  }
  // A CPU hears of completions by another way than the data takes.
  fake_.host_page_tables = true;
  fetch({GetFlush::kAuto, 100, true});
  fake_.host_page_tables = false;
}

// Kernels on a CPU have no driver to ask.
TEST(GetFlush, IsASettingForKernelsOnACpuToo) {
  Config config = api_test::small_config();
  for (const TransportKind transport : {TransportKind::kIbgda, TransportKind::kProxy}) {
    config.transport = transport;
    for (const GetFlush asked : {GetFlush::kAuto, GetFlush::kDump}) {
      config.get_flush = asked;
      bootstrap::run_threads(1, [&](Bootstrap& group) {
        Runtime pe = api_test::start(group, config);
        EXPECT_EQ(pe.context().heap.dumped, asked == GetFlush::kDump ? 1u : 0u);
      });
    }
  }
}

/// PE 0 sends round after round, PE 1 counts those whose data it does not find behind the signal.
PEAL_KERNEL send_and_look(Context ctx, uint64_t* box, uint64_t* flag, uint64_t rounds,
                          uint64_t* stale) {
  for (uint64_t round = 1; round <= rounds; ++round) {
    if (ctx.pe == 0) {
      box[1] = round;
      if (put_signal(ctx, box, box + 1, 1, Signal::set(flag, round, 1)) != Status::kOk) return;
      if (wait_until(ctx, flag, Compare::kGe, round) != Status::kOk) return;
    } else {
      if (wait_until(ctx, flag, Compare::kGe, round) != Status::kOk) return;
      if (load_relaxed<Reach::kSystem>(box) != round) ++*stale;
      if (signal(ctx, Signal::set(flag, round, 0)) != Status::kOk) return;
    }
  }
  *flag = rounds + 1;
}

// Atomics that the bus executes pass WRITEs. Fails at 63fa10b: signals were such atomics.
TEST(Signals, WaitWhereAtomicsOvertakeWrites) {
  const char* const before = ::getenv("PEAL_SOFTNIC_PRESENT");
  ASSERT_EQ(before, nullptr);
  ::setenv("PEAL_SOFTNIC_PRESENT", "pci_atomics=yes", 1);
  for (const auto asked : {SignalOpsSetting::kAuto, SignalOpsSetting::kAtomic}) {
    const bool waits = asked == SignalOpsSetting::kAuto;
    bootstrap::run_threads(2, [&](Bootstrap& group) {
      Config config = api_test::small_config();
      config.transport = TransportKind::kIbgda;
      config.signal_ops = asked;
      config.queues = 1;
      Runtime pe = api_test::start(group, config);
      EXPECT_EQ(pe.context().signals, kSignalsSwap | (waits ? kSignalsWait : 0));
      constexpr uint64_t kRounds = 300;
      api_test::Symmetric<uint64_t> words(pe, 4);
      launch({}, send_and_look, pe.context(), words.data(), words.data() + 2, kRounds,
             words.data() + 3)
          .wait();
      pe.check();
      EXPECT_EQ(words[2], kRounds + 1);
      if (pe.my_pe() == 1) {
        EXPECT_EQ(words[3] == 0, waits) << words[3];
      }
      pe.barrier();
    });
  }
  ::unsetenv("PEAL_SOFTNIC_PRESENT");
}

}  // namespace
}  // namespace peal

// SPDX-License-Identifier: Apache-2.0
//
// A runtime that knows what completions vouch for: on a CUDA driver that is a fake, whose GPUs show
// a NIC's writes in order or not, with memory of theirs and of the host.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/bootstraps.h"
#include "host/memory/backing_cuda.h"
#include "host/transport/self_test.h"
#include "peal/peal.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/job.h"

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

class RuntimeWrites : public testing::Test {
 protected:
  RuntimeWrites() : fake_(load_fake_cuda()), config_(api_test::small_config()) {
    const auto engine = std::filesystem::absolute("softnic/gpu/peal_softnic_engine_on_cpu");
    ::setenv("PEAL_SOFTNIC_ENGINE_PROGRAM", engine.c_str(), 1);
  }
  ~RuntimeWrites() override {
    EXPECT_EQ(fake_.live, 0);
    EXPECT_EQ(fake_.mistakes, 0);
  }

  Runtime start(Bootstrap& group) const {
    return Runtime(std::make_unique<api_test::BorrowedBootstrap>(group), config_, Target::kGpu);
  }

  FakeCuda& fake_;
  Config config_;
};

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The opcodes that the PE's only queue to `peer` has carried since it was made.
std::vector<int> opcodes(const Runtime& pe, int peer) {
  const Context ctx = pe.context();
  const auto* const q = reinterpret_cast<const mlx5::SendQueue*>(
      ctx.queues + static_cast<uint64_t>(peer) * ctx.queue_stride);
  std::vector<int> all;
  for (uint64_t i = pe.config().self_test ? kSelfTestBlocks : 0; i < q->published; ++i) {
    const auto* const control = reinterpret_cast<const mlx5::ControlSegment*>(q->block(i));
    all.push_back(static_cast<int>(control->opmod_idx_opcode.host() & 0xff));
  }
  return all;
}

// A GPU before Hopper shows its kernels a NIC's writes in no order. Fails at 438a779: nobody asked.
TEST_F(RuntimeWrites, DumpsWhatItFetchesWhereTheGpuDoesNotOrderWrites) {
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
TEST_F(RuntimeWrites, KnowsWhichMemoryItsCompletionsVouchFor) {
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

}  // namespace
}  // namespace peal

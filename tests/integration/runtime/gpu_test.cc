// SPDX-License-Identifier: Apache-2.0
//
// A whole runtime whose memory is a GPU's (tests/support/gpu_job.h).
#include "host/memory/gpu.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/gpu_job.h"

namespace peal {
namespace {

PEAL_KERNEL rotate(Context ctx, uint64_t* box, uint64_t* flag, Status* status) {
  const int next = (ctx.pe + 1) % ctx.n_pes;
  Status s = put_signal(ctx, box, box + 1, 1, Signal::set(flag, 1, next));
  if (s == Status::kOk) s = wait_until(ctx, flag, Compare::kEq, 1);
  // PE 0's own to one word, all others' to the next: an engine on CPUs does not update a GPU's
  // memory atomically with what kernels do to it (docs/software_nic.md).
  (void)atomic_add(ctx, box + (ctx.pe == 0 ? 2 : 3), 1, 0);
  if (s == Status::kOk) s = barrier_all(ctx);
  *status = s;
}

PEAL_KERNEL copy_from(Context ctx, uint64_t* box, const uint64_t* source) {
  (void)put(ctx, box, source, 1, ctx.pe);
}

PEAL_KERNEL misuse(Context ctx, uint64_t* box) { (void)p(ctx, box, uint64_t{1}, 99); }

PEAL_KERNEL break_queue(Context ctx, uint32_t index) {
  auto* const queue = reinterpret_cast<SendQueue*>(ctx.queues + index * ctx.queue_stride);
  queue->error.wqe_index = 7;
  queue->error.syndrome = 0x13;
  store_release<Reach::kSystem>(&queue->error.status, static_cast<uint32_t>(Status::kQueueError));
  store_release<Reach::kSystem>(queue->alarm, 1u);  // as latch_error() does
}

PEAL_KERNEL wait_for_ever(Context ctx, uint64_t* flag, Status* status) {
  *status = wait_until(ctx, flag, Compare::kEq, 1);
}

/// Every PE sends its number on; 0 when all went well.
int send_around(Runtime& pe) {
  auto* const box = pe.allocate<uint64_t>(4);
  auto* const flag = pe.allocate<uint64_t>(1);
  auto* const status = pe.allocate<Status>(1);
  const auto mine = static_cast<uint64_t>(100 + pe.my_pe());
  pe.copy_in(box + 1, &mine, sizeof(mine));
  launch({}, rotate, pe.context(), box, flag, status).wait();
  pe.check();
  uint64_t seen[4];
  Status ended = Status::kAborted;
  pe.copy_out(seen, box, sizeof(seen));
  pe.copy_out(&ended, status, sizeof(ended));
  const int before = (pe.my_pe() + pe.n_pes() - 1) % pe.n_pes();
  if (ended != Status::kOk) return 10 + static_cast<int>(ended);
  if (seen[0] != static_cast<uint64_t>(100 + before)) return 2;
  const auto others = static_cast<uint64_t>(pe.n_pes() - 1);
  if (pe.my_pe() == 0 && (seen[2] != 1 || seen[3] != others)) return 3;
  pe.barrier();
  return 0;
}

// The two that fork come first: a process forks with one thread only.
TEST_F(RuntimeOnGpu, WorksBetweenProcesses) {
  on_gpus(3, [&](Runtime& pe) {
    const int result = send_around(pe);
    return fake_.mappings < 2 ? 50 : result;
  });
}

TEST_F(RuntimeOnGpu, DrivesQueuesInTheMemoryOfTheGpu) {
  config_.transport = TransportKind::kIbgda;
  on_gpus(2, [&](Runtime& pe) {
    int result = send_around(pe);
    if (pe.transport() != std::string("ibgda") || pe.nic() != "softnic-gpu") result = 50;
    if (pe.context().relaxed != 1) result = 52;
    // One way to every memory, and a GPU that shows writes in order: nothing to pay for.
    if (pe.context().settle != 0 || pe.context().heap.dumped != 0) result = 53;
    if (fake_.mappings != 0) result = 51;
    return result;
  });
}

// The software NIC cannot look into a dma-buf. PEAL_INFO tells, and nobody else.
TEST_F(RuntimeOnGpu, TellsHowTheNicKnowsItsMemory) {
  config_.transport = TransportKind::kIbgda;
  for (const bool info : {true, false}) {
    bootstrap::run_processes(1, [&](Bootstrap& group) {
      ::setenv("PEAL_SOFTNIC_FABRIC", std::to_string(::getpid()).c_str(), 1);
      config_.info = info;
      testing::internal::CaptureStderr();
      { Runtime pe = start(group); }
      const std::string text = testing::internal::GetCapturedStderr();
      if (!info) return text.empty() ? 0 : 1;
      const std::string how =
          "GPU memory by its address; no dma-buf: ibv_reg_dmabuf_mr: Operation not supported";
      const std::string queues =
          "rings, doorbell records and completions (one umem): GPU memory by its address; no "
          "dma-buf: mlx5dv_devx_umem_reg_ex: Protocol not supported";
      return text.find("nic: heap: " + how + "; " + queues + "; landing cells: " + how) ==
                     std::string::npos
                 ? 2
                 : 0;
    });
  }
}

/// What one PE says, and how it ends, on the NIC that is `presented`: in a process of its own,
/// because the NIC's engine serves one.
struct Refused {
  std::string said;
  std::string error;
  int result = 0;
};
template <class Look>
void on_nic(const std::function<Runtime(Bootstrap&)>& start, const std::string& presented,
            Look look) {
  bootstrap::run_processes(1, [&](Bootstrap& group) {
    ::setenv("PEAL_SOFTNIC_FABRIC", std::to_string(::getpid()).c_str(), 1);
    ::setenv("PEAL_SOFTNIC_PRESENT", presented.c_str(), 1);
    Refused seen;
    testing::internal::CaptureStderr();
    try {
      Runtime pe = start(group);
      seen.result = send_around(pe);
    } catch (const Error& error) {
      seen.error = error.what();
    }
    seen.said = testing::internal::GetCapturedStderr();
    const bool well = look(seen);
    if (!well) std::cerr << "said: " << seen.said << "\nerror: " << seen.error << "\n";
    return well ? 0 : 1;
  });
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Without dma-bufs; PEAL_INFO tells. And on a kernel that knows the call.
TEST_F(RuntimeOnGpu, WorksWhereverDmaBufsAreRefused) {
  config_.transport = TransportKind::kIbgda;
  for (const char* presented : {"dmabuf=none", "dmabuf=all"}) {
    on_nic([&](Bootstrap& group) { return start(group); }, presented,
           [](const Refused& r) { return r.result == 0 && r.error.empty() && r.said.empty(); });
  }
}

// As Linux before 6.1, beside nvidia-peermem.
TEST_F(RuntimeOnGpu, WorksWithoutDmaBufsForQueues) {
  config_.transport = TransportKind::kIbgda;
  on_nic([&](Bootstrap& group) { return start(group); }, "dmabuf=mr",
         [](const Refused& r) { return r.result == 0 && r.error.empty() && r.said.empty(); });
}

// And without it: windows can be registered, queues cannot.
TEST_F(RuntimeOnGpu, NamesTheProxyWhereNoNicCanReachItsQueues) {
  config_.transport = TransportKind::kIbgda;
  on_nic([&](Bootstrap& group) { return start(group); }, "dmabuf=mr refuse=umem_peermem",
         [](const Refused& r) {
           return holds(r.error, "mlx5dv_devx_umem_reg_ex(") &&
                  holds(r.error,
                        "Bad address; nor as a dma-buf: mlx5dv_devx_umem_reg_ex: "
                        "Protocol not supported") &&
                  holds(r.error, "PEAL_TRANSPORT=proxy (or auto) lets a CPU thread");
         });
}

TEST_F(RuntimeOnGpu, SaysThatNoNicCanReachItsMemory) {
  config_.transport = TransportKind::kIbgda;
  on_nic([&](Bootstrap& group) { return start(group); }, "refuse=peermem",
         [](const Refused& r) {
           return holds(r.error, "ibv_reg_mr_iova2(") &&
                  holds(r.error,
                        "Bad address; nor as a dma-buf: ibv_reg_dmabuf_mr: "
                        "Operation not supported");
         });
}

TEST_F(RuntimeOnGpu, HasACpuRingWhereTheGpuMayNot) {
  const auto secret = static_cast<int>(::syscall(SYS_memfd_secret, 0));
  if (secret < 0) GTEST_SKIP() << "no memfd_secret, which the page is made of";
  ::close(secret);
  config_.transport = TransportKind::kIbgda;
  on_nic([&](Bootstrap& group) { return start(group); }, "refuse=uar",
         [](const Refused& r) {
           const std::string once = "kernels cannot ring mlx5_0: ";
           return r.result == 0 && r.error.empty() && holds(r.said, once) &&
                  r.said.find(once) == r.said.rfind(once) &&
                  holds(r.said, "a CPU thread rings for them, which is slower; PEAL_DOORBELL=cpu");
         });
}

// Whoever needs no NIC is told nothing about one.
TEST_F(RuntimeOnGpu, OpensNoNicThatNobodyNeeds) {
  on_nic([&](Bootstrap& group) { return start(group); }, "refuse=devx",
         [](const Refused& r) { return r.result == 0 && r.error.empty() && r.said.empty(); });
}

// Queues of kernels are refused, and a CPU drives the NIC, which has the GPU's memory copied.
TEST_F(RuntimeOnGpu, TakesTheProxyWhereKernelsCannotDriveTheNic) {
  const std::pair<std::string, std::string> kinds[] = {
      {"devx", "kernels cannot drive mlx5_0: mlx5dv_open_device"},
      {"umem_peermem", "kernels cannot drive mlx5_0: mlx5dv_devx_umem_reg_ex("}};
  for (const auto& [what, reason] : kinds) {
    bootstrap::run_processes(2, [&](Bootstrap& group) {
      ::setenv("PEAL_SOFTNIC_FABRIC", (what.substr(0, 4) + std::to_string(::getppid())).c_str(), 1);
      ::setenv("PEAL_SOFTNIC_PRESENT", ("refuse=" + what).c_str(), 1);
      // As in TakesTheNicToGpusThatItCannotMap.
      const bool first = group.rank() == 0;
      if (!first) fake_.refuse["cuMemImportFromShareableHandle"] = 801;
      testing::internal::CaptureStderr();
      int result = 1;
      std::string error;
      try {
        Runtime pe = start(group);
        result = send_around(pe);
        if (pe.transport() != std::string(first ? "p2p" : "p2p+proxy")) result = 2;
      } catch (const Error& thrown) {
        error = thrown.what();
      }
      const std::string said = testing::internal::GetCapturedStderr() + error;
      if (holds(said, reason) != first || holds(said, "likewise PE 1") != first) result = 3;
      if (result != 0) std::cerr << result << ": " << said << "\n";
      return result;
    });
  }
}

TEST_F(RuntimeOnGpu, HasNoCpuRingANicThatRunsOnAGpu) {
  config_.transport = TransportKind::kIbgda;
  config_.doorbell = DoorbellKind::kCpu;
  bootstrap::run_processes(1, [&](Bootstrap& group) {
    ::setenv("PEAL_SOFTNIC_FABRIC", std::to_string(::getpid()).c_str(), 1);
    const std::string text = error_of([&] { start(group); }).what();
    return text.find(
               "PEAL_DOORBELL=cpu: the doorbell page of mlx5_0 (softnic-gpu) is memory of a "
               "GPU") == std::string::npos
               ? 1
               : 0;
  });
}

// Where another PE is mapped, what lanes store goes to other GPUs.
TEST_F(RuntimeOnGpu, SaysWhereLanesStore) {
  for (const TransportKind transport : {TransportKind::kIbgda, TransportKind::kP2p}) {
    config_.transport = transport;
    bootstrap::run_threads(2, [&](Bootstrap& group) {
      const Runtime pe = start(group);
      EXPECT_EQ(pe.context().stores_stay, transport == TransportKind::kIbgda ? 1 : 0);
    });
  }
}

// Fails at 438a779, where every fence before a doorbell had system scope.
TEST_F(RuntimeOnGpu, FencesAsFarAsItIsAsked) {
  config_.transport = TransportKind::kIbgda;
  for (const auto& [asked, expected] : {std::pair{FenceKind::kAuto, NicFence::kGpu},
                                        {FenceKind::kGpu, NicFence::kGpu},
                                        {FenceKind::kSystem, NicFence::kSystem}}) {
    config_.fence = asked;
    bootstrap::run_processes(1, [&, wanted = expected](Bootstrap& group) {
      ::setenv("PEAL_SOFTNIC_FABRIC", std::to_string(::getpid()).c_str(), 1);
      Runtime pe = start(group);
      const Context ctx = pe.context();
      return reinterpret_cast<const SendQueue*>(ctx.queues)->fence == wanted ? 0 : 1;
    });
  }
}

TEST_F(RuntimeOnGpu, SaysWhyTheNicDoesNotRunThere) {
  config_.transport = TransportKind::kIbgda;
  bootstrap::run_processes(1, [&](Bootstrap& group) {
    ::setenv("PEAL_SOFTNIC_ENGINE_PROGRAM", "/nowhere", 1);
    // A fabric of its own: the engine of the test before may not have left its yet.
    ::setenv("PEAL_SOFTNIC_FABRIC", std::to_string(::getpid()).c_str(), 1);
    const std::string text = error_of([&] { start(group); }).what();
    return text.find("/nowhere") != std::string::npos ? 0 : 1;
  });
}

TEST_F(RuntimeOnGpu, DrivesQueuesThereByTheEngineOnCpus) {
  config_.transport = TransportKind::kIbgda;
  const auto on_cpu = [](int) { ::setenv("PEAL_SOFTNIC_ENGINE", "cpu", 1); };
  on_gpus(
      2,
      [](Runtime& pe) {
        const int result = send_around(pe);
        return pe.transport() == std::string("ibgda") && pe.nic() == "softnic-cpu" ? result : 50;
      },
      on_cpu);
}

TEST_F(RuntimeOnGpu, ReachesGpusThatItCannotSee) {
  config_.device = 0;
  const auto send = [](Runtime& pe) {
    const int result = send_around(pe);
    return pe.transport() == std::string("p2p") ? result : 50;
  };
  // PE 1 sees GPU 1 only, which is number 0 to it.
  on_gpus(2, send, [&](int rank) { fake_.visible_from = rank; });
}

TEST_F(RuntimeOnGpu, TakesTheNicToGpusThatItCannotMap) {
  const auto send = [](Runtime& pe) {
    int result = send_around(pe);
    const std::string expected = pe.my_pe() == 0 ? "p2p" : "p2p+ibgda";
    if (pe.transport() != expected) result = 50;
    // Mapped at one PE, and a NIC in the job. Fails at 438a779: only several NICs settled.
    if (pe.context().settle != 1) result = 51;
    return result;
  };
  on_gpus(2, send, [&](int rank) {
    if (rank == 1) fake_.refuse["cuMemImportFromShareableHandle"] = 801;
  });
}

TEST_F(RuntimeOnGpu, WorksBetweenThreads) {
  bootstrap::run_threads(3, [&](Bootstrap& group) {
    Runtime pe = start(group);
    EXPECT_EQ(send_around(pe), 0);
    EXPECT_STREQ(pe.transport(), "p2p");
    EXPECT_EQ(pe.nic(), "nvlink");
  });
}

// Two GPUs of one process do not see one another's memory unless they are told to. All pages were
// on the GPU that came first.
TEST_F(RuntimeOnGpu, RingsByAPageOnItsOwnGpu) {
  config_.transport = TransportKind::kIbgda;
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Runtime pe = start(group);
    const auto* const queue = reinterpret_cast<const SendQueue*>(pe.context().queues);
    EXPECT_TRUE(Gpu::open(pe.my_pe(), 0)->owns(queue->nic.doorbell)) << pe.my_pe();
    EXPECT_EQ(send_around(pe), 0);
    pe.barrier();
  });
}

TEST_F(RuntimeOnGpu, ReportsOneGpuAsNoLink) {
  config_.device = 1;
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Runtime pe = start(group);
    EXPECT_EQ(pe.nic(), "none");
    EXPECT_EQ(send_around(pe), 0);
  });
  fake_.native_atomics = false;
  config_.device = -1;
  bootstrap::run_threads(2, [&](Bootstrap& group) { EXPECT_EQ(start(group).nic(), "pcie"); });
}

TEST_F(RuntimeOnGpu, GivesEveryContextStateOfItsOwn) {
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Runtime pe = start(group);
    auto* const box = pe.allocate<uint64_t>(1);
    {
      const auto context = pe.make_context();
      launch({}, misuse, context.value(), box).wait();
      EXPECT_EQ(pe.failure().status, Status::kBadPe);
      EXPECT_NE(pe.failure().text.find("used PE 99"), std::string::npos) << pe.failure().text;
      pe.barrier();
    }
    const auto again = pe.make_context();
    EXPECT_EQ(pe.failure().status, Status::kOk) << "of the slot's last user";
    pe.barrier();
  });
}

TEST_F(RuntimeOnGpu, PinsLocalMemoryThatCudaDoesNotKnow) {
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Runtime pe = start(group);
    auto* const box = pe.allocate<uint64_t>(1);
    std::vector<uint64_t> source(64, 77);
    const int before = fake_.live;
    EXPECT_EQ(pe.context().windows->off_gpu, 0u);
    pe.barrier();
    pe.register_local(source.data(), source.size() * sizeof(uint64_t));
    EXPECT_GT(fake_.live, before);
    launch({}, copy_from, pe.context(), box, source.data()).wait();
    uint64_t seen = 0;
    pe.copy_out(&seen, box, sizeof(seen));
    EXPECT_EQ(seen, 77u);
    pe.register_local(box, 8);  // the GPU's own: nothing to pin
    // Fails at 438a779, where a fence of system scope in every ring saw to all memory alike.
    const WindowTable& windows = *pe.context().windows;
    EXPECT_EQ(windows.window[0].off_gpu, 0u);
    EXPECT_EQ(windows.window[1].off_gpu, 1u) << "the host's";
    EXPECT_EQ(windows.window[2].off_gpu, 0u);
    EXPECT_EQ(windows.off_gpu, 1u) << "for fences of lanes that store into it";
    pe.barrier();
  });
}

TEST_F(RuntimeOnGpu, StopsAKernelThatWaits) {
  config_.timeout = std::chrono::seconds(0);
  bootstrap::run_threads(1, [&](Bootstrap& group) {
    Runtime pe = start(group);
    auto* const flag = pe.allocate<uint64_t>(1);
    auto* const status = pe.allocate<Status>(1);
    auto running = launch({}, wait_for_ever, pe.context(), flag, status);
    pe.abort("enough");
    running.wait();
    Status ended = Status::kOk;
    pe.copy_out(&ended, status, sizeof(ended));
    EXPECT_EQ(ended, Status::kAborted);
  });
}

TEST_F(RuntimeOnGpu, RefusesWhatNoTransportReaches) {
  fake_.peer_access = false;
  config_.transport = TransportKind::kP2p;
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    const std::string text = error_of([&] { start(group); }).what();
    EXPECT_NE(text.find("no transport reaches PE"), std::string::npos) << text;
    EXPECT_NE(text.find("no peer access GPU"), std::string::npos) << text;
  });
}

TEST_F(RuntimeOnGpu, ReadsTheErrorsOfQueuesByCopies) {
  config_.connect = ConnectKind::kEager;
  config_.transport = TransportKind::kIbgda;
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Runtime pe = start(group);
    pe.check();
    launch({}, break_queue, pe.context(), 1).wait();
    const Failure failure = pe.failure();
    EXPECT_EQ(failure.status, Status::kQueueError);
    EXPECT_EQ(failure.pe, 1);
    EXPECT_EQ(failure.queue, 0);
    EXPECT_EQ(failure.wqe_index, 7u);
    EXPECT_EQ(failure.syndrome, 0x13);
    EXPECT_NE(failure.text.find("peer refused key"), std::string::npos) << failure.text;
    pe.barrier();
    // PE 1's queue to itself, and both ends of the one between them.
    EXPECT_EQ(pe.recover(), pe.my_pe() == 0 ? 1u : 2u);
    EXPECT_EQ(pe.failure().status, Status::kOk);
    pe.check();
  });
}

TEST_F(RuntimeOnGpu, RefusesAJobOfTwoKinds) {
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    const std::string text =
        error_of([&] {
          peal::join(group, config_, group.rank() == 0 ? Target::kCpu : Target::kGpu);
        }).what();
    EXPECT_NE(text.find("PE 1 has its kernels on a GPU, PE 0 on a CPU"), std::string::npos) << text;
  });
}

TEST_F(RuntimeOnGpu, SaysThatTheGpuFailed) {
  bootstrap::run_threads(1, [&](Bootstrap& group) {
    Runtime pe = start(group);
    fake_.refuse["cuStreamSynchronize"] = 700;
    EXPECT_TRUE(contains(error_of([&] { pe.check(); }), "on GPU 0 (Fake H200)"));
    fake_.refuse.clear();
  });
}

}  // namespace
}  // namespace peal

// SPDX-License-Identifier: Apache-2.0
//
// A whole runtime whose host reaches words of the GPU by GDRCopy, both of them fakes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "tests/support/fake_gdrapi.h"
#include "tests/support/gpu_job.h"

namespace peal {
namespace {

class HostWords : public RuntimeOnGpu {
 protected:
  HostWords() : gdr_(load_fake_gdrapi()) {
    config_.gdrcopy = fake_gdrapi_path();
    gdr_.driver = true;
    gdr_.refuse_pin = 0;
  }
  ~HostWords() override {
    EXPECT_EQ(gdr_.live, 0);
    EXPECT_EQ(gdr_.mistakes, 0);
    gdr_.mistakes = 0;
  }
  FakeGdrapi& gdr_;
};

PEAL_KERNEL send(Context ctx, uint64_t* box, uint64_t* flag, Status* status) {
  const int next = (ctx.pe + 1) % ctx.n_pes;
  *status = put_signal(ctx, box, box + 1, 1, Signal::set(flag, 1, next));
}

PEAL_KERNEL misuse(Context ctx, uint64_t* box) { (void)p(ctx, box, uint64_t{1}, 99); }

// Those that fork come first: a process forks with one thread only.
TEST_F(HostWords, CarryQueuesInTheMemoryOfTheGpu) {
  config_.transport = TransportKind::kIbgda;
  bootstrap::run_processes(2, [&](Bootstrap& group) {
    int result = 0;
    {
      Runtime pe = start(group);
      auto* const box = pe.allocate<uint64_t>(2);
      auto* const flag = pe.allocate<uint64_t>(1);
      auto* const status = pe.allocate<Status>(1);
      const uint64_t mine = 7 + static_cast<uint64_t>(pe.my_pe());
      pe.copy_in(box + 1, &mine, sizeof(mine));
      launch({}, send, pe.context(), box, flag, status).wait();
      pe.check();
      while (pe.host().g(flag, pe.my_pe()) != 1) {
      }
      const auto before = 7 + static_cast<uint64_t>(1 - pe.my_pe());
      if (pe.host().g(box, pe.my_pe()) != before) result = 1;
      if (gdr_.pins == 0 || gdr_.copies_in == 0) result = 2;
      pe.barrier();
    }
    return gdr_.live == 0 && gdr_.mistakes == 0 && fake_.live == 0 && fake_.mistakes == 0 ? result
                                                                                          : 60;
  });
}

TEST_F(HostWords, AreToldWithTheirReason) {
  config_.transport = TransportKind::kP2p;
  const std::array<std::pair<std::string, std::string>, 3> kinds{
      {{fake_gdrapi_path(), "host words by GDRCopy 2.6, mapped write-combining"},
       {"off", "host words by copies of a stream (PEAL_GDRCOPY=off)"},
       {"libabsent_gdrapi.so.2",
        "host words by copies of a stream: dlopen(libabsent_gdrapi.so.2)"}}};
  for (const auto& [asked, told] : kinds) {
    for (const bool info : {true, false}) {
      bootstrap::run_processes(1, [&, &wanted = told](Bootstrap& group) {
        config_.gdrcopy = asked;
        config_.info = info;
        testing::internal::CaptureStderr();
        { Runtime pe = start(group); }
        const std::string text = testing::internal::GetCapturedStderr();
        return (info ? text.find(wanted) != std::string::npos : text.empty()) ? 0 : 1;
      });
    }
  }
}

TEST_F(HostWords, NeedNoStreamAndNoKernel) {
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Runtime pe = start(group);
    const int me = pe.my_pe();
    auto* const word = pe.allocate<uint64_t>(2);
    auto* const brief = pe.allocate<uint16_t>(2);
    pe.barrier();
    const int copies = fake_.copies;
    pe.host().p(word, ~uint64_t{0} - 1, me);
    EXPECT_EQ(pe.host().g(word, me), ~uint64_t{0} - 1);
    auto* const half = reinterpret_cast<uint32_t*>(word + 1);
    pe.host().p(half + 1, 5u, me);
    EXPECT_EQ(pe.host().g(half + 1, me), 5u);
    EXPECT_EQ(pe.host().g(half, me), 0u);
    pe.host().p(brief + 1, uint16_t{0xabcd}, me);
    EXPECT_EQ(pe.host().g(brief + 1, me), 0xabcd);
    EXPECT_EQ(pe.host().g(brief, me), 0);
    pe.host().signal(Signal::set(word, 3, me));
    uint64_t seen = 0;
    pe.copy_out(&seen, word, sizeof(seen));
    EXPECT_EQ(seen, 3u);
    pe.host_nbi().p(word, uint64_t{4}, me).wait();
    EXPECT_EQ(pe.host().g(word, me), 4u);
    EXPECT_EQ(fake_.copies, copies);
    pe.barrier();
  });
}

// The stand-in's GPU has no kernels: what the host may not do itself fails there.
TEST_F(HostWords, LeaveToKernelsWhatTheHostMayNotDo) {
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Runtime pe = start(group);
    const int me = pe.my_pe();
    auto* const word = pe.allocate<uint64_t>(1);
    EXPECT_THROW(pe.host().atomic_add(word, uint64_t{1}, me), Error);
    EXPECT_THROW(pe.host().g(word, 1 - me), Error) << "a peer's";
    EXPECT_EQ(pe.host().g(word, me), 0u);
    EXPECT_THROW(pe.host().g(word, 99), Error);
    pe.barrier();
    fake_.refuse["cuStreamQuery"] = 600;  // CUDA_ERROR_NOT_READY
    pe.barrier();
    EXPECT_THROW(pe.host().g(word, me), Error) << "the stream has something to do";
    pe.barrier();
    fake_.refuse.clear();
    pe.barrier();
  });
}

TEST_F(HostWords, TellWhatKernelsDidWrong) {
  bootstrap::run_threads(1, [&](Bootstrap& group) {
    Runtime pe = start(group);
    auto* const word = pe.allocate<uint64_t>(1);
    EXPECT_EQ(pe.host().g(word, 0), 0u);
    EXPECT_EQ(pe.status(), Status::kOk);
    launch({}, misuse, pe.context(), word).wait();
    EXPECT_EQ(pe.status(), Status::kBadPe);
    EXPECT_THROW(pe.host().g(word, 0), Error);
  });
}

}  // namespace
}  // namespace peal

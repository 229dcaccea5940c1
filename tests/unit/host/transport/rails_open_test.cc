// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a PE's NICs when they can do less than peal would like: on an rdma-core that is a
// fake. What is said about it is read.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string>

#include "bootstrap/bootstraps.h"
#include "host/transport/rails.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/fake_rdma_fixture.h"

namespace peal::nic {
namespace {

class RailsOpen : public FakeRdmaTest {
 protected:
  RailsOpen() : group_(bootstrap::make_single()) {
    config_.ibverbs = config_.mlx5 = path_;
    EXPECT_EQ(::pipe(pipe_.data()), 0);
  }
  ~RailsOpen() override {
    ::close(pipe_[0]);
    if (pipe_[1] >= 0) ::close(pipe_[1]);
  }

  Rails open(bool one_host = true) {
    return Rails(config_, gpu_, *group_, Log(LogLevel::kWarn, 0, pipe_[1]), one_host);
  }
  /// All warnings so far; none can follow.
  std::string warned() {
    ::close(pipe_[1]);
    pipe_[1] = -1;
    std::string text;
    char part[4096];
    for (ssize_t n = 0; (n = ::read(pipe_[0], part, sizeof part)) > 0;) {
      text.append(part, static_cast<size_t>(n));
    }
    return text;
  }
  /// `auto` takes the proxy for a reason that has these words, and says so in one line.
  void expect_proxy(std::initializer_list<std::string> reason) {
    {
      const Rails rails = open();
      EXPECT_EQ(rails.nics()[0].device.use(), NicUse::kVerbs);
      expect_in(rails.why_proxy(), reason);
    }
    const std::string text = warned();
    expect_in(text, reason);
    expect_in(text, {"peal[0] nic: kernels cannot drive ", "a CPU thread posts for them",
                     "PEAL_TRANSPORT=proxy starts so without this warning"});
    EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
  }
  std::string refused(ErrorCode code, TransportKind transport) {
    config_.transport = transport;
    return refusal(code, [&] { open(); });
  }

  Config config_ = Config::defaults();
  std::shared_ptr<Gpu> gpu_;  // of the kernels; none, unless a test has one
  std::unique_ptr<Bootstrap> group_;
  std::array<int, 2> pipe_{};
};

TEST_F(RailsOpen, IsForKernelsWhereTheyCanDriveTheNic) {
  for (const TransportKind transport : {TransportKind::kAuto, TransportKind::kIbgda}) {
    config_.transport = transport;
    const Rails rails = open();
    EXPECT_EQ(rails.nics()[0].device.use(), NicUse::kDriven);
    EXPECT_EQ(rails.why_proxy(), "");
  }
  config_.transport = TransportKind::kProxy;
  EXPECT_EQ(open().nics()[0].device.use(), NicUse::kVerbs);
  EXPECT_EQ(warned(), "") << "no downgrade: it was asked for";
}

TEST_F(RailsOpen, FallsToTheProxyWithoutDevx) {
  fake_.refuse_devx = EOPNOTSUPP;
  expect_proxy({"mlx5dv_open_device(mlx5_0) with DEVX", "Operation not supported", "UCTX_EN"});
}

TEST_F(RailsOpen, FallsToTheProxyWithoutACapability) {
  fake_.general_capabilities[17] = 1;
  expect_proxy({"mlx5_0 cannot be driven from a kernel, it lacks", "(cq_oi)"});
}

TEST_F(RailsOpen, FallsToTheProxyWhereCommandsAreRefused) {
  fake_.refuse_command = 0x100;
  fake_.refuse_errno = EOPNOTSUPP;
  expect_proxy({"QUERY_HCA_CAP", "DEVX"});
}

TEST_F(RailsOpen, FallsToTheProxyForAnotherVendorsNic) {
  fake_.foreign = {"bnxt_re0"};
  fake_.devices = {};
  expect_proxy({"no mlx5 device at all by"});
}

// A kernel takes windows as dma-bufs before it takes queues so: found out when routes are decided
// still. At 438a779 it was found out when the first context was made, and was the job's end.
class RailsOnGpu : public RailsOpen {
 protected:
  RailsOnGpu() : cuda_(load_fake_cuda()) {
    cuda_.devices = 1;
    cuda_.dma_buf = true;
    cuda_.refuse.clear();
    gpu_ = Gpu::open(0, 0);
    fake_.devices = {"mlx5_0", "mlx5_1"};  // of one kernel
    config_.rails = 1;
  }
  ~RailsOnGpu() override { EXPECT_EQ(cuda_.mistakes, 0); }
  FakeCuda& cuda_;
};

TEST_F(RailsOnGpu, AreForKernelsInEitherWayThatQueuesBecomeKnown) {
  fake_.refuse_umem = true;  // no nvidia-peermem
  EXPECT_EQ(open().why_proxy(), "");
  fake_.refuse_umem = false;
  fake_.refuse_dmabuf_umem = EPROTONOSUPPORT;
  EXPECT_EQ(open().why_proxy(), "");
  EXPECT_EQ(warned(), "");
}

TEST_F(RailsOnGpu, FallToTheProxyWhereQueuesBecomeKnownInNeither) {
  fake_.refuse_umem = true;
  fake_.refuse_dmabuf_umem = EPROTONOSUPPORT;
  expect_proxy({"mlx5dv_devx_umem_reg_ex(", "for mlx5_0)",
                "nor as a dma-buf: mlx5dv_devx_umem_reg_ex: Protocol not supported", "Linux 6.1",
                "nvidia-peermem"});
}

TEST_F(RailsOnGpu, AreAnErrorWithTheWayOutWhereIbgdaIsAskedFor) {
  fake_.refuse_umem = true;
  fake_.refuse_dmabuf_umem = EPROTONOSUPPORT;
  expect_in(refused(ErrorCode::kSystem, TransportKind::kIbgda),
            {"mlx5dv_devx_umem_reg_ex(", "Protocol not supported",
             "; PEAL_TRANSPORT=proxy (or auto) lets a CPU thread drive mlx5_0"});
}

TEST_F(RailsOpen, FallsToTheProxyWhereNoMemoryHoldsQueues) {
  fake_.refuse_umem = true;
  expect_proxy({"mlx5dv_devx_umem_reg_ex(", "Cannot allocate memory", "ulimit -l"});
}

TEST_F(RailsOpen, IsAnErrorWithTheWayOutWhereIbgdaIsAskedFor) {
  fake_.refuse_devx = EOPNOTSUPP;
  expect_in(refused(ErrorCode::kSystem, TransportKind::kIbgda),
            {"mlx5dv_open_device(mlx5_0) with DEVX", "Operation not supported", "UCTX_EN",
             "; PEAL_TRANSPORT=proxy (or auto) lets a CPU thread drive mlx5_0"});
  fake_.foreign = {"bnxt_re0"};
  fake_.devices = {};
  expect_in(refused(ErrorCode::kUnsupported, TransportKind::kIbgda),
            {"no mlx5 device at all by", "lets a CPU thread drive bnxt_re0"});
  EXPECT_EQ(warned(), "");
}

// What is wrong has nothing to do with kernels: the proxy is no way out, and is not named.
TEST_F(RailsOpen, IsTheFirstErrorWhereTheProxyCannotEither) {
  const auto expect_error = [&](const std::string& part) {
    for (const TransportKind transport : {TransportKind::kAuto, TransportKind::kIbgda}) {
      const std::string text = refused(ErrorCode::kUnsupported, transport);
      expect_in(text, {part});
      EXPECT_EQ(text.find("PEAL_TRANSPORT"), std::string::npos) << text;
    }
  };
  fake_.port_state = IBV_PORT_DOWN;
  expect_error("port 1 of mlx5_0 is not active");
  fake_.devices = {"mlx5_0", "mlx5_1"};
  expect_error("; port 1 of mlx5_1 is not active");
  fake_.port_state = IBV_PORT_ACTIVE;
  fake_.atomics = IBV_ATOMIC_NONE;
  fake_.general_capabilities[16] = 0;
  expect_error("(atomic)");
  fake_.devices = {};
  expect_error("no mlx5 device at all");
  EXPECT_EQ(warned(), "");
}

TEST_F(RailsOpen, DoesNotTryOtherWaysToUseASettingThatCannotBe) {
  config_.gid_index = 9;
  for (const TransportKind transport : {TransportKind::kAuto, TransportKind::kIbgda}) {
    expect_in(refused(ErrorCode::kConfiguration, transport), {"GID index 9 of mlx5_0"});
  }
  config_ = Config::defaults();
  config_.ibverbs = path_;
  expect_in(refused(ErrorCode::kConfiguration, TransportKind::kAuto), {"PEAL_MLX5 is not"});
}

// rdma-core is what calls itself so; the software NIC is found beside the program.
class RailsOfAnotherVendor : public RailsOpen {
 protected:
  RailsOfAnotherVendor() : system_(fake_at(built("tests/support/libfake_ibverbs.so"))) {
    fake_at(built("tests/support/libfake_mlx5.so"));
    system_ = FakeRdma{};
    system_.foreign = {"bnxt_re0"};
    system_.devices = {};
    config_.ibverbs = config_.mlx5 = "";
  }
  ~RailsOfAnotherVendor() override { EXPECT_EQ(system_.live, 0); }
  FakeRdma& system_;
};

TEST_F(RailsOfAnotherVendor, AreTheSoftwareNicsOnOneHost) {
  EXPECT_TRUE(open().nics()[0].device.software());
  EXPECT_EQ(warned(), "");
}

TEST_F(RailsOfAnotherVendor, AreItsBetweenHostsWhichTheSoftwareNicDoesNotLeave) {
  EXPECT_EQ(open(false).nics()[0].device.name(), "bnxt_re0");
  const std::string text = warned();
  expect_in(text, {"kernels cannot drive bnxt_re0: bnxt_re0 is no mlx5 device, and kernels drive "
                   "no other; a CPU thread posts for them"});
}

TEST_F(RailsOfAnotherVendor, SayWhatIsWrongWithThatNic) {
  system_.atomics = IBV_ATOMIC_NONE;
  expect_in(refusal(ErrorCode::kUnsupported, [&] { open(false); }), {"bnxt_re0 has no atomics"});
}

// Asked for by name, kernels drive what there is.
TEST_F(RailsOfAnotherVendor, AreTheSoftwareNicsForIbgda) {
  config_.transport = TransportKind::kIbgda;
  EXPECT_TRUE(open(false).nics()[0].device.software());
}

}  // namespace
}  // namespace peal::nic

// SPDX-License-Identifier: Apache-2.0
//
// Who rings a NIC: on a rdma-core and a CUDA driver that are fakes. The doorbell page is refused to
// the GPU in each way that a driver has, and what happens instead is looked at, and read.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "device/base/order.h"
#include "host/transport/doorbell.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/fake_rdma_fixture.h"

namespace peal::nic {
namespace {

class NicDoorbell : public FakeRdmaTest {
 protected:
  NicDoorbell() : cuda_(load_fake_cuda()), device_(library(), "") {
    cuda_.devices = 1;
    cuda_.refuse.clear();
    cuda_.mistakes = 0;
    gpu_ = Gpu::open(0, 0);
  }
  ~NicDoorbell() override { EXPECT_EQ(cuda_.mistakes, 0); }

  std::shared_ptr<Gpu> none() const { return nullptr; }
  uint64_t* uar_register() const {
    return reinterpret_cast<uint64_t*>(static_cast<std::byte*>(fake_.uar_page) + 0x800);
  }

  FakeCuda& cuda_;
  Device device_;
  std::shared_ptr<Gpu> gpu_;
};

TEST_F(NicDoorbell, IsRungByKernelsOnACpu) {
  const Doorbell doorbell(device_, none(), DoorbellKind::kAuto);
  const Bells bells = doorbell.bells(4);
  EXPECT_EQ(bells.of(0), uar_register());
  EXPECT_EQ(bells.of(3), uar_register());
  EXPECT_EQ(doorbell.describe(), "kernels ring (dedicated doorbell page)");
  EXPECT_EQ(doorbell.warning(), "");
}

TEST_F(NicDoorbell, OfSoftwareIsMappedForAGpuAsMemory) {
  fake_.firmware = "0.softnic.1";
  const Device software(library(), "");
  const Doorbell doorbell(software, gpu_, DoorbellKind::kGpu);
  EXPECT_EQ(doorbell.bells(1).of(0), uar_register());
  EXPECT_EQ(cuda_.host_flags, 3u);  // portable, mapped
}

// Fails at 438a779, where the driver was asked for a pointer into the range of registers, and the
// fake answers for the range only.
TEST_F(NicDoorbell, OfHardwareIsMappedForAGpuAsRegisters) {
  const int before = cuda_.live;
  {
    const Doorbell doorbell(device_, gpu_, DoorbellKind::kAuto);
    EXPECT_EQ(doorbell.bells(2).of(1), uar_register());
    EXPECT_EQ(cuda_.host_flags, 7u);  // I/O memory too
    EXPECT_EQ(cuda_.live, before + 1);
    EXPECT_EQ(doorbell.warning(), "");
  }
  EXPECT_EQ(cuda_.live, before);
}

TEST_F(NicDoorbell, IsRungByACpuWhereTheGpuMayNot) {
  cuda_.refuse["cuMemHostRegister"] = 800;  // CUDA_ERROR_NOT_PERMITTED
  std::string text;
  {
    const Doorbell doorbell(device_, gpu_, DoorbellKind::kAuto);
    text = doorbell.warning();
    const Bells bells = doorbell.bells(3);
    const Bells more = doorbell.bells(1);
    EXPECT_EQ(bells.of(2), bells.of(0) + 2);
    EXPECT_TRUE(gpu_->knows(bells.of(0)) && !gpu_->holds(bells.of(0))) << "not for kernels";
    EXPECT_NE(more.of(0), bells.of(0));
    expect_in(doorbell.describe(), {"a CPU thread rings for kernels", "PeerMappingOverride"});

    *uar_register() = 0;
    store_release<Reach::kSystem>(bells.of(2), uint64_t{0x0500000000001200});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (doorbell.passed_on() == 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_EQ(*uar_register(), 0x0500000000001200u);
  }
  expect_in(text,
            {"kernels cannot ring mlx5_0: cuMemHostRegister(4096 bytes at", "GPU 0 (Fake H200)",
             "for root", "options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1;\"",
             "container", "a CPU thread rings for them, which is slower", "PEAL_DOORBELL=cpu"});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 0) << "not one line: " << text;
}

TEST_F(NicDoorbell, SaysWhatElseADriverRefuses) {
  cuda_.refuse["cuMemHostRegister"] = 801;  // CUDA_ERROR_NOT_SUPPORTED
  expect_in(Doorbell(device_, gpu_, DoorbellKind::kAuto).describe(),
            {"cannot map another device's registers", "virtual machine"});
  cuda_.refuse["cuMemHostRegister"] = 1;
  expect_in(Doorbell(device_, gpu_, DoorbellKind::kAuto).describe(), {"tools/doctor"});
  cuda_.refuse = {{"cuMemHostGetDevicePointer", 1}};
  const int before = cuda_.live;
  expect_in(Doorbell(device_, gpu_, DoorbellKind::kAuto).describe(),
            {"a CPU thread", "cuMemHostGetDevicePointer"});
  EXPECT_EQ(cuda_.live, before) << "the page is mapped still";
}

TEST_F(NicDoorbell, IsAnErrorWhereTheGpuMustRingAndMayNot) {
  cuda_.refuse["cuMemHostRegister"] = 800;
  expect_in(refusal(ErrorCode::kUnsupported, [&] { Doorbell(device_, gpu_, DoorbellKind::kGpu); }),
            {"PEAL_DOORBELL=gpu", "mlx5_0", "PeerMappingOverride=1", "PEAL_DOORBELL=auto"});
}

TEST_F(NicDoorbell, IsRungByACpuWhereThatIsAsked) {
  const Doorbell doorbell(device_, none(), DoorbellKind::kCpu);
  const Bells bells = doorbell.bells(1);
  EXPECT_NE(bells.of(0), uar_register());
  EXPECT_EQ(doorbell.describe(),
            "a CPU thread rings for kernels (dedicated doorbell page): PEAL_DOORBELL=cpu");
  EXPECT_EQ(doorbell.warning(), "");  // no downgrade: it was asked for
}

TEST_F(NicDoorbell, OfAGpusMemoryIsNoCpus) {
  const Backing page = make_cuda_backing(gpu_, 4096, "test");
  fake_.uar_page = page.address();
  expect_in(refusal(ErrorCode::kUnsupported, [&] { Doorbell(device_, gpu_, DoorbellKind::kCpu); }),
            {"PEAL_DOORBELL=cpu", "memory of a GPU", "PEAL_DOORBELL=gpu or auto"});
  const Doorbell doorbell(device_, gpu_, DoorbellKind::kAuto);
  EXPECT_EQ(doorbell.bells(1).of(0), uar_register());
}

}  // namespace
}  // namespace peal::nic

// SPDX-License-Identifier: Apache-2.0
//
// How memory becomes known to a NIC: on a rdma-core and a CUDA driver that are fakes. Each of the
// two ways is refused in turn, for memory regions and for umems, and what is said of it is read.
#include "host/nic/registration.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "host/memory/backing_cuda.h"
#include "host/memory/gpu.h"
#include "host/nic/mlx5/calls.h"
#include "host/transport/ibgda.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/fake_rdma_fixture.h"

namespace peal::nic {
namespace {

using How = Registration::How;

class NicRegistration : public FakeRdmaTest {
 protected:
  NicRegistration() : cuda_(load_fake_cuda()), device_(library(), ""), domain_(device_) {
    cuda_.devices = 1;
    cuda_.dma_buf = true;
    cuda_.refuse.clear();
    cuda_.exported = 0;
    gpu_ = Gpu::open(0, 0);
    backing_ = std::make_unique<Backing>(make_cuda_backing(gpu_, 1 << 20, "test"));
  }
  ~NicRegistration() override { EXPECT_EQ(cuda_.mistakes, 0); }

  /// GPU memory that begins `in_page` bytes into a page.
  Memory on_gpu(size_t in_page = 0, size_t bytes = 8192) const {
    return memory_of(gpu_, backing_->address() + in_page, bytes);
  }
  void expect_descriptor_closed() const {
    EXPECT_TRUE(fake_.dmabuf_open);
    EXPECT_LT(::fcntl(fake_.dmabuf_fd, F_GETFD), 0) << "the descriptor is open still";
  }

  FakeCuda& cuda_;
  Device device_;
  ProtectionDomain domain_;
  std::shared_ptr<Gpu> gpu_;
  std::unique_ptr<Backing> backing_;
};

TEST_F(NicRegistration, OfHostMemoryBeginsAtZeroWithSwappedKeys) {
  alignas(4096) std::byte memory[64];  // the start of a page: offsets count from there
  {
    const MemoryRegion region(device_, domain_, {memory, sizeof memory});
    EXPECT_EQ(fake_.mr_iova, 0u);
    EXPECT_EQ(fake_.mr_access, 0xfu);
    EXPECT_EQ(region.lkey().bits, 0x04030201u);
    EXPECT_EQ(region.rkey().bits, 0x04030201u);
    EXPECT_EQ(region.bytes(), 64u);
    EXPECT_EQ(region.registration().describe(), "host memory");
  }
  const MemoryRegion relaxed(device_, domain_, {memory, sizeof memory}, KeyOrdering::kRelaxed);
  EXPECT_EQ(fake_.mr_access, 0xfu | 1u << 20);
  fake_.refuse_mr = true;
  expect_in(refusal(ErrorCode::kSystem,
                    [&] {
                      MemoryRegion(device_, domain_, {memory, 64});
                    }),
            {"ibv_reg_mr_iova2(64 bytes", "mlx5_0", "Cannot allocate memory", "ulimit -l"});
}

// mkc_order_write_after_write_ro_only. Fails at 3a0dce1: words had keys that such a NIC refuses.
TEST_F(NicRegistration, OfWordsIsRelaxedWhereTheNicTakesNoOtherKey) {
  fake_.general_capabilities[29] |= 1u << 22;
  const IbgdaNic nic(Device(library(), ""), nullptr, RelaxedOrdering::kAuto);
  EXPECT_EQ(nic.payload, KeyOrdering::kRelaxed) << "on a CPU, too";
  EXPECT_EQ(nic.words, KeyOrdering::kRelaxed);
  EXPECT_EQ(placement_of(nic.device.placement()), Placement::kAny);
  std::byte memory[64];
  const MemoryRegion words(nic.device, nic.domain, {memory, sizeof memory});
  EXPECT_EQ(fake_.mr_access, 0xfu | 1u << 20);
  expect_in(refusal(ErrorCode::kConfiguration,
                    [&] { IbgdaNic(Device(library(), ""), nullptr, RelaxedOrdering::kOff); }),
            {"PEAL_RELAXED_ORDERING=off, but mlx5_0 takes memory keys with relaxed ordering only",
             "set it to auto"});
}

TEST_F(NicRegistration, OfHostMemoryMakesAUmem) {
  std::byte memory[64];
  const QueueRegion umem(device_, {memory, 64});
  EXPECT_EQ(umem.number(), 0x11u);
  EXPECT_EQ(umem.registration().how, How::kHostMemory);
  EXPECT_EQ(fake_.umem_address, reinterpret_cast<uint64_t>(&memory[0]));
  EXPECT_EQ(fake_.umem_access, static_cast<uint64_t>(IBV_ACCESS_LOCAL_WRITE));
  fake_.refuse_umem = true;
  expect_in(refusal(ErrorCode::kSystem,
                    [&] {
                      QueueRegion(device_, {memory, 64});
                    }),
            {"mlx5dv_devx_umem_reg_ex(64 bytes"});
}

// With larger pages most offsets of queues could not be said. Fails at 438a779, where host memory
// and a GPU's addresses went without a word of it, and dma-bufs with any page from the host's on.
TEST_F(NicRegistration, LetsTheDriverTakeNoLargerPageThanTheHosts) {
  std::byte memory[64];
  const auto pages = [&](const Memory& of) {
    fake_.umem_pages = 0;
    const QueueRegion umem(device_, of);
    return fake_.umem_pages;
  };
  EXPECT_EQ(pages({memory, 64}), 4096u);
  EXPECT_EQ(pages(on_gpu()), 4096u);
  fake_.refuse_dmabuf_umem = EPROTONOSUPPORT;
  EXPECT_EQ(pages(on_gpu()), 4096u);
}

TEST_F(NicRegistration, DoesNotTakePinnedHostMemoryForAGpus) {
  const Backing pinned = make_pinned_backing(gpu_, 4096, "test");
  EXPECT_EQ(memory_of(gpu_, pinned.address(), 4096).export_dma_buf, nullptr);
  EXPECT_EQ(memory_of(nullptr, backing_->address(), 4096).export_dma_buf, nullptr);
  EXPECT_NE(on_gpu().export_dma_buf, nullptr);
}

TEST_F(NicRegistration, LendsGpuMemoryAsADmaBuf) {
  fake_.refuse_mr = fake_.refuse_umem = true;  // no nvidia-peermem
  const MemoryRegion region(device_, domain_, on_gpu(), KeyOrdering::kRelaxed);
  EXPECT_EQ(region.registration().how, How::kDmaBuf);
  EXPECT_EQ(region.registration().describe(), "GPU memory by dma-buf");
  EXPECT_EQ(region.bytes(), 8192u);
  EXPECT_EQ(fake_.mr_access, 0xfu | 1u << 20);
  EXPECT_EQ(fake_.mr_iova, 0u);
  EXPECT_EQ(fake_.mr_offset, 0u);
  expect_descriptor_closed();

  const QueueRegion umem(device_, on_gpu());
  EXPECT_EQ(umem.registration().how, How::kDmaBuf);
  EXPECT_EQ(fake_.umem_address, 0u);
  EXPECT_EQ(fake_.umem_access, static_cast<uint64_t>(IBV_ACCESS_LOCAL_WRITE));
  expect_descriptor_closed();
  EXPECT_EQ(cuda_.exported, 2);
}

// A window may begin inside a page: whole pages are exported, and the region is what was asked for.
TEST_F(NicRegistration, LendsWholePagesAroundAWindow) {
  fake_.refuse_mr = true;
  const MemoryRegion region(device_, domain_, on_gpu(4096 + 256, 4000));
  EXPECT_EQ(fake_.mr_offset, 256u);
  EXPECT_EQ(fake_.mr_iova, 256u);  // the kernel wants the same offset in a page
  EXPECT_EQ(region.bytes(), 4000u);
  EXPECT_EQ(region.registration().how, How::kDmaBuf);
}

TEST_F(NicRegistration, GoesOnByAddressWhereTheNicRefusesADmaBuf) {
  fake_.refuse_dmabuf_mr = EOPNOTSUPP;
  const MemoryRegion region(device_, domain_, on_gpu(256));
  EXPECT_EQ(region.registration().describe(),
            "GPU memory by its address; no dma-buf: ibv_reg_dmabuf_mr: Operation not supported");
  EXPECT_EQ(fake_.mr_iova, 256u);
  expect_descriptor_closed();
  // Each use for itself: the umem is taken.
  EXPECT_EQ(QueueRegion(device_, on_gpu()).registration().how, How::kDmaBuf);

  fake_.refuse_dmabuf_umem = EFAULT;
  const QueueRegion umem(device_, on_gpu());
  EXPECT_EQ(umem.registration().describe(),
            "GPU memory by its address; no dma-buf: mlx5dv_devx_umem_reg_ex: Bad address");
  expect_descriptor_closed();
}

TEST_F(NicRegistration, SaysWhyTheGpuLendsNothing) {
  const auto why = [&] { return QueueRegion(device_, on_gpu()).registration().why_not; };
  cuda_.dma_buf = false;
  expect_in(why(), {"exports none of GPU 0", "open kernel modules"});
  cuda_.dma_buf = true;
  cuda_.refuse["cuDeviceGetAttribute"] = 1;
  expect_in(why(), {"exports none of GPU 0"});
  cuda_.refuse = {{"cuMemGetHandleForAddressRange", 801}};
  expect_in(why(), {"cuMemGetHandleForAddressRange(8192 bytes at 0x", "on GPU 0: the test wants"});
  EXPECT_EQ(cuda_.exported, 0);
}

TEST_F(NicRegistration, KnowsDriversAndLibrariesThatHaveNoDmaBufs) {
  auto without = std::make_shared<VerbsLibrary>(*library());
  without->ibv.reg_dmabuf_mr = nullptr;
  ModelCalls calls = *without->model;
  calls.devx_umem_reg_ex = nullptr;
  without->model = std::make_shared<ModelCalls>(calls);
  const Device old(without, "");
  const ProtectionDomain domain(old);
  expect_in(MemoryRegion(old, domain, on_gpu()).registration().why_not,
            {"too old for ibv_reg_dmabuf_mr"});
  expect_in(refusal(ErrorCode::kUnsupported, [&] { QueueRegion(old, on_gpu()); }),
            {"too old for mlx5dv_devx_umem_reg_ex", "version 44", "PEAL_TRANSPORT=proxy"});

  auto driver = std::make_shared<cuda::Driver>(gpu_->driver());
  driver->range_handle = nullptr;
  const auto gpu = std::make_shared<Gpu>(driver, 0);
  expect_in(QueueRegion(device_, memory_of(gpu, backing_->address(), 4096)).registration().why_not,
            {"cuMemGetHandleForAddressRange", "older than 11.7"});
}

TEST_F(NicRegistration, NamesBothRefusalsAndTheRemedy) {
  fake_.refuse_mr = fake_.refuse_umem = true;
  fake_.refuse_dmabuf_mr = fake_.refuse_dmabuf_umem = EOPNOTSUPP;
  expect_in(refusal(ErrorCode::kSystem, [&] { MemoryRegion(device_, domain_, on_gpu()); }),
            {"ibv_reg_mr_iova2(8192 bytes", "Cannot allocate memory",
             "nor as a dma-buf: ibv_reg_dmabuf_mr: Operation not supported",
             "modprobe nvidia-peermem", "open kernel modules", "container", "ulimit -l"});
  cuda_.dma_buf = false;
  expect_in(refusal(ErrorCode::kSystem, [&] { QueueRegion(device_, on_gpu()); }),
            {"mlx5dv_devx_umem_reg_ex(8192 bytes", "nor as a dma-buf: the driver exports none",
             "Linux 6.1 (5.12 is enough for windows, not for queues)", "modprobe nvidia-peermem",
             "; PEAL_TRANSPORT=proxy does without umems"});
}

TEST_F(NicRegistration, LeavesTheRemedyToTheSoftwareNicWhereItIsThat) {
  fake_.firmware = "0.softnic.1";
  const Device software(library(), "");
  fake_.refuse_umem = true;
  expect_in(refusal(ErrorCode::kSystem,
                    [&] {
                      QueueRegion(software, {backing_->address(), 64});
                    }),
            {"\"softnic:\""});
}

}  // namespace
}  // namespace peal::nic

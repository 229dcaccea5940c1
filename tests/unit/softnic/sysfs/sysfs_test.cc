// SPDX-License-Identifier: Apache-2.0
//
// The preload's calls of dlsym and of CUDA: doorbell pages register as a card's would, and nothing
// else does; and verbs on the engine on a GPU. The files it shows are tested by UCX
// (tests/rdma_core).
//
// argv: libpeal_sysfs.so, which this program is started again with; libpeal_softnic.so; the GPU
// engine's program.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "host/base/cuda_driver.h"
#include "tests/support/fake_cuda.h"

extern "C" void peal_next_order(void** answer);  // of the first library

namespace {

using namespace peal::cuda;

std::string& softnic_path() {
  static std::string path;
  return path;
}

TEST(Preload, FindsTheNextDefinitionAfterItsCallers) {
  void* next = nullptr;
  peal_next_order(&next);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(reinterpret_cast<int (*)()>(next)(), 1)
      << "counted from the preload it would be the caller's own";
}

/// The driver's functions as a client finds them. Who is linked with the driver, as UCX is, has the
/// first in the order of libraries, and that is the preload.
enum class Way { kDlsym, kGetProcAddress, kLinked };
class Doorbells : public testing::TestWithParam<Way> {
 protected:
  Doorbells() : fake_(load_fake_cuda()) {
    fake_.io_memory = false;
    fake_.host_flags = 0;
    library_ = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    ContextHandle context = nullptr;
    find<Result(ContextHandle*, DeviceHandle)>("cuDevicePrimaryCtxRetain")(&context, 0);
    find<Result(ContextHandle)>("cuCtxPushCurrent_v2")(context);
    softnic_ = dlopen(softnic_path().c_str(), RTLD_NOW | RTLD_LOCAL);
    auto** list = verbs<ibv_device**(int*)>("ibv_get_device_list")(nullptr);
    device_ = verbs<ibv_context*(ibv_device*)>("ibv_open_device")(list[0]);
    verbs<void(ibv_device**)>("ibv_free_device_list")(list);
    pd_ = verbs<ibv_pd*(ibv_context*)>("ibv_alloc_pd")(device_);
  }
  ~Doorbells() override {
    EXPECT_EQ(verbs<int(ibv_pd*)>("ibv_dealloc_pd")(pd_), 0);
    EXPECT_EQ(verbs<int(ibv_context*)>("ibv_close_device")(device_), 0);
    ContextHandle context = nullptr;
    find<Result(ContextHandle*)>("cuCtxPopCurrent_v2")(&context);
    find<Result(DeviceHandle)>("cuDevicePrimaryCtxRelease_v2")(0);
    dlclose(library_);
    EXPECT_EQ(fake_.mistakes, 0);
  }

  template <class F>
  F* verbs(const char* name) const {
    return reinterpret_cast<F*>(dlsym(softnic_, name));
  }
  template <class F>
  F* find(const std::string& exported) const {
    return reinterpret_cast<F*>(dlsym(library_, exported.c_str()));
  }
  /// As the parameter says.
  template <class F>
  F* driver(const std::string& name, const char* version = "") const {
    if (GetParam() == Way::kDlsym) return find<F>(name + version);
    void* found = nullptr;
    if (GetParam() == Way::kLinked) {
      void* const preload = dlopen(getenv("LD_PRELOAD"), RTLD_NOW | RTLD_NOLOAD);
      found = dlsym(preload, (name + version).c_str());
      dlclose(preload);
      return reinterpret_cast<F*>(found);
    }
    find<Result(const char*, void**, int, uint64_t, int*)>("cuGetProcAddress_v2")(
        name.c_str(), &found, 13000, 0, nullptr);
    return reinterpret_cast<F*>(found);
  }

  mlx5dv_devx_uar* make_page() const {
    return verbs<mlx5dv_devx_uar*(ibv_context*, uint32_t)>("mlx5dv_devx_alloc_uar")(
        device_, MLX5DV_UAR_ALLOC_TYPE_BF);
  }
  void free_page(mlx5dv_devx_uar* page) const {
    verbs<void(mlx5dv_devx_uar*)>("mlx5dv_devx_free_uar")(page);
  }
  Result add(void* address, unsigned flags) const {
    return driver<Result(void*, size_t, unsigned)>("cuMemHostRegister", "_v2")(address, 8, flags);
  }
  Result remove(void* address) const {
    return driver<Result(void*)>("cuMemHostUnregister")(address);
  }
  Result ask(DeviceAddress* answer, void* address) const {
    return driver<Result(DeviceAddress*, void*, unsigned)>("cuMemHostGetDevicePointer", "_v2")(
        answer, address, 0);
  }

  ibv_cq* make_cq() const {
    return verbs<ibv_cq*(ibv_context*, int, void*, ibv_comp_channel*, int)>("ibv_create_cq")(
        device_, 16, nullptr, nullptr, 0);
  }
  ibv_mr* register_on_gpu(DeviceAddress memory) const {
    return verbs<ibv_mr*(ibv_pd*, void*, size_t, int)>("ibv_reg_mr")(
        pd_, reinterpret_cast<void*>(memory), 1 << 16, IBV_ACCESS_LOCAL_WRITE);
  }
  static ibv_qp_init_attr wanted(ibv_cq* cq) {
    ibv_qp_init_attr wish = {};
    wish.send_cq = wish.recv_cq = cq;
    wish.cap = {.max_send_wr = 4,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    wish.qp_type = IBV_QPT_RC;
    return wish;
  }

  static constexpr unsigned kShared = kHostPortable | kHostDeviceMap;
  FakeCuda& fake_;
  void* library_ = nullptr;
  void* softnic_ = nullptr;
  ibv_context* device_ = nullptr;
  ibv_pd* pd_ = nullptr;
};

TEST_P(Doorbells, OfTheHostRegisterAsRegistersOfACard) {
  mlx5dv_devx_uar* const page = make_page();
  ASSERT_NE(page, nullptr);
  ASSERT_EQ(add(page->reg_addr, kShared | kHostIoMemory), kSuccess);
  EXPECT_EQ(fake_.host_flags, kShared) << "the driver refuses the flag for memory of the host";
  DeviceAddress there = 0;
  EXPECT_EQ(ask(&there, page->reg_addr), kSuccess);
  EXPECT_EQ(there, reinterpret_cast<DeviceAddress>(page->reg_addr));
  EXPECT_EQ(remove(page->reg_addr), kSuccess);
  free_page(page);
}

// The software NIC's queues are a GPU's there, and so are its pages: nothing is left to register.
TEST_P(Doorbells, OfAGpuNeedNoRegistration) {
  DeviceAddress memory = 0;
  ASSERT_EQ(find<Result(DeviceAddress*, size_t)>("cuMemAlloc_v2")(&memory, 1 << 16), kSuccess);
  ibv_mr* const region = register_on_gpu(memory);
  ASSERT_NE(region, nullptr) << "the engine moves to the GPU with the first memory";
  // A client may ask once, for what it then frees: NVSHMEM does.
  EXPECT_EQ(verbs<int(ibv_mr*)>("ibv_dereg_mr")(region), 0);
  EXPECT_EQ(find<Result(DeviceAddress)>("cuMemFree_v2")(memory), kSuccess);
  mlx5dv_devx_uar* const page = make_page();
  ASSERT_NE(page, nullptr);
  ASSERT_EQ(add(page->reg_addr, kShared | kHostIoMemory), kSuccess);
  EXPECT_EQ(fake_.host_flags, 0u) << "the driver was asked";
  DeviceAddress there = 0;
  EXPECT_EQ(ask(&there, page->reg_addr), kSuccess);
  EXPECT_EQ(there, reinterpret_cast<DeviceAddress>(page->reg_addr));
  EXPECT_EQ(remove(page->reg_addr), kSuccess);
  free_page(page);
}

TEST_P(Doorbells, AreAllThatTheDriverIsNotAskedAbout) {
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(add(page, kShared | kHostIoMemory), kSuccess);
  EXPECT_EQ(add(page, kShared), kSuccess);
  DeviceAddress there = 0;
  EXPECT_EQ(ask(&there, page), kSuccess);
  EXPECT_EQ(remove(page), kSuccess);
  munmap(page, 4096);
}

/// What verbs answer on the engine on a GPU.
class OnAGpu : public Doorbells {
 protected:
  OnAGpu() {
    find<Result(DeviceAddress*, size_t)>("cuMemAlloc_v2")(&memory_, 1 << 16);
    region_ = register_on_gpu(memory_);
    EXPECT_NE(region_, nullptr);
  }
  ~OnAGpu() override {
    EXPECT_EQ(verbs<int(ibv_mr*)>("ibv_dereg_mr")(region_), 0);
    EXPECT_EQ(find<Result(DeviceAddress)>("cuMemFree_v2")(memory_), kSuccess);
  }

  DeviceAddress memory_ = 0;
  ibv_mr* region_ = nullptr;
};

// For SRQs and DC targets to name; what completes cannot name it.
TEST_P(OnAGpu, ACompletionQueueOfVerbsIsANumber) {
  ibv_cq* const cq = make_cq();
  ASSERT_NE(cq, nullptr);
  ibv_wc completion = {};
  EXPECT_EQ(ibv_poll_cq(cq, 1, &completion), 0);
  ibv_qp_init_attr wish = wanted(cq);
  EXPECT_EQ((verbs<ibv_qp*(ibv_pd*, ibv_qp_init_attr*)>("ibv_create_qp")(pd_, &wish)), nullptr);
  EXPECT_EQ(verbs<int(ibv_cq*)>("ibv_destroy_cq")(cq), 0);
}

// A client may make a CQ before it has any memory: its number is no other queue's afterwards.
TEST_P(Doorbells, OfAGpuComeAfterCompletionQueues) {
  ibv_cq* const before = make_cq();
  ASSERT_NE(before, nullptr);
  DeviceAddress memory = 0;
  ASSERT_EQ(find<Result(DeviceAddress*, size_t)>("cuMemAlloc_v2")(&memory, 1 << 16), kSuccess);
  ibv_mr* const region = register_on_gpu(memory);
  ASSERT_NE(region, nullptr);
  ibv_cq* const after = make_cq();
  ASSERT_NE(after, nullptr);
  EXPECT_NE(before->handle, after->handle);
  EXPECT_EQ(verbs<int(ibv_cq*)>("ibv_destroy_cq")(before), 0);
  EXPECT_EQ(verbs<int(ibv_cq*)>("ibv_destroy_cq")(after), 0);
  EXPECT_EQ(verbs<int(ibv_mr*)>("ibv_dereg_mr")(region), 0);
  EXPECT_EQ(find<Result(DeviceAddress)>("cuMemFree_v2")(memory), kSuccess);
}

// The queue pair lies in the host's memory: the NIC stays on the CPU, and takes the memory as data.
TEST_P(Doorbells, OfAGpuDoNotComeAfterQueuePairs) {
  ibv_cq* const cq = make_cq();
  ASSERT_NE(cq, nullptr);
  ibv_qp_init_attr wish = wanted(cq);
  ibv_qp* const qp = verbs<ibv_qp*(ibv_pd*, ibv_qp_init_attr*)>("ibv_create_qp")(pd_, &wish);
  ASSERT_NE(qp, nullptr);
  DeviceAddress memory = 0;
  ASSERT_EQ(find<Result(DeviceAddress*, size_t)>("cuMemAlloc_v2")(&memory, 1 << 16), kSuccess);
  ibv_mr* const region = register_on_gpu(memory);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(verbs<int(ibv_mr*)>("ibv_dereg_mr")(region), 0);
  EXPECT_EQ(verbs<int(ibv_qp*)>("ibv_destroy_qp")(qp), 0);
  EXPECT_EQ(verbs<int(ibv_cq*)>("ibv_destroy_cq")(cq), 0);
  EXPECT_EQ(find<Result(DeviceAddress)>("cuMemFree_v2")(memory), kSuccess);
}

TEST_P(OnAGpu, AFaultPlanIsTakenAndAWrongOneRefused) {
  char why[256] = {};
  auto* const inject = verbs<int(const char*, char*, size_t)>("peal_softnic_inject");
  EXPECT_EQ(inject("wqe=1 fault=stall", why, sizeof why), 0) << why;
  EXPECT_EQ(inject("wqe=1 fault=nonsense", why, sizeof why), EINVAL);
  EXPECT_NE(std::string(why).find("nonsense"), std::string::npos) << why;
  EXPECT_EQ(verbs<int()>("peal_softnic_clear_faults")(), 0);
}

const char* name_of(const testing::TestParamInfo<Way>& way) {
  if (way.param == Way::kLinked) return "linked";
  return way.param == Way::kDlsym ? "dlsym" : "cuGetProcAddress";
}

INSTANTIATE_TEST_SUITE_P(By, OnAGpu, testing::Values(Way::kDlsym));
INSTANTIATE_TEST_SUITE_P(By, Doorbells,
                         testing::Values(Way::kDlsym, Way::kGetProcAddress, Way::kLinked), name_of);

}  // namespace

int main(int argc, char** argv) {
  const auto path = [&](int index) { return std::filesystem::absolute(argv[index]).string(); };
  if (argc < 4) return 2;
  if (getenv("PEAL_TEST_PRELOADED") == nullptr) {
    setenv("PEAL_TEST_PRELOADED", "1", 1);
    setenv("LD_PRELOAD", path(1).c_str(), 1);
    // AddressSanitizer wants to be the first library, and that is the preload.
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
    execv("/proc/self/exe", argv);
    return 2;
  }
  softnic_path() = path(2);
  setenv("PEAL_SOFTNIC_ENGINE_PROGRAM", path(3).c_str(), 1);
  setenv("PEAL_SOFTNIC_FABRIC", ("softnic_sysfs_test-" + std::to_string(getpid())).c_str(), 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

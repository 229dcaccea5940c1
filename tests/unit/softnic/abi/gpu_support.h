// SPDX-License-Identifier: Apache-2.0
//
// Memory of a GPU for tests of the software NIC's C interface, by a CUDA driver whose GPUs' memory
// is the host's: a test reads and writes it, and to the NIC it is a GPU's.
#pragma once

#include <dlfcn.h>
#include <endian.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "tests/support/fake_cuda.h"

namespace peal::softnic::abi_test {

/// The driver, with GPU 0 current in the thread that first asked for it.
class FakeGpu {
 public:
  static FakeGpu& get() {
    static FakeGpu gpu;
    return gpu;
  }
  /// Zeroed pages. Throws std::bad_alloc.
  uint8_t* allocate(size_t bytes) {
    unsigned long long address = 0;
    if (allocate_(&address, bytes) != 0) throw std::bad_alloc();
    auto* const memory = reinterpret_cast<uint8_t*>(address);
    std::memset(memory, 0, bytes);
    return memory;
  }
  void release(void* memory) { release_(reinterpret_cast<unsigned long long>(memory)); }

  FakeCuda& state = load_fake_cuda();

 private:
  template <class F>
  static F* function(const char* name) {
    return reinterpret_cast<F*>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), name));
  }
  FakeGpu() {
    void* context = nullptr;
    function<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, 0);
    function<int(void*)>("cuCtxSetCurrent")(context);
  }

  int (*allocate_)(unsigned long long*,
                   size_t) = function<int(unsigned long long*, size_t)>("cuMemAlloc_v2");
  int (*release_)(unsigned long long) = function<int(unsigned long long)>("cuMemFree_v2");
};

/// Pages of the host or of the GPU, freed as what they are.
struct FreeMemory {
  void operator()(uint8_t* memory) const {
    if (gpu) {
      FakeGpu::get().release(memory);
    } else {
      std::free(memory);
    }
  }
  bool gpu = false;
};
using Pages = std::unique_ptr<uint8_t, FreeMemory>;

/// A power of two of bytes on the CPU is aligned to itself, so that no multiple of 2 GiB lies in
/// it: an indirect key of one entry ends there.
inline Pages make_pages(size_t bytes, bool gpu = false) {
  constexpr size_t kPage = 4096;
  if (gpu) return Pages(FakeGpu::get().allocate(bytes), {.gpu = true});
  const size_t alignment = std::has_single_bit(bytes) ? std::max(bytes, kPage) : kPage;
  auto* memory = static_cast<uint8_t*>(std::aligned_alloc(alignment, bytes));
  std::memset(memory, 0, bytes);
  return Pages(memory);
}

/// The last 8 bytes of a CQE, which the NIC stores in one piece behind all others.
class LastOfCqe {
 public:
  explicit LastOfCqe(const uint8_t* cqe)
      : word_(be64toh(
            __atomic_load_n(reinterpret_cast<const uint64_t*>(cqe + 56), __ATOMIC_ACQUIRE))) {}
  uint8_t opcode() const { return word_ >> 4 & 0xf; }
  uint8_t owner() const { return word_ & 1; }
  uint16_t counter() const { return static_cast<uint16_t>(word_ >> 16); }

 private:
  uint64_t word_;
};

/// A setting, while this lives.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Setting() {
    if (before_.empty()) {
      unsetenv(name_);
    } else {
      setenv(name_, before_.c_str(), 1);
    }
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
  std::string before_;
};

/// Where the umem of a test lies: set by tests/support/gpu_memory.sh.
inline bool queues_in_gpu() {
  const char* const set = std::getenv("PEAL_TEST_QUEUES");
  return set != nullptr && std::string_view(set) == "gpu";
}

}  // namespace peal::softnic::abi_test

// SPDX-License-Identifier: Apache-2.0
#include "softnic/gpu/copier_cuda.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>

#include "softnic/gpu/cuda_library.h"
#include "softnic/gpu/exporter.h"

namespace peal::softnic::gpu {
namespace {

constexpr unsigned kNonBlocking = 1;   // CU_STREAM_NON_BLOCKING
constexpr int kRelaxedCapture = 2;     // CU_STREAM_CAPTURE_MODE_RELAXED
constexpr DriverResult kNoDriver = 4;  // CUDA_ERROR_DEINITIALIZED: the process ends

struct CopyDriver {
  Library library;
  DriverResult (*retain_context)(void**, int) = library["cuDevicePrimaryCtxRetain"];
  DriverResult (*release_context)(int) = library["cuDevicePrimaryCtxRelease_v2"];
  DriverResult (*push_context)(void*) = library["cuCtxPushCurrent_v2"];
  DriverResult (*pop_context)(void**) = library["cuCtxPopCurrent_v2"];
  DriverResult (*create_stream)(void**, unsigned) = library["cuStreamCreate"];
  DriverResult (*destroy_stream)(void*) = library["cuStreamDestroy_v2"];
  DriverResult (*wait)(void*) = library["cuStreamSynchronize"];
  DriverResult (*to_gpu)(DevicePointer, const void*, size_t,
                         void*) = library["cuMemcpyHtoDAsync_v2"];
  DriverResult (*from_gpu)(void*, DevicePointer, size_t, void*) = library["cuMemcpyDtoHAsync_v2"];
  DriverResult (*within_gpus)(DevicePointer, DevicePointer, size_t,
                              void*) = library["cuMemcpyDtoDAsync_v2"];
  DriverResult (*capture_mode)(int*) = library["cuThreadExchangeStreamCaptureMode"];
  DriverResult (*error_string)(DriverResult, const char**) = library["cuGetErrorString"];
};

class CudaCopier : public GpuCopier {
 public:
  explicit CudaCopier(int device) : device_(device) {
    if (!driver_.library.complete()) throw ExportError("libcuda.so.1 lacks calls for copies");
    require(driver_.retain_context(&context_, device_), "cuDevicePrimaryCtxRetain");
    const DriverResult made = within([&] { return driver_.create_stream(&stream_, kNonBlocking); });
    if (made != kSuccess) driver_.release_context(device_);
    require(made, "cuStreamCreate");
  }
  ~CudaCopier() override {
    if (getpid() != owner_) return;  // a child of fork(), whose driver may be locked for ever
    within([&] { return driver_.destroy_stream(stream_); });
    driver_.release_context(device_);
  }

  void copy(void* to, const void* from, size_t bytes, bool more) override {
    if (bytes == 0 || getpid() != owner_) return;  // in a child: see the destructor
    const DriverResult result = within([&] {
      // A graph that another thread captures is none of this one's affair.
      int mode = kRelaxedCapture;
      driver_.capture_mode(&mode);
      const DriverResult given = enqueue(to, from, bytes);
      const DriverResult done = given == kSuccess && !more ? driver_.wait(stream_) : given;
      driver_.capture_mode(&mode);
      return done;
    });
    if (result == kSuccess || result == kNoDriver || told_.exchange(true)) return;
    std::fprintf(stderr,
                 "softnic: a copy of %zu bytes of a GPU's memory failed (%s): what is sent from "
                 "there and written there is lost, and of queues there entries, completions and "
                 "doorbells\n",
                 bytes, text_of(result));
  }

 private:
  /// By the call that says which side is a GPU's: of memory that is no longer there the driver
  /// would have to guess, and may take it for the host's.
  DriverResult enqueue(void* to, const void* from, size_t bytes) const {
    std::byte* const target = without_mark(to);
    std::byte* const source = without_mark(from);
    if (!in_gpu(from)) return driver_.to_gpu(device_pointer(target), source, bytes, stream_);
    if (!in_gpu(to)) return driver_.from_gpu(target, device_pointer(source), bytes, stream_);
    return driver_.within_gpus(device_pointer(target), device_pointer(source), bytes, stream_);
  }
  template <class Body>
  DriverResult within(const Body& body) const {
    const DriverResult entered = driver_.push_context(context_);
    if (entered != kSuccess) return entered;
    const DriverResult result = body();
    void* left = nullptr;
    driver_.pop_context(&left);
    return result;
  }
  const char* text_of(DriverResult result) const {
    const char* text = nullptr;
    driver_.error_string(result, &text);
    return text == nullptr ? "unknown error" : text;
  }
  void require(DriverResult result, const char* call) const {
    if (result == kSuccess) return;
    throw ExportError(std::string(call) + " for copies of a GPU's memory: " + text_of(result));
  }

  CopyDriver driver_;
  const int device_;
  void* context_ = nullptr;
  void* stream_ = nullptr;
  const pid_t owner_ = getpid();
  std::atomic<bool> told_ = false;  // by the engine of any NIC
};

}  // namespace

std::unique_ptr<GpuCopier> make_cuda_copier(int device) {
  return std::make_unique<CudaCopier>(device);
}

}  // namespace peal::softnic::gpu

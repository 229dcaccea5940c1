// SPDX-License-Identifier: Apache-2.0

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/library.h"
#include "base/search.h"
#include "host/base/error.h"
#include "host/stream/executor.h"
#include "host/stream/host_work.h"
#include "kernels/table.h"

namespace peal {
namespace {

constexpr uint32_t kThreadsOnGpu = 512;
constexpr uint64_t kWarp = 32;

cuda::StreamHandle handle(void* stream) { return static_cast<cuda::StreamHandle>(stream); }

constexpr int kParents = 5;
constexpr std::array kFiles = {"kernels/libpeal_kernels.so", "libpeal_kernels.so"};

std::string find_file() {
  const std::filesystem::path start = search_start();
  const std::filesystem::path found = find_above(start, kParents, kFiles);
  if (!found.empty()) return found;
  fail(ErrorCode::kUnsupported,
       "calls on streams and from the host need kernels: no {} in {} or up to {} folders above: "
       "an installation has it in peal/ beside libpeal.so, where tools/install puts it (peal's "
       "workspace builds //kernels:libpeal_kernels.so); or set PEAL_KERNELS",
       kFiles[0], start.string(), kParents);
}

// An image for cuModuleLoadData, by Kernel::image, out of libpeal_kernels.so, which is large, so
// that only programs with a GPU load it: `path`, or where that is empty the one in kernels/ beside
// the program or in a folder above. Throws kUnsupported with the remedy where there is none, or
// where it was built without nvcc.
const void* kernel_image(const std::string& path, std::string_view name) {
  const std::string file = path.empty() ? find_file() : path;
  void* const library = load_library(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(ErrorCode::kUnsupported, "PEAL_KERNELS: dlopen({}): {}", file, ::dlerror());
  }
  using Images = const kernels::Image* (*)(size_t*);
  const auto images = reinterpret_cast<Images>(::dlsym(library, "peal_kernel_images"));
  if (images == nullptr) {
    fail(ErrorCode::kUnsupported, "PEAL_KERNELS: {} is not peal's: it has no peal_kernel_images",
         file);
  }
  size_t count = 0;
  const kernels::Image* const all = images(&count);
  for (size_t i = 0; i < count; ++i) {
    if (all[i].name == name) return all[i].begin;
  }
  fail(
      ErrorCode::kUnsupported,
      "{} has no kernels for GPUs, which calls on streams and from the host launch: build it where "
      "nvcc is",
      file);
}

class GpuMark : public StreamMark {
 public:
  GpuMark(std::shared_ptr<Gpu> gpu, void* stream) : gpu_(std::move(gpu)) {
    gpu_->call("cuEventCreate", &cuda::Driver::create_event, &event_, cuda::kEventDisableTiming);
    gpu_->call("cuEventRecord", &cuda::Driver::record_event, event_, handle(stream));
  }
  ~GpuMark() override {
    gpu_->release([&](const cuda::Driver& driver) { driver.destroy_event(event_); });
  }
  bool reached() const override {
    return gpu_->within([&](const cuda::Driver& driver) {
      const cuda::Result result = driver.query_event(event_);
      if (result == cuda::kNotReady) return false;
      gpu_->check(result, "cuEventQuery");
      return true;
    });
  }
  void wait() const override {
    gpu_->call("cuEventSynchronize", &cuda::Driver::sync_event, event_);
  }

 private:
  std::shared_ptr<Gpu> gpu_;
  cuda::EventHandle event_ = nullptr;
};

// The mark of a stream that has done all it was given.
class PassedMark : public StreamMark {
 public:
  bool reached() const override { return true; }
  void wait() const override {}
};

class GpuExecutor : public Executor {
 public:
  GpuExecutor(std::shared_ptr<Gpu> gpu, std::string kernels, uint32_t most_blocks)
      : gpu_(std::move(gpu)),
        kernels_(std::move(kernels)),
        most_blocks_(most_blocks),
        host_work_(gpu_) {}
  ~GpuExecutor() override {
    gpu_->release([&](const cuda::Driver& driver) {
      for (const auto& [name, module] : modules_) driver.unload_module(module);
      if (own_ != nullptr) driver.destroy_stream(own_);
    });
  }

  GridShape shape_for(uint64_t bytes, uint32_t each, uint32_t blocks) const override {
    const uint64_t warps = std::max<uint64_t>((bytes + each * kWarp - 1) / (each * kWarp), 1);
    const uint64_t wanted = (warps * kWarp + kThreadsOnGpu - 1) / kThreadsOnGpu;
    if (wanted == 1) return {1, static_cast<uint32_t>(warps * kWarp)};
    return {static_cast<uint32_t>(std::min<uint64_t>(wanted, std::min(blocks, most_blocks_))),
            kThreadsOnGpu};
  }

  bool shares_host_memory() const override { return false; }

  void launch(const kernels::Kernel& kernel, const GridShape& shape, const void* arguments, size_t,
              void* stream) override {
    cuda::FunctionHandle function = function_of(kernel);
    void* parameters[] = {const_cast<void*>(arguments)};
    gpu_->within([&](const cuda::Driver& driver) {
      gpu_->check(launch_on(driver, function, shape, handle(stream), parameters),
                  std::string("cuLaunchKernel(") + kernel.name + ")");
    });
  }

  void copy(void* to, const void* from, size_t bytes, void* stream) override {
    gpu_->call("cuMemcpyAsync", &cuda::Driver::copy, device_address(to), device_address(from),
               bytes, handle(stream));
  }

  bool store_word(uint64_t* word, uint64_t value, void* stream) override {
    return gpu_->within([&](const cuda::Driver& driver) {
      const cuda::Result result =
          driver.write_value(handle(stream), device_address(word), value, 0);
      if (result == cuda::kNotSupported) return false;
      gpu_->check(result, "cuStreamWriteValue64");
      return true;
    });
  }

  void host_work(HostTask task, void* stream) override {
    host_work_.add(std::move(task), stream, [&] { return mark(stream); });
  }

  bool capturing(void* stream) const override {
    int status = cuda::kCaptureNone;
    gpu_->call("cuStreamIsCapturing", &cuda::Driver::is_capturing, handle(stream), &status);
    return status != cuda::kCaptureNone;
  }

  bool idle(void* own) const override {
    return gpu_->within([&](const cuda::Driver& driver) {
      return driver.query_stream && driver.query_stream(handle(own)) == cuda::kSuccess;
    });
  }

  // The GPU's work as a whole, as cudaDeviceSynchronize has it.
  void finish() override {
    gpu_->within([&](const cuda::Driver& driver) { static_cast<void>(driver.sync_context()); });
  }

  // Others' streams may be captured, and then must not be asked.
  std::unique_ptr<StreamMark> mark(void* stream) override {
    if (is_own(stream) && idle(stream)) return std::make_unique<PassedMark>();
    return std::make_unique<GpuMark>(gpu_, stream);
  }

  void* own_stream() override {
    const std::lock_guard lock(mutex_);
    if (own_ == nullptr) {
      gpu_->call("cuStreamCreate", &cuda::Driver::create_stream, &own_, cuda::kStreamNonBlocking);
    }
    return own_;
  }

 private:
  // Behind a kernel the next one is brought to its multiprocessors while that one still runs: it
  // waits there for its end (kernels/entry.h). Not in graphs, which older drivers refuse it in.
  static cuda::Result launch_on(const cuda::Driver& driver, cuda::FunctionHandle function,
                                const GridShape& shape, cuda::StreamHandle stream,
                                void** parameters) {
    int capture = cuda::kCaptureNone;
    if (driver.launch_with == nullptr || driver.is_capturing(stream, &capture) != cuda::kSuccess ||
        capture != cuda::kCaptureNone) {
      return driver.launch(function, shape.blocks, 1, 1, shape.threads, 1, 1, 0, stream, parameters,
                           nullptr);
    }
    cuda::LaunchAttribute early{.id = cuda::kLaunchProgrammatic, .bytes = {}};
    early.number = 1;
    const cuda::LaunchConfig config{.blocks = {shape.blocks, 1, 1},
                                    .threads = {shape.threads, 1, 1},
                                    .shared_bytes = 0,
                                    .stream = stream,
                                    .attributes = &early,
                                    .attribute_count = 1};
    return driver.launch_with(&config, function, parameters, nullptr);
  }

  bool is_own(void* stream) const {
    const std::lock_guard lock(mutex_);
    return own_ != nullptr && stream == own_;
  }

  cuda::FunctionHandle function_of(const kernels::Kernel& kernel) {
    const std::lock_guard lock(mutex_);
    cuda::FunctionHandle& function = functions_[kernel.name];
    if (function != nullptr) return function;
    gpu_->call(std::string("cuModuleGetFunction(") + kernel.name + ")",
               &cuda::Driver::find_function, &function, module_of(kernel), kernel.name);
    return function;
  }

  cuda::ModuleHandle module_of(const kernels::Kernel& kernel) {
    cuda::ModuleHandle& module = modules_[kernel.image];
    if (module != nullptr) return module;
    gpu_->call("cuModuleLoadData", &cuda::Driver::load_module, &module,
               kernel_image(kernels_, kernel.image));
    return module;
  }

  std::shared_ptr<Gpu> gpu_;
  const std::string kernels_;
  const uint32_t most_blocks_;
  mutable std::mutex mutex_;                                    // guards what follows
  std::map<std::string_view, cuda::ModuleHandle> modules_;      // by image
  std::map<std::string_view, cuda::FunctionHandle> functions_;  // by name
  cuda::StreamHandle own_ = nullptr;
  HostWork host_work_;  // ends first
};

}  // namespace

std::unique_ptr<Executor> make_gpu_executor(std::shared_ptr<Gpu> gpu, const std::string& kernels,
                                            uint32_t most_blocks) {
  return std::make_unique<GpuExecutor>(std::move(gpu), kernels, most_blocks);
}

}  // namespace peal

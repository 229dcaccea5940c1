// SPDX-License-Identifier: Apache-2.0
//
// An engine runner on a GPU: PEs' memory mapped by CUDA IPC, tables copied to the GPU before each
// launch of the kernel and what has changed copied back after it.
//
//   start: tables up, launch        stop: order, wait, states and counts down
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/patience.h"
#include "softnic/engine/faults.h"
#include "softnic/gpu/engine_runner.h"
#include "softnic/gpu/kernel.h"

namespace peal::softnic::gpu {

namespace {

constexpr uint32_t kLids = 1025;
constexpr uint64_t kPatienceNs = 2'000'000'000;    // of the kernel, without a beat
constexpr std::chrono::seconds kStopPatience{20};  // of the host, for a kernel told to stop
/// What changes in a queue pair while the kernel runs: all but its window, which only requests that
/// can be lost use.
size_t moved_bytes(const Port& port) {
  return sizeof(QueuePair) - (port.faults == nullptr ? sizeof(Sender::window) : 0);
}

[[noreturn]] void fail(const char* call, const char* cause) {
  throw EngineRunnerError(std::string(call) + ": " + cause);
}

void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) fail(call, cudaGetErrorString(error));
}

/// A function of the driver, found through the runtime: nothing links libcuda.
template <class F>
F* driver_function(const char* name) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found;
  check(cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &found), name);
  if (found != cudaDriverEntryPointSuccess) fail(name, "not in this driver");
  return reinterpret_cast<F*>(address);
}

void check_driver(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  driver_function<decltype(cuGetErrorString)>("cuGetErrorString")(result, &text);
  fail(call, text == nullptr ? "unknown error" : text);
}

/// Memory of the GPU, zeroed, that grows by being replaced.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  ~DeviceBuffer() { cudaFree(memory_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void reserve(size_t bytes) {
    if (bytes <= bytes_) return;
    cudaFree(memory_);
    memory_ = nullptr;
    bytes_ = 2 * bytes;
    check(cudaMalloc(&memory_, bytes_), "cudaMalloc");
    check(cudaMemset(memory_, 0, bytes_), "cudaMemset");
    // Copies follow on a stream that does not wait for this one.
    check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

/// The GPU's copy of one port and its tables.
class PortCopy {
 public:
  Port* device() const { return port_.as<Port>(); }

  /// The tables as they are, with pointers that the kernel can follow.
  void upload(const Port& port, cudaStream_t stream) {
    port_.reserve(sizeof(Port));
    keys_.reserve(sizeof(Key) * (port.key_count + 1));
    cqs_.reserve(sizeof(CompletionQueue) * (port.cq_count + 1));
    qps_.reserve(sizeof(QueuePair) * (port.qp_count + 1));
    up(keys_, port.keys, sizeof(Key) * port.key_count, stream);
    up(cqs_, port.cqs, sizeof(CompletionQueue) * port.cq_count, stream);
    check(cudaMemcpy2DAsync(qps_.as<QueuePair>(), sizeof(QueuePair), port.qps, sizeof(QueuePair),
                            moved_bytes(port), port.qp_count, cudaMemcpyHostToDevice, stream),
          "cudaMemcpy2DAsync");
    Port copy = port;
    copy.keys = keys_.as<Key>();
    copy.cqs = cqs_.as<CompletionQueue>();
    copy.qps = qps_.as<QueuePair>();
    copy.srqs = nullptr;  // all of them empty
    copy.srq_count = 0;
    copy.dc_connections = nullptr;
    copy.dc_connection_count = 0;
    if (port.faults != nullptr) upload_lossy(port, &copy, stream);
    up(port_, &copy, sizeof(copy), stream);
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }

  void download(Port& port, cudaStream_t stream) const {
    Port copy;
    down(&copy, port_, sizeof(copy), stream);
    down(port.cqs, cqs_, sizeof(CompletionQueue) * port.cq_count, stream);
    check(cudaMemcpy2DAsync(port.qps, sizeof(QueuePair), qps_.as<QueuePair>(), sizeof(QueuePair),
                            moved_bytes(port), port.qp_count, cudaMemcpyDeviceToHost, stream),
          "cudaMemcpy2DAsync");
    if (port.faults != nullptr) download_lossy(port, stream);
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    port.events = copy.events;
    port.violations = copy.violations;
    port.dc_epochs = copy.dc_epochs;
  }

  /// Appends what there is to serve.
  void list_work(const Port& port, std::vector<Assignment>* work) const {
    for (uint32_t i = 0; i < port.qp_count; ++i) {
      if (needs_service(port.qps[i])) work->push_back({device(), qps_.as<QueuePair>() + i});
    }
  }

 private:
  /// What only requests that can be lost need: the plan, and what DC targets remember.
  void upload_lossy(const Port& port, Port* copy, cudaStream_t stream) {
    faults_.reserve(sizeof(Faults));
    up(faults_, port.faults, sizeof(Faults), stream);
    copy->faults = faults_.as<Faults>();
    if (!has_targets(port)) return;
    const size_t bytes = sizeof(DcConnection) * port.dc_connection_count;
    connections_.reserve(bytes);
    up(connections_, port.dc_connections, bytes, stream);
    copy->dc_connections = connections_.as<DcConnection>();
    copy->dc_connection_count = port.dc_connection_count;
  }
  void download_lossy(Port& port, cudaStream_t stream) const {
    down(port.faults, faults_, sizeof(Faults), stream);
    if (!has_targets(port)) return;
    down(port.dc_connections, connections_, sizeof(DcConnection) * port.dc_connection_count,
         stream);
  }
  static bool has_targets(const Port& port) {
    return std::any_of(port.qps, port.qps + port.qp_count, [](const QueuePair& qp) {
      return qp.exists && qp.service == Service::kDcTarget;
    });
  }

  static void down(void* to, const DeviceBuffer& from, size_t bytes, cudaStream_t stream) {
    check(cudaMemcpyAsync(to, from.as<void>(), bytes, cudaMemcpyDeviceToHost, stream),
          "cudaMemcpyAsync");
  }
  static void up(const DeviceBuffer& to, const void* from, size_t bytes, cudaStream_t stream) {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to.as<void>(), from, bytes, cudaMemcpyHostToDevice, stream),
          "cudaMemcpyAsync");
  }

  DeviceBuffer port_, keys_, cqs_, qps_, faults_, connections_;
};

/// Number of the GPU of that identity.
int find_gpu(const GpuId& gpu) {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, i), "cudaGetDeviceProperties");
    if (std::memcmp(properties.uuid.bytes, gpu.byte, sizeof(gpu.byte)) == 0) return i;
  }
  fail("the GPU engine", "its process does not see the GPU that a PE named");
}

class CudaEngineRunner : public EngineRunner {
 public:
  explicit CudaEngineRunner(const GpuId& gpu) : gpu_(find_gpu(gpu)) {
    check(cudaSetDevice(gpu_), "cudaSetDevice");
    check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, gpu_),
          "cudaDeviceGetAttribute");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaHostAlloc(&watch_, sizeof(Watch), cudaHostAllocPortable | cudaHostAllocMapped),
          "cudaHostAlloc");
    *watch_ = {};
    order_.reserve(sizeof(uint32_t));
    board_.reserve(sizeof(CopyBoard));
  }
  ~CudaEngineRunner() override {
    try {
      stop();
    } catch (const EngineRunnerError&) {
      // The process ends next, and the driver with it what still runs.
    }
    cudaFreeHost(watch_);
    cudaStreamDestroy(stream_);
  }

  std::byte* map(std::span<const ProcessMemory> extents, std::span<const Fd> descriptors) override {
    const bool whole = extents.front().kind == ProcessMemory::Kind::kIpcHandle;
    std::byte* memory = whole ? open_handle(extents.front()) : import(extents, descriptors);
    cudaPointerAttributes attributes = {};
    check(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
    shared_ = shared_ || attributes.device == gpu_;
    return memory;
  }

  void unmap(std::span<const ProcessMemory> extents, std::byte* memory) override {
    // Failures leave a mapping behind that nothing uses any more.
    if (extents.front().kind == ProcessMemory::Kind::kIpcHandle) {
      cudaIpcCloseMemHandle(memory);
      return;
    }
    const auto begin = reinterpret_cast<CUdeviceptr>(memory);
    CUdeviceptr at = begin;
    for (const ProcessMemory& extent : extents) {
      driver_function<decltype(cuMemUnmap)>("cuMemUnmap")(at, extent.bytes);
      at += extent.bytes;
    }
    driver_function<decltype(cuMemAddressFree)>("cuMemAddressFree")(begin, at - begin);
  }

  void start(std::span<Port* const> ports) override {
    ports_.assign(ports.begin(), ports.end());
    std::vector<Port*> by_lid(kLids, nullptr);
    std::vector<Assignment> work;
    std::erase_if(copies_, [&](const auto& copy) {
      return std::find(ports_.begin(), ports_.end(), copy.first) == ports_.end();
    });
    for (Port* port : ports_) {
      PortCopy& copy = copies_[port];
      copy.upload(*port, stream_);
      copy.list_work(*port, &work);
      by_lid[port->lid] = copy.device();
    }
    if (work.empty()) return;
    const size_t table_bytes = sizeof(Port*) * kLids;
    lists_.reserve(table_bytes + sizeof(Assignment) * work.size());
    auto* assignments = reinterpret_cast<Assignment*>(lists_.as<std::byte>() + table_bytes);
    check(cudaMemcpy(lists_.as<void>(), by_lid.data(), table_bytes, cudaMemcpyHostToDevice),
          "cudaMemcpy");
    check(cudaMemcpy(assignments, work.data(), sizeof(Assignment) * work.size(),
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
    check(cudaMemset(order_.as<void>(), 0, sizeof(uint32_t)), "cudaMemset");
    check(cudaMemset(board_.as<void>(), 0, sizeof(CopyBoard)), "cudaMemset");
    check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
    word(watch_->stop).store(0);
    word(watch_->attention).store(0);
    const char* error = launch_engine({.ports = lists_.as<Port*>(),
                                       .lids = kLids,
                                       .work_count = static_cast<uint32_t>(work.size()),
                                       .work = assignments,
                                       .watch = watch_,
                                       .order = order_.as<uint32_t>(),
                                       .board = board_.as<CopyBoard>(),
                                       .patience_ns = kPatienceNs,
                                       .lossy = ports_.front()->faults != nullptr},
                                      most_blocks(), stream_);
    if (error != nullptr) fail("launch of the engine", error);
    running_ = true;
  }

  void stop() override {
    if (!running_) return;
    running_ = false;
    word(watch_->stop).store(1);
    const auto stopped = [this] {
      const cudaError_t state = cudaStreamQuery(stream_);
      if (state == cudaSuccess) return true;
      if (state != cudaErrorNotReady) fail("the engine's kernel", cudaGetErrorString(state));
      return false;
    };
    if (!wait_until(stopped, std::chrono::steady_clock::now() + kStopPatience)) {
      fail("the engine's kernel", "does not stop");
    }
    for (Port* port : ports_) copies_[port].download(*port, stream_);
  }

  bool running() const override { return running_; }

  bool beat() override {
    word(watch_->beat).fetch_add(1);
    const cudaError_t state = cudaStreamQuery(stream_);
    if (state == cudaErrorNotReady) return word(watch_->attention).load() != 0;
    if (state == cudaSuccess) return true;  // it missed beats, and may start again
    running_ = false;
    fail("the engine's kernel", cudaGetErrorString(state));
  }

 private:
  /// Blocks to launch, two of which fill a multiprocessor. On a GPU on which PEs run their kernels
  /// too few enough that those find room beside it, and small enough that it finds room beside
  /// them.
  uint32_t most_blocks() const {
    const auto all = static_cast<uint32_t>(multiprocessors_);
    if (!shared_) return 2 * all;
    return all >= 4 ? all / 4 : 1;
  }

  static std::atomic_ref<uint32_t> word(uint32_t& at) { return std::atomic_ref<uint32_t>(at); }

  static std::byte* open_handle(const ProcessMemory& extent) {
    cudaIpcMemHandle_t handle;
    static_assert(sizeof(handle) == sizeof(extent.handle));
    std::memcpy(&handle, extent.handle, sizeof(handle));
    void* memory = nullptr;
    check(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess),
          "cudaIpcOpenMemHandle of a PE's memory (do the GPUs reach each other, and do PE and "
          "engine share a host and its IPC namespace?)");
    return static_cast<std::byte*>(memory);
  }

  std::byte* import(std::span<const ProcessMemory> extents, std::span<const Fd> descriptors) const {
    size_t bytes = 0;
    for (const ProcessMemory& extent : extents) bytes += extent.bytes;
    CUdeviceptr begin = 0;
    check_driver(driver_function<decltype(cuMemAddressReserve)>("cuMemAddressReserve")(
                     &begin, bytes, 0, 0, 0),
                 "cuMemAddressReserve");
    CUdeviceptr at = begin;
    for (size_t i = 0; i < extents.size(); ++i) {
      map_piece(at, extents[i], descriptors[i]);
      at += extents[i].bytes;
    }
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = gpu_;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    check_driver(
        driver_function<decltype(cuMemSetAccess)>("cuMemSetAccess")(begin, bytes, &access, 1),
        "cuMemSetAccess");
    return reinterpret_cast<std::byte*>(begin);
  }

  static void map_piece(CUdeviceptr at, const ProcessMemory& extent, const Fd& descriptor) {
    if (!descriptor) fail("import of a PE's memory", "no descriptor came with it");
    CUmemGenericAllocationHandle handle;
    check_driver(
        driver_function<decltype(cuMemImportFromShareableHandle)>("cuMemImportFromShareableHandle")(
            &handle, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor.get())),
            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        "cuMemImportFromShareableHandle");
    check_driver(driver_function<decltype(cuMemMap)>("cuMemMap")(at, extent.bytes, 0, handle, 0),
                 "cuMemMap");
    driver_function<decltype(cuMemRelease)>("cuMemRelease")(handle);  // the mapping keeps it
  }

  int gpu_;
  int multiprocessors_ = 0;
  cudaStream_t stream_ = nullptr;
  Watch* watch_ = nullptr;
  DeviceBuffer order_;
  DeviceBuffer board_;
  DeviceBuffer lists_;
  std::vector<Port*> ports_;
  std::map<Port*, PortCopy> copies_;
  bool running_ = false;
  bool shared_ = false;  // with PEs whose memory lies on this GPU
};

}  // namespace

std::unique_ptr<EngineRunner> make_engine_runner(const GpuId& gpu) {
  return std::make_unique<CudaEngineRunner>(gpu);
}

}  // namespace peal::softnic::gpu

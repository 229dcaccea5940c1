// SPDX-License-Identifier: Apache-2.0
//
// torch's interface of symmetric memory (torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp).
// Compiled against the torch that imports it (_extension.py).
//
//   alloc, free    here, without Python: torch's memory pool calls them under a lock of its own,
//   which a thread that holds
//                  the interpreter's lock may wait for, as one that drops a tensor does
//   rendezvous     _symmetric_memory.py, as are barrier and signals
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>
#include <utility>
#include <vector>

#include "arena.h"

namespace py = pybind11;
namespace symm = c10d::symmetric_memory;
using peal::arenas::Arena;
using peal::arenas::ArenaBlock;
using peal::arenas::Arenas;

namespace {

constexpr uint64_t kDefaultBytes = uint64_t{64}
                                   << 20;  // of an arena that nobody has reserved, on a CPU
constexpr uint64_t kDefaultBytesOfGpu = uint64_t{1} << 30;

// What becomes peal.Error and peal.ArgumentError.
struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct WrongArgument : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Whether threads may still take the interpreter's lock.
bool interpreter_lives() {
#if PY_VERSION_HEX >= 0x030D0000
  const bool ending = Py_IsFinalizing() != 0;
#else
  const bool ending = _Py_IsFinalizing() != 0;
#endif
  return Py_IsInitialized() != 0 && !ending && !symm::is_finalizing();
}

// A reference to an object of Python's that threads without the interpreter's lock may drop; at the
// interpreter's end nobody drops it.
std::shared_ptr<py::object> shared(py::object object) {
  return {new py::object(std::move(object)), [](py::object* held) {
            if (!interpreter_lives()) return;
            py::gil_scoped_acquire lock;
            delete held;
          }};
}

std::vector<void*> pointers(const py::object& object, const char* name) {
  std::vector<void*> found;
  for (const auto& one : object.attr(name).cast<std::vector<uint64_t>>())
    found.push_back(reinterpret_cast<void*>(one));
  return found;
}

at::Tensor on_device(const std::vector<void*>& pointers, c10::Device device) {
  at::Tensor numbers = at::empty({static_cast<int64_t>(pointers.size())}, at::kLong);
  for (size_t i = 0; i < pointers.size(); ++i)
    numbers[static_cast<int64_t>(i)] = reinterpret_cast<int64_t>(pointers[i]);
  return numbers.to(device);
}

// A Handle of _symmetric_memory.py, the memory that it is of, and that memory's signal pad. What
// never changes is copied out of the Handle once; tables on the device are made at once, since the
// first use may be in a graph's capture.
class Memory : public symm::SymmetricMemory {
 public:
  Memory(const py::object& handle, std::shared_ptr<ArenaBlock> block,
         std::shared_ptr<ArenaBlock> pad)
      : handle_(shared(handle)),
        block_(std::move(block)),
        pad_(std::move(pad)),
        buffers_(pointers(handle, "buffers")),
        pads_(pointers(handle, "pads")),
        bytes_(handle.attr("nbytes").cast<size_t>()),
        rank_(handle.attr("rank").cast<int>()),
        ranks_(handle.attr("ranks").cast<std::vector<int>>()),
        device_(handle.attr("device").cast<std::string>()),
        buffers_on_device_(on_device(buffers_, device_)),
        pads_on_device_(on_device(pads_, device_)),
        ranks_on_device_(at::tensor(ranks_, at::kInt).to(device_)) {}

  std::vector<void*> get_buffer_ptrs() override { return buffers_; }
  std::vector<void*> get_signal_pad_ptrs() override { return pads_; }
  void** get_buffer_ptrs_dev() override {
    return static_cast<void**>(buffers_on_device_.data_ptr());
  }
  void** get_signal_pad_ptrs_dev() override {
    return static_cast<void**>(pads_on_device_.data_ptr());
  }
  size_t get_buffer_size() override { return bytes_; }
  size_t get_offset() override { return 0; }  // buffers begin where the tensor does
  bool has_multicast_support() override { return false; }
  void* get_multicast_ptr() override { return nullptr; }
  int get_rank() override { return rank_; }
  int get_world_size() override { return static_cast<int>(ranks_.size()); }
  c10::Device get_device() override { return device_; }
  const std::vector<int>& get_rank_to_global_rank() override { return ranks_; }

  int* get_rank_to_global_rank_dev() override { return ranks_on_device_.data_ptr<int>(); }

  bool world_within_direct_access() override {
    return std::find(buffers_.begin(), buffers_.end(), nullptr) == buffers_.end();
  }

  void barrier(int channel, size_t timeout_ms) override { call("barrier", channel, timeout_ms); }
  void put_signal(int rank, int channel, size_t timeout_ms) override {
    call("put_signal", rank, channel, timeout_ms);
  }
  void wait_signal(int rank, int channel, size_t timeout_ms) override {
    call("wait_signal", rank, channel, timeout_ms);
  }

  // Nobody will call any more.
  void drop_blocks() {
    block_.reset();
    pad_.reset();
  }

 private:
  template <typename... Arguments>
  void call(const char* name, Arguments... arguments) {
    py::gil_scoped_acquire lock;
    handle_->attr(name)(arguments...);
  }

  std::shared_ptr<py::object> handle_;
  std::shared_ptr<ArenaBlock> block_, pad_;
  std::vector<void*> buffers_, pads_;
  size_t bytes_;
  int rank_;
  std::vector<int> ranks_;
  c10::Device device_;
  at::Tensor buffers_on_device_, pads_on_device_, ranks_on_device_;
};

// Memory and where it has met that of other PEs. No thread waits for the interpreter's lock while
// it holds `mutex_`.
class Allocator : public symm::SymmetricMemoryAllocator {
 public:
  // Of libpeal: peal_malloc and peal_error.
  struct Calls {
    void* (*allocate)(size_t);
    const char* (*error)();
  };

  // `meet`: rendezvous() of _symmetric_memory.py.
  Allocator(const py::object& meet, Calls calls) : meet_(shared(meet)), calls_(calls) {}

  // A part in a job has begun: on a CPU (-1), or a GPU whose primary context is given.
  void begin(int device, uint64_t context) {
    process_ = getpid();
    const std::lock_guard lock(mutex_);
    job_ = std::make_shared<Arenas>(device, reinterpret_cast<void*>(context));
  }
  void end() {
    const std::lock_guard growing(growing_);  // libpeal is in use
    const std::lock_guard lock(mutex_);
    job_ = nullptr;
  }

  void* alloc(size_t bytes, int device, const std::optional<std::string>& /*group*/) override {
    const auto job = this->job("SymmetricMemory.empty");
    if (job->device >= 0 && device != job->device)
      throw WrongArgument("peal.torch: symmetric memory of cuda:" + std::to_string(device) +
                          ", and this job's arrays are on cuda:" + std::to_string(job->device) +
                          "; call torch.cuda.set_device(peal.device()) before");
    const auto block = take(*job, bytes);
    const std::lock_guard lock(mutex_);
    auto& at = blocks_[block->address()];
    if (at) ++outlived_[block->address()];
    at = block;
    forget(block->address(), bytes);  // a tensor of a job that has ended may have lain there
    return reinterpret_cast<void*>(block->address());
  }

  void* alloc_here(size_t bytes) {
    return alloc(bytes, job("SymmetricMemory.empty")->device, std::nullopt);
  }

  void free(void* pointer) override {
    if (is_child()) return;
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(reinterpret_cast<uint64_t>(pointer));
    if (found == blocks_.end()) return;
    const auto outlived = outlived_.find(found->first);
    if (outlived !=
        outlived_.end()) {  // whichever of the two it is: the other one gives the memory back
      if (--outlived->second == 0) outlived_.erase(outlived);
      return;
    }
    forget(found->first, found->second->room);
    blocks_.erase(found);
  }

  size_t get_alloc_size(void* pointer) override {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(reinterpret_cast<uint64_t>(pointer));
    if (found == blocks_.end())
      throw Failed(
          "peal.torch: the pointer is of no symmetric memory; give a tensor of symm_mem.empty()");
    return found->second->bytes;
  }

  // Memory for what is no tensor.
  std::shared_ptr<ArenaBlock> take(uint64_t bytes) { return take(*job("SymmetricMemory"), bytes); }

  // The block of this job around an address; null where there is none.
  std::shared_ptr<ArenaBlock> around(uint64_t address) {
    const auto job = this->job("SymmetricMemory.rendezvous");
    const auto arenas = job->all();
    const std::lock_guard lock(mutex_);
    const auto behind = blocks_.upper_bound(address);
    if (behind == blocks_.begin()) return nullptr;
    const auto& found = std::prev(behind)->second;
    const bool ours = std::find(arenas.begin(), arenas.end(), found->arena) != arenas.end();
    return ours && address < found->address() + found->room ? found : nullptr;
  }

  std::shared_ptr<Arena> add(uint64_t base, uint64_t bytes) {
    return job("reserve")->add(base, bytes);
  }
  std::vector<std::shared_ptr<Arena>> all() { return job("rendezvous")->all(); }

  c10::intrusive_ptr<symm::SymmetricMemory> rendezvous(
      void* pointer, const std::optional<std::string>& group) override {
    py::gil_scoped_acquire python;
    { const auto ended = dropped(); }
    const std::pair key(reinterpret_cast<uint64_t>(pointer), group.value_or(""));
    {
      const std::lock_guard lock(mutex_);
      const auto found = met_.find(key);
      if (found != met_.end()) return found->second;
    }
    const py::tuple met = (*meet_)(key.first, group);
    auto memory = c10::make_intrusive<Memory>(met[0], met[1].cast<std::shared_ptr<ArenaBlock>>(),
                                              met[2].cast<std::shared_ptr<ArenaBlock>>());
    const std::lock_guard lock(mutex_);
    met_[key] = memory;
    return memory;
  }

  bool has_multicast_support(int /*device*/) override { return false; }

  c10::DeviceType supported_device_type() override {
    return job("SymmetricMemory")->device < 0 ? c10::DeviceType::CPU : c10::DeviceType::CUDA;
  }

  std::string name() override { return "PEAL"; }

 private:
  // Whether this process was forked from a PE: memory is the parent's, and so is a thread that may
  // hold the mutex.
  bool is_child() const { return process_ != 0 && process_ != getpid(); }

  std::shared_ptr<Arenas> job(const std::string& call) {
    if (is_child())
      throw Failed("peal.torch: " + call +
                   ": this process was forked from a PE and is none; start PEs by peal-run, and "
                   "other processes by "
                   "spawn, not fork");
    const std::lock_guard lock(mutex_);
    if (!job_)
      throw Failed("peal.torch: " + call + ": call peal.init() first, or use `with peal.job():`");
    return job_;
  }

  std::shared_ptr<ArenaBlock> take(Arenas& job, uint64_t bytes) {
    const std::lock_guard lock(growing_);
    if (job.all().empty()) grow(job);
    if (auto block = job.take(bytes, current_stream(job))) return block;
    uint64_t all = 0;
    for (const auto& arena : job.all()) all += arena->bytes;
    throw Failed("peal.torch: no room for " + std::to_string(bytes) + " bytes in " +
                 std::to_string(all) +
                 " of symmetric memory set aside; "
                 "call peal.torch.reserve() with more on all PEs, before, or drop tensors");
  }

  // Collective. By libpeal itself: peal.empty() is Python.
  void grow(Arenas& job) const {
    const uint64_t bytes = job.device < 0 ? kDefaultBytes : kDefaultBytesOfGpu;
    if (job.device >= 0 && job.gpu.is_capturing(current_stream(job)))
      throw WrongArgument(
          "peal.torch: the current stream captures a graph, and no symmetric memory has been set "
          "aside; call "
          "peal.torch.reserve() before");
    void* const base = calls_.allocate(bytes);
    if (base == nullptr)
      throw Failed(std::string("peal.torch: ") + calls_.error() +
                   "; or call peal.torch.reserve() with fewer bytes");
    job.add(reinterpret_cast<uint64_t>(base), bytes);
  }

  static void* current_stream(const Arenas& job) {
    if (job.device < 0) return nullptr;
    const c10::impl::VirtualGuardImpl cuda(c10::DeviceType::CUDA);
    return cuda.getStreamNativeHandle(
        cuda.getStream({c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(job.device)}));
  }

  // Under the mutex. Their ends run Python, which has to wait; their memory is given back at once.
  void forget(uint64_t begin, uint64_t bytes) {
    while (true) {
      const auto first = met_.lower_bound({begin, ""});
      if (first == met_.end() || first->first.first >= begin + bytes) return;
      if (first->second.use_count() == 1) first->second->drop_blocks();
      dropped_.push_back(std::move(first->second));
      met_.erase(first);
    }
  }

  std::vector<c10::intrusive_ptr<Memory>> dropped() {
    const std::lock_guard lock(mutex_);
    return std::exchange(dropped_, {});
  }

  std::shared_ptr<py::object> meet_;
  const Calls calls_;
  std::atomic<pid_t> process_ = 0;  // the PE's
  std::mutex growing_;  // held by who takes memory, and may wait for other PEs; before `mutex_`
  std::mutex mutex_;
  std::shared_ptr<Arenas> job_;                             // null: none
  std::map<uint64_t, std::shared_ptr<ArenaBlock>> blocks_;  // by address, until torch frees them
  std::map<uint64_t, size_t>
      outlived_;  // by address, tensors of jobs that have ended whose place has a new one
  std::map<std::pair<uint64_t, std::string>, c10::intrusive_ptr<Memory>>
      met_;                                          // by address and group
  std::vector<c10::intrusive_ptr<Memory>> dropped_;  // for who has the interpreter's lock
};

// Never destroyed: threads may free at the process' end.
Allocator* the_allocator = nullptr;

template <class Function>
Function* function_at(uint64_t address) {
  return reinterpret_cast<Function*>(address);
}

}  // namespace

// alloc() and free() of the allocator for threads that know nothing of Python. Null where it
// throws.
extern "C" __attribute__((visibility("default"))) void* peal_symmetric_alloc(void* bytes) {
  try {
    return the_allocator->alloc_here(reinterpret_cast<size_t>(bytes));
  } catch (const std::exception&) {
    return nullptr;
  }
}
extern "C" __attribute__((visibility("default"))) void* peal_symmetric_free(void* pointer) {
  the_allocator->free(pointer);
  return pointer;
}

PYBIND11_MODULE(peal_symmetric_memory, module) {
  const py::object errors = py::module_::import("peal.errors");
  static const auto failed = new py::object(errors.attr("Error")),
                    wrong = new py::object(errors.attr("ArgumentError"));
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Failed& error) {
      PyErr_SetString(failed->ptr(), error.what());
    } catch (const WrongArgument& error) {
      PyErr_SetString(wrong->ptr(), error.what());
    }
  });
  py::class_<Arena, std::shared_ptr<Arena>>(module, "Arena")
      .def_readonly("number", &Arena::number)
      .def_readonly("base", &Arena::base)
      .def_readonly("nbytes", &Arena::bytes);
  py::class_<ArenaBlock, std::shared_ptr<ArenaBlock>>(module, "ArenaBlock")
      .def_readonly("arena", &ArenaBlock::arena)
      .def_readonly("offset", &ArenaBlock::offset)
      .def_readonly("nbytes", &ArenaBlock::bytes)
      .def_property_readonly("address", &ArenaBlock::address);
  module.def("register", [](const py::object& meet, uint64_t allocate, uint64_t error) {
    auto made = c10::make_intrusive<Allocator>(
        meet,
        Allocator::Calls{function_at<void*(size_t)>(allocate), function_at<const char*()>(error)});
    the_allocator = made.get();
    c10::raw::intrusive_ptr::incref(made.get());
    symm::register_availability("PEAL", made);
  });
  const py::call_guard<py::gil_scoped_release>
      released;  // the mutexes are waited for without the interpreter's lock
  module.def(
      "begin", [](int device, uint64_t context) { the_allocator->begin(device, context); },
      released);
  module.def(
      "end", [] { the_allocator->end(); }, released);
  module.def(
      "add", [](uint64_t base, uint64_t bytes) { return the_allocator->add(base, bytes); },
      released);
  module.def(
      "arenas", [] { return the_allocator->all(); }, released);
  module.def(
      "take", [](uint64_t bytes) { return the_allocator->take(bytes); }, released);
  module.def(
      "around", [](uint64_t address) { return the_allocator->around(address); }, released);
}

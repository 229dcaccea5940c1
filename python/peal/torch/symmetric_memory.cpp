// SPDX-License-Identifier: Apache-2.0
//
// torch's interface of symmetric memory (torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp) for objects of
// Python's, which decide everything. Compiled against the torch that imports it (_extension.py).
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>

namespace py = pybind11;
namespace symm = c10d::symmetric_memory;

namespace {

// Whether threads may still take the interpreter's lock.
bool interpreter_lives() {
#if PY_VERSION_HEX >= 0x030D0000
  const bool ending = Py_IsFinalizing() != 0;
#else
  const bool ending = _Py_IsFinalizing() != 0;
#endif
  return Py_IsInitialized() != 0 && !ending && !symm::is_finalizing();
}

// A reference to an object of Python's that threads without the interpreter's lock may drop; at the interpreter's end
// nobody drops it.
std::shared_ptr<py::object> shared(py::object object) {
  return {new py::object(std::move(object)), [](py::object* held) {
            if (!interpreter_lives()) return;
            py::gil_scoped_acquire lock;
            delete held;
          }};
}

std::vector<void*> pointers(const py::object& object, const char* name) {
  std::vector<void*> found;
  for (const auto& one : object.attr(name).cast<std::vector<uint64_t>>()) found.push_back(reinterpret_cast<void*>(one));
  return found;
}

at::Tensor on_device(const std::vector<void*>& pointers, c10::Device device) {
  at::Tensor numbers = at::empty({static_cast<int64_t>(pointers.size())}, at::kLong);
  for (size_t i = 0; i < pointers.size(); ++i)
    numbers[static_cast<int64_t>(i)] = reinterpret_cast<int64_t>(pointers[i]);
  return numbers.to(device);
}

// A Handle of _symmetric_memory.py. What never changes is copied out of it once; tables on the device are
// made at once, since the first use may be in a graph's capture.
class Memory : public symm::SymmetricMemory {
 public:
  explicit Memory(const py::object& handle)
      : handle_(shared(handle)),
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
  void** get_buffer_ptrs_dev() override { return static_cast<void**>(buffers_on_device_.data_ptr()); }
  void** get_signal_pad_ptrs_dev() override { return static_cast<void**>(pads_on_device_.data_ptr()); }
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
  void put_signal(int rank, int channel, size_t timeout_ms) override { call("put_signal", rank, channel, timeout_ms); }
  void wait_signal(int rank, int channel, size_t timeout_ms) override { call("wait_signal", rank, channel, timeout_ms); }

 private:
  template <typename... Arguments>
  void call(const char* name, Arguments... arguments) {
    py::gil_scoped_acquire lock;
    handle_->attr(name)(arguments...);
  }

  std::shared_ptr<py::object> handle_;
  std::vector<void*> buffers_, pads_;
  size_t bytes_;
  int rank_;
  std::vector<int> ranks_;
  c10::Device device_;
  at::Tensor buffers_on_device_, pads_on_device_, ranks_on_device_;
};

// A symmetric_memory.Allocator.
class Allocator : public symm::SymmetricMemoryAllocator {
 public:
  explicit Allocator(const py::object& object) : object_(shared(object)) {}

  void* alloc(size_t bytes, int device, const std::optional<std::string>& /*group*/) override {
    py::gil_scoped_acquire lock;
    const auto begin = object_->attr("allocate")(bytes, device).cast<uint64_t>();
    forget(begin, bytes);  // a tensor of a job that has ended may have lain there
    return reinterpret_cast<void*>(begin);
  }

  void free(void* pointer) override {
    if (!interpreter_lives()) return;
    py::gil_scoped_acquire lock;
    const auto begin = reinterpret_cast<uint64_t>(pointer);
    forget(begin, object_->attr("free")(begin).cast<uint64_t>());
  }

  size_t get_alloc_size(void* pointer) override {
    py::gil_scoped_acquire lock;
    return object_->attr("size_of")(reinterpret_cast<uint64_t>(pointer)).cast<size_t>();
  }

  c10::intrusive_ptr<symm::SymmetricMemory> rendezvous(void* pointer, const std::optional<std::string>& group) override {
    py::gil_scoped_acquire lock;
    const auto address = reinterpret_cast<uint64_t>(pointer);
    const auto found = met_.find({address, group.value_or("")});
    if (found != met_.end()) return found->second;
    auto met = c10::make_intrusive<Memory>(object_->attr("rendezvous")(address, group));
    met_[{address, group.value_or("")}] = met;
    return met;
  }

  bool has_multicast_support(int /*device*/) override { return false; }

  c10::DeviceType supported_device_type() override {
    py::gil_scoped_acquire lock;
    return c10::Device(object_->attr("device")().cast<std::string>()).type();
  }

  std::string name() override { return "PEAL"; }

 private:
  void forget(uint64_t begin, uint64_t bytes) {
    std::vector<c10::intrusive_ptr<Memory>> dropped;  // whose ends run Python, which may come back here
    while (true) {
      const auto first = met_.lower_bound({begin, ""});
      if (first == met_.end() || first->first.first >= begin + bytes) return;
      dropped.push_back(std::move(first->second));
      met_.erase(first);
    }
  }

  std::shared_ptr<py::object> object_;
  // By address and group, until the address is freed. The interpreter's lock guards it.
  std::map<std::pair<uint64_t, std::string>, c10::intrusive_ptr<Memory>> met_;
};

}  // namespace

PYBIND11_MODULE(peal_symmetric_memory, module) {
  module.def("register", [](const py::object& allocator) {
    symm::register_availability("PEAL", c10::make_intrusive<Allocator>(allocator));
  });
}

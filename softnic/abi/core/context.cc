// SPDX-License-Identifier: Apache-2.0
//
// Device list, the object table of a context. Opening a device is in open.cc.
#include "softnic/abi/core/context.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "softnic/abi/core/memory.h"
#include "softnic/presentation/settings.h"

namespace peal::softnic::abi {

void require_port(VerbsContext& context, uint32_t port) {
  if (port < 1 || port > context.nic().device().ports) refuse(EINVAL);
}

void require_devx(VerbsContext& context) {
  if (context.nic().device().refuses_any(kRefuseDevx)) refuse(EINVAL);
}

Buffer allocate_buffer(size_t bytes) {
  constexpr size_t kPage = 4096;
  size_t rounded = (bytes + kPage - 1) / kPage * kPage;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kPage, rounded));
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0, rounded);
  return Buffer(memory, [](std::byte* p) { std::free(p); });
}

VerbsContext::VerbsContext(ListedDevice& device)
    : nic_(device.shared_nic()),
      // One descriptor a caller can poll, readable for this context's own events and while the NIC
      // has events that nobody has routed yet.
      async_fd_(events.fd(), nic_->event_fd()) {
  verbs.sz = kVerbsContextBytes;
  ibv_context& context = verbs.context;
  context.device = &device;
  context.cmd_fd = command_fd_.fd();
  context.async_fd = async_fd_.fd();
  context.num_comp_vectors = 1;
  pthread_mutex_init(&context.mutex, nullptr);
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
}

VerbsContext::~VerbsContext() {
  while (!objects_.empty()) {
    objects_.begin()->second->retire();
    objects_.erase(objects_.begin());
  }
  pthread_mutex_destroy(&verbs.context.mutex);
}

VerbsContext& VerbsContext::of(ibv_context* context) {
  if (context == nullptr) refuse(EINVAL);
  auto* first = reinterpret_cast<std::byte*>(context) - offsetof(verbs_context, context) -
                offsetof(ContextLayout, verbs);
  return *static_cast<VerbsContext*>(reinterpret_cast<ContextLayout*>(first));
}

void VerbsContext::keep(std::unique_ptr<Object> object) {
  auto key = std::pair(object->kind, object->number);
  try {
    objects_[key] = nullptr;
  } catch (...) {
    object->retire();
    throw;
  }
  objects_[key] = std::move(object);
}

Object* VerbsContext::find(ObjectKind kind, uint32_t number) const {
  auto at = objects_.find({kind, number});
  return at == objects_.end() ? nullptr : at->second.get();
}

void VerbsContext::destroy(Object& object) {
  if (object.users != 0) refuse(EBUSY);
  require(object.retire());
  objects_.erase({object.kind, object.number});
}

bool VerbsContext::has_doorbell(const void* address) const {
  for (auto at = objects_.lower_bound({ObjectKind::kUar, 0});
       at != objects_.end() && at->first.first == ObjectKind::kUar; ++at) {
    const std::byte* page = static_cast<Uar&>(*at->second).page.get();
    if (address >= page && address < page + kUarBytes) return true;
  }
  return false;
}

Uar& VerbsContext::verbs_uar() {
  if (verbs_uar_ == nullptr) verbs_uar_ = adopt(make_uar(*this));
  return *verbs_uar_;
}

ListedDevice::ListedDevice(const PresentedDevice& as, uint32_t place)
    : ibv_device{}, shown(as), index(place) {
  node_type = IBV_NODE_CA;
  transport_type = IBV_TRANSPORT_IB;
  const std::string uverbs = "uverbs" + std::to_string(index);
  const auto keep = [](char* field, size_t bytes, const std::string& text) {
    std::snprintf(field, bytes, "%s", text.c_str());
  };
  keep(name, sizeof name, shown.name);
  keep(dev_name, sizeof dev_name, uverbs);
  keep(dev_path, sizeof dev_path, "/sys/class/infiniband_verbs/" + uverbs);
  keep(ibdev_path, sizeof ibdev_path, "/sys/class/infiniband/" + shown.name);
}

std::shared_ptr<SoftwareNic> ListedDevice::shared_nic() {
  std::shared_ptr<SoftwareNic> open = nic.lock();
  if (open == nullptr) nic = open = SoftwareNic::open(shown);
  return open;
}

const std::vector<ListedDevice*>& Process::devices() {
  Presentation now = Settings::presentation_from_environment();
  if (shown_ == now) return listed_;
  listed_.clear();
  for (const PresentedDevice& device : now) {
    const auto index = static_cast<uint32_t>(listed_.size());
    known.push_back(std::make_unique<ListedDevice>(device, index));
    listed_.push_back(known.back().get());
  }
  shown_ = std::move(now);
  return listed_;
}

ListedDevice& Process::required(const ibv_device* device) const {
  ListedDevice* const found = find(device);
  if (found == nullptr) refuse(ENODEV);
  return *found;
}

ListedDevice* Process::find(const ibv_device* device) const {
  for (const auto& each : known) {
    if (each.get() == device) return each.get();
  }
  return nullptr;
}

Process& process() {
  // Never destroyed: a program may close its devices from destructors that run after ours would.
  static Process& state = *std::make_unique<Process>().release();
  return state;
}

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  return answer_pointer([&] {
    const std::vector<ListedDevice*>& devices = process().devices();
    auto list = std::make_unique<ibv_device*[]>(devices.size() + 1);
    std::copy(devices.begin(), devices.end(), list.get());
    if (count != nullptr) *count = static_cast<int>(devices.size());
    return list.release();
  });
}

void ibv_free_device_list(ibv_device** list) {
  std::unique_ptr<ibv_device* []> { list };
}

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

// -1 for a pointer that is no device of ours.
int ibv_get_device_index(ibv_device* device) {
  int index = -1;
  answer_error([&] { index = static_cast<int>(process().required(device).index); });
  return index;
}

// Zero when the NIC cannot be opened. The identity belongs to the NIC, so it is stable only while
// some context is open.
__be64 ibv_get_device_guid(ibv_device* device) {
  uint64_t guid = 0;
  answer_error([&] { guid = Be64(process().required(device).shared_nic()->guid()).raw; });
  return guid;
}

int ibv_close_device(ibv_context* context) {
  return answer_error([&] {
    if (process().contexts.erase(&VerbsContext::of(context)) == 0) refuse(EINVAL);
  });
}

}  // extern "C"
}  // namespace peal::softnic::abi

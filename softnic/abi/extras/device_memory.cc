// SPDX-License-Identifier: Apache-2.0
//
// Memory of the device (MEMIC of a ConnectX): taken from 128 KiB that a device has in a process,
// copied to and from by words, registered zero based.
//
// Here it is host memory that no client has the address of: an engine on the CPU reaches it, one on
// a GPU does not.
#include <atomic>
#include <cstring>

#include "softnic/abi/extras/extras.h"

namespace peal::softnic::abi {
namespace {

constexpr uint32_t kMaxLogAlignment = 16;

class DeviceMemory : public Object, public ibv_dm {
 public:
  DeviceMemory(VerbsContext& of, ListedDevice& from, size_t size)
      : Object(ObjectKind::kDeviceMemory, of),
        ibv_dm{},
        bytes(size),
        memory(allocate_buffer(size)),
        device_(from) {
    device_.memory_taken += bytes;
  }
  ~DeviceMemory() override { device_.memory_taken -= bytes; }

  const size_t bytes;
  Buffer memory;

 private:
  ListedDevice& device_;
};

/// Calls `copy(word of the memory, its offset)` for each word. 0, or the errno of a copy that the
/// bus of a ConnectX cannot make: it takes whole words.
template <class Copy>
int copy_words(ibv_dm* handle, uint64_t offset, size_t length, const Copy& copy) {
  const auto& dm = *static_cast<DeviceMemory*>(handle);
  if (offset > dm.bytes || length > dm.bytes - offset) return EFAULT;
  if (offset % sizeof(uint32_t) != 0 || length % sizeof(uint32_t) != 0) return EINVAL;
  auto* words = reinterpret_cast<uint32_t*>(dm.memory.get() + offset);
  for (size_t at = 0; at < length; at += sizeof(uint32_t)) copy(std::atomic_ref(*words++), at);
  return 0;
}

int copy_to(ibv_dm* dm, uint64_t offset, const void* from, size_t length) {
  return copy_words(dm, offset, length, [from](auto word, size_t at) {
    uint32_t value;
    std::memcpy(&value, static_cast<const std::byte*>(from) + at, sizeof value);
    word.store(value, std::memory_order_relaxed);
  });
}

int copy_from(void* to, ibv_dm* dm, uint64_t offset, size_t length) {
  return copy_words(dm, offset, length, [to](auto word, size_t at) {
    const uint32_t value = word.load(std::memory_order_relaxed);
    std::memcpy(static_cast<std::byte*>(to) + at, &value, sizeof value);
  });
}

}  // namespace

void describe_dm(ibv_dm* handle, mlx5dv_dm* out) {
  const auto& dm = *static_cast<DeviceMemory*>(handle);
  out->buf = dm.memory.get();
  out->length = dm.bytes;
  out->comp_mask = 0;
}

ibv_dm* alloc_dm_slot(ibv_context* handle, ibv_alloc_dm_attr* attr) {
  return answer_pointer([&]() -> ibv_dm* {
    VerbsContext& context = VerbsContext::of(handle);
    if (context.nic().on_gpu()) refuse(EOPNOTSUPP);
    if (attr->comp_mask != 0 || attr->log_align_req > kMaxLogAlignment) refuse(EINVAL);
    if (attr->length == 0 || attr->length > kDeviceMemoryBytes) refuse(EINVAL);
    auto& device = *static_cast<ListedDevice*>(handle->device);
    if (attr->length > kDeviceMemoryBytes - device.memory_taken) refuse(ENOMEM);
    auto dm = std::make_unique<DeviceMemory>(context, device, attr->length);
    dm->number = dm->ibv_dm::handle = context.next_number();
    dm->context = handle;
    dm->memcpy_to_dm = copy_to;
    dm->memcpy_from_dm = copy_from;
    return context.adopt(std::move(dm));
  });
}

int free_dm_slot(ibv_dm* dm) { return destroy_handle<DeviceMemory>(dm); }

ibv_mr* reg_dm_mr_slot(ibv_pd* pd, ibv_dm* handle, uint64_t offset, size_t bytes, unsigned access) {
  return answer_pointer([&]() -> ibv_mr* {
    constexpr unsigned kAllowed = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                  IBV_ACCESS_ZERO_BASED | IBV_ACCESS_RELAXED_ORDERING;
    auto& dm = *static_cast<DeviceMemory*>(handle);
    VerbsContext& context = VerbsContext::of(pd->context);
    if (dm.context != pd->context) refuse(EINVAL);
    if ((access & IBV_ACCESS_ZERO_BASED) == 0 || (access & ~kAllowed) != 0) refuse(EINVAL);
    if (offset > dm.bytes || bytes > dm.bytes - offset) refuse(EINVAL);
    std::byte* memory = dm.memory.get() + offset;
    require_reachable(context.nic(), memory, bytes, true);
    auto region = make_region(
        pd,
        {.access = nic_access(context.nic(), access), .iova = 0, .bytes = bytes, .memory = memory});
    region->use(dm);
    return context.adopt(std::move(region));
  });
}

}  // namespace peal::softnic::abi

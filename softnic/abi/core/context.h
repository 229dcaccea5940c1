// SPDX-License-Identifier: Apache-2.0
//
// The devices and their contexts, laid out as rdma-core's inline functions expect.
//
//   newer slots | verbs_context slots ... sz | ibv_context      <- what the caller's pointer names
//
// ABI fact: a client finds an operation at a fixed distance before the ibv_context pointer and
// believes it only when `sz` covers that distance.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "softnic/abi/core/guard.h"
#include "softnic/abi/core/object.h"
#include "softnic/control/table.h"
#include "softnic/control/waking_queue.h"
#include "softnic/nic.h"
#include "softnic/presentation/present.h"

namespace peal::softnic::abi {

inline constexpr uint32_t kCompletionEqn = 11;     // event queue of the only completion vector
inline constexpr uint16_t kDevxUid = 1;            // user id the kernel writes into commands
inline constexpr size_t kVerbsContextBytes = 696;  // of the newest client we serve
inline constexpr uint64_t kDeviceMemoryBytes = 128 << 10;
inline constexpr uint32_t kMaxQueuePairs = 1u << 15;  // numbers the NIC gives out

/// What lies at the caller's pointer and before it.
struct ContextLayout {
  void* newer_slots[6] = {};  // of clients newer than the headers we compile with; all empty
  verbs_context verbs = {};
};
static_assert(sizeof(ContextLayout) == kVerbsContextBytes);

class Reporter;
class Uar;
class VerbsQp;

/// A device as it stands in a list.
struct ListedDevice : ibv_device {
  ListedDevice(const PresentedDevice& as, uint32_t place);
  /// The NIC that all contexts of the device share, opened by the first and closed with the last.
  std::shared_ptr<SoftwareNic> shared_nic();

  const PresentedDevice shown;
  const uint32_t index;
  std::weak_ptr<SoftwareNic> nic;
  uint64_t memory_taken = 0;  // of kDeviceMemoryBytes, by all contexts
};

/// One opened device. Owns every object made through it; its destruction retires them all.
class VerbsContext : public ContextLayout {
 public:
  explicit VerbsContext(ListedDevice& device);
  ~VerbsContext();
  VerbsContext(const VerbsContext&) = delete;
  VerbsContext& operator=(const VerbsContext&) = delete;

  static VerbsContext& of(ibv_context* context);
  ibv_context* handle() { return &verbs.context; }
  SoftwareNic& nic() { return *nic_; }

  /// Keeps `object` under its kind and number and answers it.
  template <class T>
  T* adopt(std::unique_ptr<T> object) {
    T* answer = object.get();
    keep(std::move(object));
    return answer;
  }
  /// The object of that kind and number, or null.
  Object* find(ObjectKind kind, uint32_t number) const;
  /// Retires and frees. Throws EBUSY while the object is used or the NIC refuses.
  void destroy(Object& object);
  /// A number for objects the NIC does not number.
  uint32_t next_number() { return ++numbers_; }

  /// The queue pair or DC target that ibv_poll_cq finds by that number, or null. Any thread may
  /// ask.
  VerbsQp* pollable(uint32_t qpn) {
    return qpn < kMaxQueuePairs ? pollable_[qpn].load(std::memory_order_acquire) : nullptr;
  }
  /// True for an address within one of its doorbell pages.
  bool has_doorbell(const void* address) const;

  /// Null once no CQE of that number can be found any more.
  void set_pollable(uint32_t qpn, VerbsQp* qp) {
    pollable_[qpn].store(qp, std::memory_order_release);
  }

  /// UAR behind queues that verbs calls create.
  Uar& verbs_uar();

  /// Async events of this context's verbs objects; see events.cc.
  WakingQueue<ibv_async_event> events{EFD_NONBLOCK};
  Uar* shared_uar = nullptr;  // the non-cached singleton

 private:
  void keep(std::unique_ptr<Object> object);

  std::shared_ptr<SoftwareNic> nic_;
  AnyReadable async_fd_;
  // In the place of the kernel's character device: clients duplicate and pass it on. An epoll set
  // takes no command: write and ioctl are refused.
  AnyReadable command_fd_;
  Uar* verbs_uar_ = nullptr;
  uint32_t numbers_ = 0;
  Table<std::atomic<VerbsQp*>> pollable_{0, kMaxQueuePairs};
  std::map<std::pair<ObjectKind, uint32_t>, std::unique_ptr<Object>> objects_;
};

inline SoftwareNic& Object::nic() const { return owner.nic(); }

/// State above any device handle. Exists because the C interface has none to hang it on.
struct Process {
  /// The devices there are: what PEAL_SOFTNIC_PRESENT says now. Throws std::invalid_argument.
  const std::vector<ListedDevice*>& devices();
  /// The one behind a client's pointer, or null; required() throws ENODEV instead.
  ListedDevice* find(const ibv_device* device) const;
  ListedDevice& required(const ibv_device* device) const;

  std::vector<std::unique_ptr<ListedDevice>>
      known;  // of every list so far: clients may hold them still
  std::map<VerbsContext*, std::unique_ptr<VerbsContext>> contexts;

 private:
  std::vector<ListedDevice*> listed_;
  std::optional<Presentation> shown_;
};
Process& process();

/// Copies a description to a caller that knows `bytes` of it; what is newer than ours reads 0.
template <class T>
void answer(const T& description, void* to, size_t bytes) {
  std::memset(to, 0, bytes);
  std::memcpy(to, &description, std::min(bytes, sizeof description));
}

// Implementations behind the slots of verbs_context.
int query_port_slot(ibv_context* context, uint8_t port, ibv_port_attr* attr, size_t attr_bytes);
int query_device_ex_slot(ibv_context* context, const ibv_query_device_ex_input* input,
                         ibv_device_attr_ex* attr, size_t attr_bytes);
ibv_pd* alloc_parent_domain_slot(ibv_context* context, ibv_parent_domain_init_attr* attr);
ibv_td* alloc_td_slot(ibv_context* context, ibv_td_init_attr* attr);
int dealloc_td_slot(ibv_td* td);
int query_rt_values_slot(ibv_context* context, ibv_values_ex* values);

// Implementations behind the slots of ibv_context_ops.
int post_send_slot(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int post_receive_slot(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
int req_notify_slot(ibv_cq* cq, int solicited_only);
int poll_cq_slot(ibv_cq* cq, int count, ibv_wc* wc);

/// Destroys the object that a client knows by `handle`. Answers an errno: as VerbsContext::destroy.
template <class T, class Handle>
int destroy_handle(Handle* handle) {
  return answer_error([&] { VerbsContext::of(handle->context).destroy(*static_cast<T*>(handle)); });
}

/// Throws EINVAL unless the device has that port.
void require_port(VerbsContext& context, uint32_t port);

/// Nanoseconds since 1970 at that tick of the device's clock. Time stamps of completions count its
/// ticks: nanoseconds of CLOCK_MONOTONIC.
uint64_t wall_clock_of(uint64_t tick);

/// Throws EINVAL unless the context has DEVX, as the kernel does for one without a user id.
void require_devx(VerbsContext& context);

/// Takes events off the NIC and hands each to the context that owns its object.
void route_events(SoftwareNic& nic);

/// Queues the cookie of everyone who subscribed to that event of the object, by the firmware's
/// number.
void tell_subscribers(Object& object, uint16_t event);

/// Destroys `object`, once its `events` are acknowledged, and what waits to be told of it under the
/// handle `named`: the next object of that number hears nothing of this one. Answers an errno:
/// EBUSY when nobody acknowledged in time, or as VerbsContext::destroy throws.
int destroy_with_events(ibv_context* context, Object& object, Reporter& events, const void* named);

}  // namespace peal::softnic::abi

// SPDX-License-Identifier: Apache-2.0
//
// Objects that name memory: protection domains, registrations, umems, UAR pages.
//
//   umem (id: addr, size)  <- queues and doorbell records of DEVX objects, by byte offset
//   UAR page               <- doorbells; reg_addr = base_addr + 0x800
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <memory>
#include <vector>

#include "softnic/abi/core/context.h"

// The public header leaves this type to the library: what a DEVX object handle points at.
struct mlx5dv_devx_obj {
  /// Who wants to hear of an event; see devx_events.cc.
  struct Subscription {
    std::weak_ptr<peal::softnic::WakingQueue<uint64_t>> queue;  // may outlive its channel
    uint16_t event;
    uint64_t cookie;
  };
  virtual ~mlx5dv_devx_obj() = default;
  peal::softnic::abi::Object& object() { return dynamic_cast<peal::softnic::abi::Object&>(*this); }
  /// What the command that made it answers.
  virtual uint32_t told() { return object().number; }

  std::vector<Subscription> subscriptions;
};

namespace peal::softnic::abi {

inline constexpr size_t kUarBytes = 4096;
inline constexpr size_t kUarRegisterOffset = 0x800;

/// Protection domain, or a parent domain that stands for one.
class Pd : public Object, public ibv_pd, public mlx5dv_devx_obj {
 public:
  Pd(VerbsContext& of, ObjectKind of_kind) : Object(of_kind, of), ibv_pd{} {
    context = of.handle();
  }
  Refusal retire() override { return kind == ObjectKind::kPd ? nic().free_pd(pdn) : Refusal{}; }

  uint32_t pdn = 0;
  ibv_parent_domain_init_attr attributes = {};  // allocators, of a parent domain
};

class ThreadDomain : public Object, public ibv_td {
 public:
  explicit ThreadDomain(VerbsContext& of) : Object(ObjectKind::kThreadDomain, of), ibv_td{} {}
};

class MrObject : public NicObject<ObjectKind::kKey, &SoftwareNic::deregister_memory>,
                 public ibv_mr {
 public:
  explicit MrObject(VerbsContext& of) : NicObject(of), ibv_mr{} {}

  Key config;
};

class Umem : public Object, public mlx5dv_devx_umem {
 public:
  explicit Umem(VerbsContext& of) : Object(ObjectKind::kUmem, of), mlx5dv_devx_umem{} {}
  std::byte* memory = nullptr;  // as the engine has it
  uint64_t bytes = 0;
  uint64_t page = 0;    // by which the NIC knows it: queues begin at multiples of its 64th
  bool on_gpu = false;  // not to be touched by this process
};

class Uar : public NicObject<ObjectKind::kUar, &SoftwareNic::detach_uar>, public mlx5dv_devx_uar {
 public:
  explicit Uar(VerbsContext& of) : NicObject(of), mlx5dv_devx_uar{} {}

  Buffer page;
};

/// Access rights as the NIC keeps them.
uint32_t nic_access(const SoftwareNic& nic, unsigned access);

/// The region of `pd` that `key` describes, its PD filled in; not yet in the context's table.
std::unique_ptr<MrObject> make_region(ibv_pd* pd, Key key);

/// A UAR page attached to the NIC, not yet in the context's table.
std::unique_ptr<Uar> make_uar(VerbsContext& context);

/// Memory for a queue of that kind (MLX5DV_RES_TYPE_*) of `pd`, which may be null: a parent
/// domain's allocator is asked first, then huge pages are taken where libmlx5's variables want
/// them. Throws ENOMEM when they want nothing else and there are none.
Buffer allocate_queue(Pd* pd, size_t bytes, uint64_t resource_type);

/// Throws EFAULT, or what SoftwareNic::admit throws, unless the NIC can use the range. True when it
/// is a GPU's.
bool require_reachable(SoftwareNic& nic, const void* address, size_t bytes, bool writable);

/// Throws EFAULT unless every page of the range is mapped, and writable where asked.
void require_mapped(const void* address, size_t bytes, bool writable);

}  // namespace peal::softnic::abi

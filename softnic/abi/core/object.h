// SPDX-License-Identifier: Apache-2.0
//
// What a context owns: every object a C caller holds a pointer to.
//
//   create: NIC call, adopt() into the context's table    destroy: unused? retire() at the NIC,
//   erase
//
// An object in use (users > 0) is never destroyed; use() is the only way to hold one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "softnic/nic.h"

namespace peal::softnic::abi {

/// In order of clean-up: what uses others comes first.
enum class ObjectKind : uint8_t {
  kQp,
  kDct,
  kDctQp,
  kCq,
  kSrq,
  kAh,
  kKey,
  kDeviceMemory,
  kChannel,
  kEventChannel,
  kParentDomain,
  kThreadDomain,
  kUmem,
  kUar,
  kPd,
};

class VerbsContext;

/// One entry of a context's table, found by kind and number.
class Object {
 public:
  Object(ObjectKind of_kind, VerbsContext& of) : kind(of_kind), owner(of) {}
  virtual ~Object() {
    for (Object* each : used_) --each->users;
  }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  /// Gives back what the NIC holds for this object. A refusal leaves the object as it was.
  virtual Refusal retire() { return {}; }
  /// The NIC of the context.
  SoftwareNic& nic() const;
  /// While this object lives, `other` refuses to be destroyed.
  void use(Object& other) {
    used_.push_back(&other);
    ++other.users;
  }
  /// Uses `other` from now on in the place of `before`.
  void use_instead(Object& before, Object& other) {
    before.users -= static_cast<uint32_t>(std::erase(used_, &before));
    use(other);
  }

  const ObjectKind kind;
  VerbsContext& owner;
  uint32_t number = 0;
  uint32_t users = 0;

 private:
  std::vector<Object*> used_;
};

/// One that the NIC knows by its number, until that is given back.
template <ObjectKind kKind, Refusal (SoftwareNic::*kGiveBack)(uint32_t)>
class NicObject : public Object {
 public:
  explicit NicObject(VerbsContext& of) : Object(kKind, of) {}
  Refusal retire() override { return (nic().*kGiveBack)(number); }
};

/// Memory of a queue that a verbs call creates. Zeroed, page aligned unless an allocator chose.
using Buffer = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;
Buffer allocate_buffer(size_t bytes);

/// A queue pair the NIC works for, made by DEVX or by verbs.
class QpObject : public NicObject<ObjectKind::kQp, &SoftwareNic::destroy_qp> {
 public:
  using NicObject::NicObject;
  QueuePairConfig config;
};

/// A completion queue, made by DEVX or by verbs.
class CqObject : public NicObject<ObjectKind::kCq, &SoftwareNic::destroy_cq> {
 public:
  using NicObject::NicObject;
  CompletionQueueConfig config;
};

}  // namespace peal::softnic::abi

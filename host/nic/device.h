// SPDX-License-Identifier: Apache-2.0
//
// Owners of what a queue pair needs around it: device context, protection domain, UAR (doorbell
// page); its memory is in registration.h. Each acquires in its constructor and releases in its
// destructor; all are move-only; the Device is destroyed last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "host/nic/capabilities.h"
#include "host/nic/verbs.h"

namespace peal::nic {

/// Releases T with a function of the library; its answer cannot be acted on.
template <class T, class R>
struct Releaser {
  R (*release)(T*);
  void operator()(T* object) const { release(object); }
};
template <class T, class R>
using Owned = std::unique_ptr<T, Releaser<T, R>>;

/// The port of a NIC that peal drives.
inline constexpr uint8_t kDrivenPort = 1;

/// The devices of a library that serve its use, in its order: mlx5 devices, or all. Throws kSystem
/// when it cannot list any.
std::vector<std::string> mlx5_names(const VerbsLibrary& library);

/// What ibv_query_device says of queues that a CPU posts to.
struct VerbsLimits {
  uint32_t requests = 0;         // of one send queue, at a time
  uint32_t completions = 0;      // of one completion queue
  uint32_t responder_depth = 0;  // READs and atomics in flight at a target, of one queue pair
  uint32_t initiator_depth = 0;  // and from here
};

/// An open NIC with port 1 checked: active, InfiniBand.
class Device {
 public:
  /// Opens `hca` (a name such as mlx5_0), or the first device that serves `use` when it is empty.
  /// Throws kUnsupported that names the devices there are, or what this one lacks. For
  /// NicUse::kVerbs nothing but libibverbs is asked: then there is no eqn(), capabilities() has the
  /// largest numbers only, and umems, UARs and firmware objects cannot be made.
  Device(std::shared_ptr<const VerbsLibrary> library, const std::string& hca,
         NicUse use = NicUse::kDevx);

  const std::string& name() const { return name_; }
  const std::string& firmware() const { return firmware_; }
  /// True for the software NIC: its UAR is ordinary memory.
  bool software() const { return software_; }
  /// What it is: "softnic-cpu" or "softnic-gpu" for the software NIC, by where its engine runs
  /// (the first registered memory decides, so asked anew each time), else name().
  std::string model() const;
  /// One line for people: name, firmware, library, LID.
  std::string description() const;

  uint16_t lid() const { return lid_; }
  uint8_t mtu() const { return mtu_; }  // active, as a code: 256 << (mtu - 1) bytes
  uint32_t eqn() const { return eqn_; }
  const Capabilities& capabilities() const { return capabilities_; }
  const VerbsLimits& limits() const { return limits_; }
  NicUse use() const { return use_; }

  const VerbsLibrary& library() const { return *library_; }
  const std::shared_ptr<const VerbsLibrary>& shared_library() const { return library_; }
  ibv_context* context() const { return context_.get(); }

 private:
  void open(ibv_device* device);
  void read_limits();
  void read_firmware_capabilities();
  std::string query_firmware() const;
  void read_port();

  std::shared_ptr<const VerbsLibrary> library_;
  std::string name_;
  std::string firmware_;
  bool software_ = false;
  uint16_t lid_ = 0;
  uint8_t mtu_ = 0;
  uint32_t eqn_ = 0;
  NicUse use_;
  VerbsLimits limits_;
  Capabilities capabilities_;
  Owned<ibv_context, int> context_;
};

class ProtectionDomain {
 public:
  explicit ProtectionDomain(const Device& device);
  uint32_t number() const { return number_; }  // for firmware commands; 0 where there are none
  ibv_pd* handle() const { return pd_.get(); }

 private:
  Owned<ibv_pd, int> pd_;
  uint32_t number_ = 0;
};

/// A doorbell page. Many queues may share one; a queue is only rung through the page it was created
/// with.
class Uar {
 public:
  /// A private uncached page when the library has such, else the shared uncached one, else a
  /// write-combining one.
  explicit Uar(const Device& device);

  uint32_t page() const { return uar_->page_id; }
  /// The 8-byte register to store a doorbell into.
  void* doorbell() const { return uar_->reg_addr; }
  void* base() const { return uar_->base_addr; }  // of the 4 KiB page
  const char* kind() const { return kind_; }      // "dedicated", "uncached", "write-combining"

 private:
  Owned<mlx5dv_devx_uar, void> uar_;
  const char* kind_ = "";
};

}  // namespace peal::nic

// SPDX-License-Identifier: Apache-2.0
//
// Owners of what a queue pair needs around it: device context, protection domain, UAR (doorbell
// page); its memory is in registration.h. Each acquires in its constructor and releases in its
// destructor; all are move-only; the Device is destroyed last.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "host/nic/capabilities.h"
#include "host/nic/hca_list.h"
#include "host/nic/path.h"
#include "host/nic/placement.h"
#include "host/nic/port.h"
#include "host/nic/verbs.h"

namespace peal::nic {

/// Releases T with a function of the library; its answer cannot be acted on.
template <class T, class R>
struct Releaser {
  R (*release)(T*);
  void operator()(T* object) const { release(object); }
};
template <class T, class R>
using OwnedObject = std::unique_ptr<T, Releaser<T, R>>;

/// What people want of a NIC.
struct DeviceOptions {
  HcaList list;  // which of its ports may be used
  PathSettings path{};
  NicUse use = NicUse::kDriven;
  std::filesystem::path root = "/";  // above sys, where a port's traffic class is looked up
};

/// What ibv_query_device says of queues that a CPU posts to.
struct VerbsLimits {
  uint32_t requests = 0;     // of one send queue, at a time
  uint32_t completions = 0;  // of one completion queue
};

/// An open NIC with one port that is active, and the GID that its connections use.
class Device {
 public:
  /// Opens `hca` (a name such as mlx5_0), or the first usable device when it is empty. Throws
  /// kUnsupported that names the devices there are, or what this one lacks; what choose_port() and
  /// choose_gid() throw. For NicUse::kVerbs nothing but libibverbs is asked: then there is no
  /// event_queue(), capabilities() has the largest numbers only, and nothing of model_library.h can
  /// be made.
  Device(std::shared_ptr<const VerbsLibrary> library, const std::string& hca,
         const DeviceOptions& options = {});

  const std::string& name() const { return name_; }
  const std::string& firmware() const { return firmware_; }
  /// True for the software NIC: its UAR is ordinary memory.
  bool software() const { return software_; }
  /// What it is: "softnic-cpu" or "softnic-gpu" for the software NIC, by where its engine runs
  /// (the first registered memory decides, so asked anew each time), else name().
  std::string model() const;
  /// One line for people: name, firmware, library.
  std::string description() const;
  /// Another one: port, link layer, address, and the settings of its paths.
  std::string path_description() const;

  /// For the software NIC: which fabric it is on, and what it has had no room for in a syndrome.
  const VerbsLibrary::SoftwareFabric& fabric() const { return fabric_; }
  std::string trouble() const { return library_->software_trouble(context_.get()); }

  const PortAttributes& port() const { return port_; }
  uint16_t lid() const { return port_.lid; }
  const GidEntry& gid() const { return gid_; }
  const Partition& partition() const { return partition_; }
  /// The largest MTU that connections may use, as a code: what the port does and people want.
  uint8_t mtu() const { return std::min(port_.mtu, path_.largest_mtu); }
  const PathSettings& path_settings() const { return path_; }
  uint32_t event_queue() const { return event_queue_; }
  /// What counts at the port; 0 = nothing does.
  uint8_t counter_set() const { return counter_set_; }
  const Capabilities& capabilities() const { return capabilities_; }
  /// What is known of the order in which WRITEs are placed.
  const PlacementFacts& placement() const { return placement_; }
  const VerbsLimits& limits() const { return limits_; }
  NicUse use() const { return use_; }

  const VerbsLibrary& library() const { return *library_; }
  const std::shared_ptr<const VerbsLibrary>& shared_library() const { return library_; }
  ibv_context* context() const { return context_.get(); }

 private:
  void open(ibv_device* device);
  void read_limits(const ibv_device_attr& attributes);
  void read_firmware_capabilities();
  ibv_device_attr query() const;
  void read_port(uint8_t count, const DeviceOptions& options);
  void read_placement(const ibv_device_attr& attributes);

  std::shared_ptr<const VerbsLibrary> library_;
  std::string name_;
  std::string firmware_;
  bool software_ = false;
  VerbsLibrary::SoftwareFabric fabric_;
  NicUse use_;
  PortAttributes port_;
  PathSettings path_;
  GidEntry gid_;
  Partition partition_;
  uint32_t event_queue_ = 0;
  uint8_t counter_set_ = 0;
  VerbsLimits limits_;
  Capabilities capabilities_;
  PlacementFacts placement_;
  OwnedObject<ibv_context, int> context_;
};

class ProtectionDomain {
 public:
  explicit ProtectionDomain(const Device& device);
  uint32_t number() const { return number_; }  // for firmware commands; 0 where there are none
  ibv_pd* handle() const { return pd_.get(); }

 private:
  OwnedObject<ibv_pd, int> pd_;
  uint32_t number_ = 0;
};

}  // namespace peal::nic

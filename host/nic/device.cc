// SPDX-License-Identifier: Apache-2.0
//
// Opening a NIC and what belongs to it. Every failure names the call, the object and the remedy.
#include "host/nic/device.h"

#include <fmt/format.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "host/base/error.h"
#include "host/nic/partition.h"

namespace peal::nic {
namespace {

std::string firmware_in(const ibv_device_attr& attributes) {
  return {attributes.fw_ver, ::strnlen(attributes.fw_ver, sizeof attributes.fw_ver)};
}

std::string joined(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Device::Device(std::shared_ptr<const VerbsLibrary> library, const std::string& hca,
               const DeviceOptions& options)
    : library_(std::move(library)),
      use_(options.use),
      path_(options.path),
      context_(nullptr, {library_->ibv.close_device}) {
  const DeviceList list(*library_);
  ibv_device* const device = list.find(hca);
  if (!device) {
    fail(ErrorCode::kUnsupported, "no {} {} by {}: it has {}; PEAL_HCA chooses one",
         library_->wanted(), hca.empty() ? "at all" : "called \"" + hca + "\"",
         library_->description(), joined(device_names(*library_)));
  }
  name_ = library_->ibv.get_device_name(device);
  open(device);
  fabric_ = library_->software_fabric(context_.get());
  if (use_ == NicUse::kVerbs) library_->keep_software_on_cpu(context_.get());
  const ibv_device_attr attributes = query();
  firmware_ = firmware_in(attributes);
  software_ = firmware_.find("softnic") != std::string::npos || library_->software();
  read_limits(attributes);
  read_port(attributes.phys_port_cnt, options);
  if (use_ == NicUse::kDriven) read_firmware_capabilities();
  read_placement(attributes);
}

void Device::open(ibv_device* device) {
  if (use_ == NicUse::kVerbs) {
    errno = 0;
    context_.reset(library_->ibv.open_device(device));
    if (context_) return;
    const int error = errno;
    fail(ErrorCode::kSystem, "ibv_open_device({}): {}; {}", name_, std::strerror(error),
         library_->software() ? library_->software_reason()
                              : "peal needs access to /dev/infiniband/uverbs*");
  }
  context_.reset(open_to_drive(*library_, device));
}

void Device::read_firmware_capabilities() {
  event_queue_ = event_queue_of(*library_, context_.get(), name_);
  capabilities_ = query_capabilities(*library_, context_.get());
  require(capabilities_, name_);
  // The software NIC counts nothing, and queues of the host's memory would keep it from a GPU.
  if (!software_) counter_set_ = counter_set_of(*library_, context_.get(), port_.number);
}

// Without DEVX an mlx5 device cannot be asked.
void Device::read_placement(const ibv_device_attr& attributes) {
  constexpr uint32_t kMellanox = 0x02c9;
  placement_.mlx5 =
      use_ == NicUse::kDriven || attributes.vendor_id == kMellanox || name_.starts_with("mlx5");
  placement_.relaxed_only = capabilities_.relaxed_only;
  placement_.forces_order = capabilities_.forces_order;
  placement_.service_level = path_.service_level;
  if (capabilities_.pci_atomics) {
    placement_.atomics = AtomicOrder::kBus;
  } else if (capabilities_.places_all_out_of_order) {
    placement_.atomics = AtomicOrder::kOutOfOrder;
  }
  if (capabilities_.tells_ooo_sls && port_.link_layer == LinkLayer::kInfiniBand) {
    placement_.ooo_sl_mask = query_ooo_sl_mask(*library_, context_.get(), port_.number);
  }
}

void Device::read_limits(const ibv_device_attr& attributes) {
  const auto positive = [](int value) { return static_cast<uint32_t>(std::max(value, 0)); };
  limits_ = {.requests = positive(attributes.max_qp_wr),
             .completions = positive(attributes.max_cqe)};
  if (use_ == NicUse::kDriven) return;
  const auto log = [&positive](int value) {
    return static_cast<uint32_t>(std::bit_width(positive(value) | 1)) - 1;
  };
  capabilities_.log_max_qp = log(attributes.max_qp);
  capabilities_.log_max_cq = log(attributes.max_cq);
  capabilities_.log_max_queue_blocks = log(attributes.max_qp_wr);
  capabilities_.log_max_responder_depth = log(attributes.max_qp_rd_atom);
  capabilities_.log_max_initiator_depth = log(attributes.max_qp_init_rd_atom);
  if (attributes.atomic_cap == IBV_ATOMIC_NONE) {
    fail(
        ErrorCode::kUnsupported,
        "{} has no atomics (ibv_query_device: atomic_cap), which signals and barriers need; choose "
        "another NIC by PEAL_HCA",
        name_);
  }
}

ibv_device_attr Device::query() const {
  ibv_device_attr attributes{};
  if (const int error = library_->ibv.query_device(context_.get(), &attributes); error != 0) {
    fail_errno(error, "ibv_query_device(" + name_ + ")");
  }
  return attributes;
}

std::string Device::model() const {
  if (!software_) return name_;
  return firmware_in(query()).find("softnic-gpu") != std::string::npos ? "softnic-gpu"
                                                                       : "softnic-cpu";
}

void Device::read_port(uint8_t count, const DeviceOptions& options) {
  port_ = choose_port(*library_, context_.get(), name_, std::max<uint8_t>(count, 1), options.list);
  if (!port_.active) {
    fail(ErrorCode::kUnsupported,
         "port {} of {} is not active (state {}): bring its link up, or choose another NIC by "
         "PEAL_HCA",
         port_.number, name_, port_.state);
  }
  if (port_.link_layer == LinkLayer::kInfiniBand && port_.lid == 0) {
    fail(ErrorCode::kUnsupported,
         "port {} of {} has no LID: the subnet manager gives them, start opensm or ask who runs it",
         port_.number, name_);
  }
  check_service_level(name_, port_, path_);
  // What sysfs says of a name is said of a card: not of the software NIC that has the same name.
  if (!software_) follow_traffic_class(name_, port_, path_, options.root);
  gid_ = choose_gid(name_, port_, read_gids(*library_, context_.get(), name_, port_), path_);
  partition_ = choose_partition(name_, port_,
                                read_partitions(*library_, context_.get(), name_, port_), path_);
}

std::string Device::description() const {
  return fmt::format("{}, firmware {}, by {}", name_, firmware_in(query()),
                     library_->description());
}

std::string Device::path_description() const {
  const bool ethernet = port_.link_layer == LinkLayer::kEthernet;
  const std::string address = ethernet ? "GID " + describe(gid_) : fmt::format("LID {}", lid());
  std::string text = fmt::format("{} port {}, {}, {}, MTU {}, {} {}", name_, port_.number,
                                 to_string(port_.link_layer), address, mtu_bytes(mtu()),
                                 ethernet ? "priority" : "service level", path_.service_level);
  if (ethernet) text += fmt::format(", traffic class {}", path_.traffic_class);
  if (partition_.key != Partition::kDefaultKey) text += ", " + describe_key(partition_.key);
  if (capabilities_.takes_any_order) text += ", takes WRITEs in any order (dp_ordering_ooo_rw_rc)";
  if (capabilities_.bonded_ports > 1) {
    text += fmt::format(", {} bonded ports", capabilities_.bonded_ports);
  }
  if (!path_.taken.empty()) text += fmt::format("; {}", fmt::join(path_.taken, ", "));
  return text;
}

ProtectionDomain::ProtectionDomain(const Device& device)
    : pd_(device.library().ibv.alloc_pd(device.context()), {device.library().ibv.dealloc_pd}) {
  if (!pd_) fail_errno(errno, "ibv_alloc_pd(" + device.name() + ")");
  if (device.use() == NicUse::kVerbs) return;
  number_ = domain_number_of(device.library(), pd_.get(), device.name());
}

}  // namespace peal::nic

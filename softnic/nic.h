// SPDX-License-Identifier: Apache-2.0
//
// The software NIC's control interface: what firmware commands and verbs calls become.
//
//   verbs / mlx5dv ABI, DEVX interpreter  ->  SoftwareNic (this page)  ->  engine (steps queue
//   pairs)  -> wire (other NICs)
//
// One SoftwareNic per device that the process has open. Control calls may come from any thread;
// each takes the NIC's lock, so that once a call returns the engine no longer uses what it
// destroyed. Calls answer a Refusal instead of throwing: the ABI turns it into errno and into
// firmware status and syndrome.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "softnic/control/commands.h"
#include "softnic/control/waking_queue.h"
#include "softnic/engine/fault_plan.h"
#include "softnic/engine/gpu_memory.h"
#include "softnic/presentation/settings.h"
#include "softnic/wire/fabric.h"
#include "softnic/wire/route.h"

namespace peal::softnic {

struct CpuEngine;
struct UdpEnd;
namespace gpu {
class Client;
class Exporter;
}  // namespace gpu

/// A device's NIC. Opened by the device's first context, closed with the last.
class SoftwareNic {
 public:
  /// Joins the fabric as `device`, starts the engine thread. Throws std::system_error naming file
  /// and cause.
  static std::shared_ptr<SoftwareNic> open(const PresentedDevice& device = {}) {
    return std::make_shared<SoftwareNic>(device);
  }
  explicit SoftwareNic(const PresentedDevice& device);
  ~SoftwareNic();
  SoftwareNic(const SoftwareNic&) = delete;
  SoftwareNic& operator=(const SoftwareNic&) = delete;

  /// Unicast LID of this NIC on its fabric, 1..0xbfff; unique among the live processes of one host
  /// and user.
  uint16_t lid() const { return fabric_.lid(); }
  /// GUID from which the port GID is built; unique with the LID.
  uint64_t guid() const { return fabric_.guid(); }

  /// Which fabric that is, where its files lie, and what the last trouble there was ("": none): see
  /// Fabric. 0 for one that reaches others by UDP.
  uint64_t fabric() const { return udp_ == nullptr ? fabric_.identity() : 0; }
  const std::string& directory() const { return fabric_.directory(); }
  std::string trouble() const { return fabric_.trouble(); }

  /// What it presents itself as, and what follows from that and the LID: its GID table.
  const PresentedDevice& device() const { return device_; }
  const std::vector<GidTableEntry>& gids() const { return gids_; }
  /// The ways from here.
  const Router& router() const { return router_; }

  Created allocate_pd() { return run(AllocatePd{}); }
  /// Refused (busy) while keys or queues use it.
  Refusal free_pd(uint32_t pd) { return run(FreePd{pd}); }

  /// Asked for each range before it is first registered or used as a queue. True when it is a
  /// GPU's: then this process cannot tell whether all of the range is valid. The first answer
  /// decides which engine runs (setting PEAL_SOFTNIC_ENGINE): no other control call may run
  /// meanwhile. An engine on the CPU has data and queues in a GPU's memory copied
  /// (softnic/engine/gpu_memory.h); one on a GPU reaches GPUs' memory only.
  /// Throws std::runtime_error naming the cause when the GPU engine does not start, or the range is
  /// out of reach of the one that runs.
  bool admit(const void* address);

  /// Asked for queues in a GPU's memory that was admitted. Where PEAL_SOFTNIC_ENGINE=auto has
  /// decided for the CPU, which has them copied, this tells so on stderr, once.
  void tell_of_copied_queues();

  /// From now on auto means the CPU: queues will be in the host's memory. Throws
  /// std::runtime_error once the engine runs on a GPU.
  void keep_on_cpu();

  /// What the configurations of keys and queues call memory that was admitted: an engine on the CPU
  /// has a mark on a GPU's, which it does not load and store.
  std::byte* as_engine_has(std::byte* memory) const;

  /// True for memory that a GPU driver of this process has allocated on a GPU.
  bool is_gpu_memory(const void* address) const;

  /// Which engine runs: the CPU's until admit() has decided.
  bool on_gpu() const { return gpu_ != nullptr; }

  /// Memory for a UAR page of an engine on a GPU: on the GPU that is current in the calling thread,
  /// whose kernels need not go over the bus to ring and may reach no other one; on that of the
  /// first memory if none is current. Null while the engine runs on the CPU. Throws
  /// std::runtime_error.
  std::shared_ptr<std::byte> gpu_page(size_t bytes) const;

  Created register_memory(const Key& config);  // answers lkey = rkey
  /// Gives a key another PD, access and memory; its number stays. A refusal leaves it as it was.
  /// Refused by an engine on a GPU.
  Refusal change_memory(uint32_t key, const Key& config);
  /// Answers the key: an index with the variant of `config`. What its entries name is looked at
  /// when it is used. Refused by an engine on a GPU.
  Created make_indirect_key(const IndirectKey& config);
  Refusal deregister_memory(uint32_t key);

  /// Without a buffer it is a number for objects that must name a CQ and complete nothing there.
  Created create_cq(const CompletionQueueConfig& config) { return run(CreateCq{config}); }
  /// Refused (busy) while a queue pair uses it.
  Refusal destroy_cq(uint32_t cqn) { return run(DestroyCq{cqn}); }
  /// CQEs ever written; 0 for an unknown cq.
  uint64_t cq_produced(uint32_t cqn) const { return run(CqProduced{cqn}).produced; }

  /// The next entry of the CQ tells `listener`, once; with `solicited_only` the next that was
  /// solicited or is an error. At once if there is one beyond the `consumed` first and newer than
  /// the last that was told. Until the CQ is destroyed the listener must live. Refused by an engine
  /// on a GPU.
  Refusal arm_cq(uint32_t cqn, uint32_t consumed, bool solicited_only,
                 CompletionListener& listener);

  /// Every event of a CQ that its client arms through record and register tells `listener`, which
  /// must live until the CQ is destroyed. Refused for a collapsed CQ, and by an engine on a GPU.
  Refusal listen_cq(uint32_t cqn, CompletionListener& listener);

  /// An engine on a GPU knows the queue by number and PD only: nothing is taken from it there.
  Created create_srq(const SharedReceiveConfig& config) { return run(CreateSrq{config}); }
  /// Refused (busy) while a queue pair uses it.
  Refusal destroy_srq(uint32_t srqn) { return run(DestroySrq{srqn}); }
  /// Raises kSrqLimit, once, as soon as fewer than `limit` entries wait; 0 ends that. Refused for a
  /// limit of all entries or more, and by an engine on a GPU.
  Refusal arm_srq(uint32_t srqn, uint32_t limit);
  uint32_t srq_limit(uint32_t srqn) const;  // 0 when it is not armed

  /// Refused (no resources) beyond the device's max_qp; DC targets count too.
  Created create_qp(const QueuePairConfig& config) { return counted(CreateQp{config}); }
  /// One of RST2INIT .. 2RST: `to.state` names the target; illegal transitions are refused with
  /// kBadQpState.
  Refusal modify_qp(uint32_t qpn, QpState from, const QueuePairAttributes& to) {
    return run(ModifyQp{qpn, from, to});
  }
  Refusal query_qp(uint32_t qpn, QueuePairAttributes* answer) const;
  Refusal destroy_qp(uint32_t qpn) { return released(DestroyQp{qpn}); }

  /// Answers the DCTN.
  Created create_dc_target(const DcTargetConfig& config) { return counted(CreateDcTarget{config}); }
  Refusal destroy_dc_target(uint32_t dctn) { return released(DestroyDcTarget{dctn}); }

  /// A UAR page. `page` (4 KiB) is plain memory the caller owns, the host's or gpu_page(). An
  /// engine on the CPU takes doorbells from its registers, which are 0 again then
  /// (PEAL_SOFTNIC_DOORBELL).
  Created attach_uar(std::byte* page) { return run(AttachUar{page}); }
  Refusal detach_uar(uint32_t page_id) { return run(DetachUar{page_id}); }

  /// Next async event, or false. event_fd() is readable while one waits.
  bool next_event(AsyncEvent* event);
  int event_fd() const { return events_.fd(); }

  /// Misuse counted so far, of all queues of this NIC.
  Violations violations() const { return run(QueryViolations{}).violations; }

  /// Replaces the fault plan; an empty one ends all faults. WQEs and doorbells count from here.
  /// An engine on a GPU refuses fault=kill where it cannot see this process. Not by two threads at
  /// once.
  Refusal set_faults(const FaultPlan& plan);
  /// False while a fault has the port down.
  bool port_up() const { return run(QueryPort{}).number != 0; }

 private:
  /// Runs the command on the engine in charge.
  Outcome run(const Command& command) const;
  /// Makes a queue pair, if the device has one left.
  Created counted(const Command& make);
  Refusal released(const Command& destroy);

  bool wants_gpu(bool memory_of_gpu) const;
  void move_to_gpu(const void* address);

  Settings settings_;
  PresentedDevice device_;
  Fabric fabric_;
  std::unique_ptr<UdpEnd> udp_;  // null without PEAL_SOFTNIC_UDP
  std::vector<GidTableEntry> gids_;
  Router router_;
  std::unique_ptr<gpu::Exporter> exporter_;
  std::shared_ptr<GpuCopier> copier_;  // null until a GPU's memory is admitted
  std::unique_ptr<CpuEngine> cpu_;     // until the GPU takes over
  std::unique_ptr<gpu::Client> gpu_;
  int home_ = 0;  // GPU of the memory that decided for one, which may be gone since
  bool decided_ = false;
  bool kept_on_cpu_ = false;
  bool told_of_copies_ = false;
  std::atomic<uint32_t> queue_pairs_ = 0;
  AnyReadable events_;  // of the engine in charge
};

}  // namespace peal::softnic

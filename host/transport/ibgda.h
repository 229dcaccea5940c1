// SPDX-License-Identifier: Apache-2.0
//
// The queues that device/transport/ibgda.h drives: one context's worth, to every peer, connected.
//
//   [ queue 0 to pe 0 | queue 0 to pe 1 | ... | queue 1 to pe 0 | ... ]   each
//   nic::QueueMemoryLayout
//
// One allocation, one umem, one registration for all of them, in memory that the kernels are close
// to: the host's, or the GPU's, where the host writes the first contents and reads errors by
// copies. PE k's queue q to me is connected to my queue q to PE k.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/mlx5/queue.h"
#include "host/base/config.h"
#include "host/bootstrap.h"
#include "host/memory/backing.h"
#include "host/memory/backing_cuda.h"
#include "host/nic/device.h"
#include "host/nic/queue_layout.h"
#include "host/nic/queue_pair.h"

namespace peal {

/// What a context's queues look like.
struct QueueOptions {
  uint32_t queues_per_peer;
  uint32_t depth;        // WQEBBs; power of two, mlx5::kMinDepth..kMaxDepth
  uint64_t timeout_ns;   // of waits inside a queue; 0 = none
  const uint32_t* stop;  // the context's stop word
  uint32_t* alarm;       // set when a queue has its first error

  /// Throws kInvalidArgument that names the setting which is out of range.
  void check() const;
};

/// The NIC of a PE, open.
struct IbgdaNic {
  /// `gpu` is that of the kernels, null when they run on the CPU.
  IbgdaNic(const Config& config, std::shared_ptr<Gpu> gpu);

  std::shared_ptr<Gpu> gpu;
  nic::Ordering payload;  // of what is no word: PEAL_RELAXED_ORDERING
  std::string why;        // this device: "mlx5_3: same PCIe switch as GPU 2"
  nic::Device device;
  nic::ProtectionDomain domain;
};

/// The doorbell page that the queues of a PE share. Made after the heap's window: the software NIC
/// may have gone to a GPU with it, and has its pages in GPU memory then. Outlived by the NIC.
class Doorbell {
 public:
  explicit Doorbell(const IbgdaNic& nic);

  const nic::Uar& uar() const { return uar_; }
  /// The register, as kernels store into it.
  uint64_t* address() const { return address_; }

 private:
  nic::Uar uar_;
  PinnedRange pinned_;  // the page, where it is the host's and kernels run on a GPU
  uint64_t* address_;
};

/// Owns the queues of one context. Construction is collective and leaves every queue ready to send.
class IbgdaQueues {
 public:
  IbgdaQueues(const IbgdaNic& nic, const Doorbell& doorbell, Bootstrap& bootstrap,
              const QueueOptions& options);

  /// Device-visible state of queue 0 to PE 0; the next one is stride() bytes further.
  std::byte* first() const { return memory_.address() + layout_.state(); }
  uint64_t stride() const { return layout_.bytes(); }

  uint32_t per_peer() const { return queues_; }
  uint32_t depth() const { return layout_.depth; }
  uint32_t count() const { return static_cast<uint32_t>(pairs_.size()); }
  /// The first error of a queue, with the queue it is of; `error.status` is 0 while there is none.
  /// May be asked while kernels run.
  mlx5::SendQueue failed(uint32_t index) const;

  /// Where a queue stands, in free-running counts of WQEBBs; as of some moment while kernels run.
  struct Progress {
    uint32_t peer;
    uint32_t qpn;
    uint32_t depth;
    uint64_t reserved;
    uint64_t published;
    uint64_t rung;
    uint64_t completed;
    uint32_t last_cqe;  // the CQE's wqe_counter and op_own in host order, as poll() reads them
    Status status;
  };
  Progress progress(uint32_t index) const;

  nic::QueueState nic_state(uint32_t index) const { return pairs_[index].query_state(); }

  /// True when kernels or the NIC have given the queue up.
  bool broken(uint32_t index) const;
  /// Takes a queue back to what it was when it was made, but not connected. Work that was under way
  /// is forgotten. No kernel may be using it; nor later from a Ticket of before.
  void reset(uint32_t index);
  /// Connects it again, after both ends were reset. `generation` is new and the same at both: late
  /// packets of the connection before must not fit.
  void reconnect(uint32_t index, uint32_t generation);
  /// Frees the landing cells that fetches which ended early never gave back.
  void renew_landing(uint32_t index);
  /// From now on every operation answers `status` at once.
  void close(uint32_t index, Status status);

 private:
  const mlx5::SendQueue* state(uint32_t index) const;  // where kernels have it
  std::byte* base(uint32_t index) const { return memory_.address() + index * stride(); }
  void change(uint32_t index, void (*edit)(mlx5::SendQueue&));
  void create(const IbgdaNic& nic, const nic::Uar& uar, uint32_t depth);
  void connect(const nic::Device& device, Bootstrap& bootstrap);
  void fill_in(uint32_t index, const IbgdaNic& nic, uint64_t* doorbell,
               const QueueOptions& options);

  nic::QueueMemoryLayout layout_;
  uint32_t n_pes_;
  uint32_t queues_;
  Backing memory_;
  nic::Umem umem_;
  nic::MemoryRegion region_;
  std::vector<nic::CompletionQueue> cqs_;
  std::vector<nic::QueuePair> pairs_;
  std::vector<nic::RemoteQueue> remotes_;  // the other ends, by index
};

}  // namespace peal

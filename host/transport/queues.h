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

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/mlx5/queue.h"
#include "host/bootstrap.h"
#include "host/memory/backing.h"
#include "host/nic/device.h"
#include "host/nic/queue_layout.h"
#include "host/nic/registration.h"
#include "host/transport/doorbell.h"
#include "host/transport/ibgda.h"
#include "host/transport/queue_end.h"
#include "host/transport/self_test.h"

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

/// Owns the queues of one context. Construction is collective and leaves every queue ready to send.
class Queues {
 public:
  Queues(const IbgdaNic& nic, const Doorbell& doorbell, Bootstrap& bootstrap,
         const QueueOptions& options);

  /// Device-visible state of queue 0 to PE 0; the next one is stride() bytes further.
  std::byte* first() const { return memory_.address() + layout_.state(); }
  uint64_t stride() const { return layout_.bytes(); }

  uint32_t per_peer() const { return queues_; }
  uint32_t depth() const { return layout_.depth; }
  uint32_t count() const { return static_cast<uint32_t>(ends_.size()); }
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

  /// How the NIC got to know the queues' memory: as that of rings, doorbell records and CQEs, and
  /// as that of landing cells.
  std::string describe_registration() const;

  nic::QueueState nic_state(uint32_t index) const { return ends_[index]->state(); }

  /// Where queues are tested: cells in every PE's heap, kSlots for each PE that tests.
  struct ProvingGround {
    static constexpr uint32_t kSlots = 4;
    uint64_t cells;           // offset in the heap; kSlots x PEs x kSelfTestCell bytes
    uint32_t pe;              // this one
    std::vector<Be32> rkeys;  // of the heaps, by PE
    std::vector<Be32> word_rkeys;
    std::vector<uint8_t> absent;  // by PE: 1 = has no other end
  };
  /// Tests all queues, as many to each PE at once as there are slots, under one deadline. Answers
  /// what failed; those behind are not tested then. To be called once, before kernels use the
  /// queues; those that passed begin with kSelfTestBlocks completed.
  std::vector<SelfTestResult> prove(const ProvingGround& ground, uint32_t tag,
                                    std::chrono::nanoseconds deadline);

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
  void fill_in(uint32_t index, bool ring_twice, const QueueOptions& options);

  nic::QueueMemoryLayout layout_;
  uint32_t n_pes_;
  uint32_t queues_;
  Backing memory_;
  nic::Umem umem_;
  nic::MemoryRegion region_;
  Bells bells_;
  std::vector<std::unique_ptr<QueueEnd>> ends_;
  std::vector<nic::RemoteQueue> remotes_;  // the other ends, by index
};

}  // namespace peal

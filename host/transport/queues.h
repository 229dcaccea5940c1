// SPDX-License-Identifier: Apache-2.0
//
// The queues that device/nic/post.h drives: one context's worth, to every peer. Memory there
// is for all of them from the start; queue pairs are made and connected link by link
// (host/contexts/link_machine.h).
//
//   [ queue 0 to pe 0 | queue 0 to pe 1 | ... | queue 1 to pe 0 | ... ]   each
//   nic::QueueMemoryLayout; behind the last one the marks of all
//
// One allocation for all of them, one queue region and one memory region of it by each NIC, in
// memory that the kernels are close to: the host's, or the GPU's, where the host writes the first
// contents and reads errors by copies. PE k's queue q to me is connected to my queue q to PE k.
//
// Where a CPU thread carries the work requests (ProxyEnd) it needs them in the host's memory, and
// the results too. With kernels on a GPU only the SendQueue then lies with them, and all else in a
// second allocation of the same layout, pinned and mapped.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/transport/model.h"
#include "host/base/config.h"
#include "host/memory/backing.h"
#include "host/nic/carried_queue.h"
#include "host/nic/device.h"
#include "host/nic/queue_end.h"
#include "host/nic/queue_layout.h"
#include "host/nic/registration.h"
#include "host/transport/connection.h"
#include "host/transport/doorbell.h"
#include "host/transport/proxy.h"
#include "host/transport/rails.h"
#include "host/transport/self_test.h"

namespace peal {

/// How many queues a context has, and of what size; the same on all PEs.
struct QueueShape {
  uint32_t queues_per_peer;
  uint32_t depth;      // WQEBBs; power of two, kMinQueueDepth..nic::Model::kMaxDepth
  uint32_t rails = 1;  // queue q goes by rail q % rails
  bool owned = false;  // each block has its own queue to every peer

  /// Throws kInvalidArgument that names the setting which is out of range.
  void check() const;
};

/// What kernels find in each queue of a context beside the queue. The words outlive the queues.
struct QueueWiring {
  uint64_t timeout_ns;   // of waits inside a queue; 0 = none
  const uint32_t* stop;  // the context's stop word
  uint32_t* alarm;       // set when a queue has its first error
  uint32_t* requests;    // by PE: set when a kernel wants the link to it
  bool tested = true;    // queues are proven before they are opened
  FenceKind fence = FenceKind::kAuto;
  WaitTable* waits = nullptr;  // where kernels note their waits; null: nobody asks
  PostTimes* times = nullptr;  // where they add up what posts take; null likewise
};

/// Who takes the work requests out of queues: the NICs themselves, rung through `doorbells`, one
/// for each; or, where that is null, `proxies`, likewise.
struct Carrier {
  const Doorbells* doorbells;
  Proxies* proxies;
};

/// Owns the queues of one context. One thread at a time makes, connects and resets them. What may
/// be asked by others meanwhile, and while kernels run: failed(), progress(), marked(),
/// under_way(), and what never changes.
class Queues {
 public:
  /// None has a queue pair.
  Queues(const Rails& rails, const Carrier& carrier, uint32_t n_pes, const QueueShape& shape,
         const QueueWiring& wiring);

  /// Device-visible state of queue 0 to PE 0; the next one is stride() bytes further.
  std::byte* first() const { return memory_.address() + layout_.state(); }
  uint64_t stride() const { return layout_.bytes(); }
  /// Their marks (device/nic/mark.h), behind the last one.
  uint64_t* marks() const {
    return reinterpret_cast<uint64_t*>(memory_.address() + count() * layout_.bytes());
  }

  const QueueShape& shape() const { return shape_; }
  uint32_t n_pes() const { return n_pes_; }
  uint32_t count() const { return static_cast<uint32_t>(ends_.size()); }
  int peer(uint32_t index) const { return static_cast<int>(index % n_pes_); }
  uint32_t rail(uint32_t index) const { return index / n_pes_ % shape_.rails; }
  const IbgdaNic& nic_of(uint32_t index) const { return rails_.nics()[nic_index(index)]; }

  /// The first error of a queue, with the queue it is of; `error.status` is 0 while there is none.
  SendQueue failed(uint32_t index) const;

  /// Where a queue stands, in free-running counts of WQEBBs; as of some moment while kernels run.
  struct Progress {
    uint32_t peer;
    uint32_t qpn;  // 0: none yet
    uint32_t depth;
    uint64_t reserved;
    uint64_t published;
    uint64_t rung;
    uint64_t completed;
    Status status;
  };
  Progress progress(uint32_t index) const;
  /// The queues that kernels have posted to, without those that a quiet has found complete and
  /// unmarked.
  std::vector<uint32_t> marked() const;
  /// The NIC has not answered yet what was posted on a queue that is marked, and may.
  bool under_way(uint32_t index) const;
  /// The newest completion, in words.
  std::string last_completion(uint32_t index) const;

  /// How the NIC got to know the queues' memory: as that of rings, doorbell records and CQEs, and
  /// as that of landing cells.
  std::string describe_registration() const;

  /// Makes the queue pair, if there is none; answers what the peer has to know of it.
  Endpoint make(uint32_t index);
  /// Connects a queue that is made, or reset, to the peer's. `generation` is the same at both ends:
  /// late packets of a connection before must not fit.
  void connect(uint32_t index, const Endpoint& remote, uint32_t generation);
  /// The same with the peer's of before, after both ends were reset.
  void reconnect(uint32_t index, uint32_t generation);
  /// Where the queue leads: "LID 5, GID fe80::2, MTU 4096" of the path to the other end. It is
  /// connected.
  std::string describe_path(uint32_t index) const;
  /// What the test of a connected queue needs, without the cell and its keys.
  QueueUnderTest under_test(uint32_t index);
  /// Lets kernels use it.
  void open(uint32_t index);
  /// True when kernels or the NIC have given an open queue up, when a kernel ended between
  /// reserving and handing over, or when it was never opened again after a reset. No kernel may be
  /// using it.
  bool broken(uint32_t index) const;
  /// Takes a queue back to what it was when it was made, but not connected. Work that was under way
  /// is forgotten. No kernel may be using it; nor later from a Ticket of before.
  void reset(uint32_t index);
  /// Frees the landing cells that fetches which ended early never gave back.
  void renew_landing(uint32_t index);
  /// From now on every operation answers `status` at once.
  void close(uint32_t index, Status status);

 private:
  SendQueue* state(uint32_t index) const;  // where kernels have it
  // Where the ring, CQE, records and landing cells of all queues are.
  Backing& shared() { return host_memory_ ? *host_memory_ : memory_; }
  const Backing& shared() const { return host_memory_ ? *host_memory_ : memory_; }
  std::byte* shared_base(uint32_t index) const { return shared().address() + index * stride(); }
  void change(uint32_t index, const std::function<void(SendQueue&)>& edit);
  size_t nic_index(uint32_t index) const { return rails_.nic_of(rail(index)); }
  void fill_in(uint32_t index, const QueueWiring& wiring);
  /// Nothing posted, nothing failed, not connected.
  void start_afresh(SendQueue& queue) const;
  nic::CarriedMemory carried_memory(uint32_t index) const;
  std::unique_ptr<nic::QueueEnd> make_end(uint32_t index) const;

  /// The queues' memory, as one NIC knows it, and where its queues ring.
  struct Registered {
    Registered(const IbgdaNic& nic, const nic::Memory& memory, const Doorbell* doorbell,
               size_t queues);
    std::optional<nic::QueueRegion> queue_region;  // where the NIC takes work requests itself
    nic::MemoryRegion region;                      // of shared()
    Bells bells;                                   // as queue_region; else a null one
  };

  const Rails& rails_;
  Carrier carrier_;
  QueueShape shape_;
  nic::QueueMemoryLayout layout_;
  uint32_t n_pes_;
  Backing memory_;
  std::optional<Backing> host_memory_;
  std::deque<Registered> registered_;                 // by NIC
  std::vector<std::unique_ptr<nic::QueueEnd>> ends_;  // null: not made yet
  std::vector<nic::RemoteQueue> remotes_;             // the other ends, by index
  std::vector<uint64_t> owners_;                      // and whose they are: Endpoint::owner
  uint64_t start_;  // WQEBBs that the self-test uses of each queue
};

}  // namespace peal

// SPDX-License-Identifier: Apache-2.0
//
// The queues that device/transport/ibgda.h drives: one context's worth, to every peer. Memory there
// is for all of them from the start; queue pairs are made and connected link by link (links.h).
//
//   [ queue 0 to pe 0 | queue 0 to pe 1 | ... | queue 1 to pe 0 | ... ]   each
//   nic::QueueMemoryLayout
//
// One allocation for all of them, one umem and one registration of it by each NIC, in memory that
// the kernels are close to: the host's, or the GPU's, where the host writes the first contents and
// reads errors by copies. PE k's queue q to me is connected to my queue q to PE k.
//
// Where a CPU thread carries the work requests (ProxyEnd) it needs them in the host's memory, and
// the results too. With kernels on a GPU only the SendQueue then lies with them, and all else in a
// second allocation of the same layout, pinned and mapped.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/mlx5/queue.h"
#include "host/bootstrap.h"
#include "host/memory/backing.h"
#include "host/nic/device.h"
#include "host/nic/queue_layout.h"
#include "host/nic/registration.h"
#include "host/transport/connection.h"
#include "host/transport/doorbell.h"
#include "host/transport/links.h"
#include "host/transport/proxy_end.h"
#include "host/transport/queue_end.h"
#include "host/transport/rails.h"
#include "host/transport/self_test.h"

namespace peal {

/// What a context's queues look like.
struct QueueOptions {
  uint32_t queues_per_peer;
  uint32_t depth;        // WQEBBs; power of two, mlx5::kMinDepth..kMaxDepth
  uint64_t timeout_ns;   // of waits inside a queue; 0 = none
  const uint32_t* stop;  // the context's stop word
  uint32_t* alarm;       // set when a queue has its first error
  uint32_t* requests;    // by PE: set when a kernel wants the link to it; outlive the queues
  uint32_t rails = 1;    // queue q goes by rail q % rails; the same on all PEs
  bool tested = true;    // queues are proven before they are opened
  FenceKind fence = FenceKind::kAuto;

  /// Throws kInvalidArgument that names the setting which is out of range.
  void check() const;
};

/// Who takes the work requests out of queues: the NICs themselves, rung through `doorbells`, one
/// for each; or, where that is null, `proxies`, likewise.
struct Carrier {
  const Doorbells* doorbells;
  Proxies* proxies;
};

/// Owns the queues of one context. Not thread-safe, but for what may be asked while kernels run.
class Queues {
 public:
  /// Collective. Makes the first links and connects them; none is open.
  Queues(const Rails& rails, const Carrier& carrier, Bootstrap& bootstrap, const FirstLinks& first,
         const QueueOptions& options);

  /// Device-visible state of queue 0 to PE 0; the next one is stride() bytes further.
  std::byte* first() const { return memory_.address() + layout_.state(); }
  uint64_t stride() const { return layout_.bytes(); }

  uint32_t per_peer() const { return queues_; }
  uint32_t depth() const { return layout_.depth; }
  uint32_t count() const { return static_cast<uint32_t>(ends_.size()); }
  /// The first error of a queue, with the queue it is of; `error.status` is 0 while there is none.
  /// May be asked while kernels run, and of a queue without a link.
  mlx5::SendQueue failed(uint32_t index) const;

  /// Where a queue stands, in free-running counts of WQEBBs; as of some moment while kernels run.
  struct Progress {
    uint32_t peer;
    uint32_t qpn;  // 0: none yet
    uint32_t depth;
    uint64_t reserved;
    uint64_t published;
    uint64_t rung;
    uint64_t completed;
    Link link;
    uint32_t last_cqe;  // the CQE's wqe_counter and op_own in host order, as poll() reads them
    Status status;
  };
  Progress progress(uint32_t index) const;

  /// The NIC that a queue goes by: this says which, and nothing else does.
  const IbgdaNic& nic_of(uint32_t index) const { return rails_.nics()[nic_index(index)]; }
  /// Over which the context's queues are spread.
  uint32_t rails() const { return rails_used_; }
  /// How the NIC got to know the queues' memory: as that of rings, doorbell records and CQEs, and
  /// as that of landing cells.
  std::string describe_registration() const;

  /// Where the queue leads: "LID 5, GID fe80::2, MTU 4096" of the path to the other end. It is
  /// connected.
  std::string describe_way(uint32_t index) const;
  /// Asks the NIC; the queue has a link.
  nic::QueueState nic_state(uint32_t index) const { return ends_[index]->state(); }

  Link link(uint32_t pe) const { return links_[pe]; }
  /// Those that are not open: kernels may yet ask for them.
  uint32_t links_to_come() const;
  using Ends = std::vector<std::unique_ptr<QueueEnd>>;
  /// The ends of a link that has none, by queue; and takes them: none to made. Answers what the
  /// peer has to know of them. The first takes long and changes nothing here.
  Ends make_ends(uint32_t pe) const;
  std::vector<Endpoint> take_ends(uint32_t pe, Ends ends);
  /// Connects a link that is made to the ends that the peer made. `generation` is the same at both:
  /// late packets of a connection before must not fit. Takes long; set_link() then says so.
  void connect(uint32_t pe, std::span<const Endpoint> ends, uint32_t generation);
  void set_link(uint32_t pe, Link link) { links_[pe] = link; }
  /// To open: the link to one PE, or all that are connected.
  void open(uint32_t pe);
  void open_connected();
  /// By index: 1 where the queue belongs to a link that is connected and not open.
  std::vector<uint8_t> connected() const;

  /// Where queues are tested: cells in every PE's heap, kSlots for each PE that tests.
  struct ProvingGround {
    static constexpr uint32_t kSlots = 32;
    uint64_t cells;           // offset in the heap; kSlots x PEs x kSelfTestCell bytes
    uint32_t pe;              // this one
    std::vector<Be32> rkeys;  // of the heaps, [rails][PEs]
    std::vector<Be32> word_rkeys;
  };
  /// Tests the chosen queues (1, by index), which are connected and have not been used, as many to
  /// each PE at once as there are slots, under one deadline. Answers what failed; those behind are
  /// not tested then. `tag` and `give_up` as for self_test().
  std::vector<SelfTestResult> prove(const ProvingGround& ground, std::span<const uint8_t> chosen,
                                    uint32_t tag, std::chrono::nanoseconds deadline,
                                    const std::function<bool()>& give_up = {});

  /// True when kernels or the NIC have given the queue up, or when it was never opened again after
  /// a reset; its link is open.
  bool broken(uint32_t index) const;
  /// Takes a queue back to what it was when it was made, but not connected. Work that was under way
  /// is forgotten. No kernel may be using it; nor later from a Ticket of before.
  void reset(uint32_t index);
  /// Connects it again, after both ends were reset. `generation` is new and the same at both.
  void reconnect(uint32_t index, uint32_t generation);
  /// Lets kernels use it.
  void open_queue(uint32_t index);
  /// Takes the whole link back to where there was none.
  void forget(uint32_t pe);
  /// Frees the landing cells that fetches which ended early never gave back.
  void renew_landing(uint32_t index);
  /// From now on every operation answers `status` at once.
  void close(uint32_t index, Status status);

 private:
  const mlx5::SendQueue* state(uint32_t index) const;  // where kernels have it
  std::byte* base(uint32_t index) const { return memory_.address() + index * stride(); }
  // Where the ring, CQE, records and landing cells of all queues are.
  Backing& shared() { return far_memory_ ? *far_memory_ : memory_; }
  const Backing& shared() const { return far_memory_ ? *far_memory_ : memory_; }
  std::byte* shared_base(uint32_t index) const { return shared().address() + index * stride(); }
  void change(uint32_t index, const std::function<void(mlx5::SendQueue&)>& edit);
  uint32_t rail(uint32_t index) const { return index / n_pes_ % rails_used_; }
  size_t nic_index(uint32_t index) const { return rails_.nic_of(rail(index)); }
  void fill_in(uint32_t index, const QueueOptions& options);
  /// Nothing posted, nothing failed, not connected.
  void start_afresh(mlx5::SendQueue& queue) const;
  ProxyMemory proxy_memory(uint32_t index) const;
  std::unique_ptr<QueueEnd> make_end(uint32_t index) const;
  bool unconnected(uint32_t index) const;
  void set_number(uint32_t index, uint32_t qpn);
  void check_kinds(Bootstrap& bootstrap, const FirstLinks& first) const;
  void connect_first(Bootstrap& bootstrap, const FirstLinks& first);

  /// The queues' memory, as one NIC knows it, and where its queues ring.
  struct Way {
    Way(const IbgdaNic& nic, const nic::Memory& memory, const Doorbell* doorbell, size_t queues);
    std::optional<nic::Umem> umem;  // where the NIC takes work requests itself
    nic::MemoryRegion region;       // of shared()
    Bells bells;                    // as umem; else a null one
  };

  const Rails& rails_;
  Carrier carrier_;
  uint32_t rails_used_;
  nic::QueueMemoryLayout layout_;
  uint32_t n_pes_;
  uint32_t queues_;
  Backing memory_;
  std::optional<Backing> far_memory_;
  std::deque<Way> ways_;                   // by NIC
  Ends ends_;                              // null: not made yet
  std::vector<nic::RemoteQueue> remotes_;  // the other ends, by index
  std::vector<Link> links_;                // by PE
  uint64_t start_;                         // WQEBBs that the self-test uses of each queue
  uint32_t* requests_;
};

}  // namespace peal

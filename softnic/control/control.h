// SPDX-License-Identifier: Apache-2.0
//
// Control calls: they check, fill the tables the engine reads, and refuse what firmware would
// refuse. Every call holds the engine still while it changes something.
//
//   Tables (what the engine reads)  <- Control (who may change them, and how) -> Runner (pause)
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "softnic/control/commands.h"
#include "softnic/control/table.h"
#include "softnic/control/waking_queue.h"
#include "softnic/engine/faults.h"
#include "softnic/engine/objects.h"

namespace peal::softnic {

inline Refusal bad_parameter(const char* reason) { return {CommandStatus::kBadParameter, reason}; }
inline Refusal bad_resource(const char* reason) { return {CommandStatus::kBadResource, reason}; }
inline Refusal no_resources(const char* reason) { return {CommandStatus::kNoResources, reason}; }
inline Refusal busy(const char* reason) { return {CommandStatus::kBusy, reason}; }

/// Who advances the queue pairs of a NIC, as control calls see it: a thread (driver.h), or a kernel
/// (gpu/engine_runner.h).
class Runner {
 public:
  virtual ~Runner() = default;

  /// Returns once no queue pair is being advanced; none will be until resume(). For short times.
  virtual void pause() = 0;
  virtual void resume() = 0;

  /// Paused: queue pair `qpn` may have work from now on; forget() before its number is reused.
  virtual void watch(uint32_t qpn) = 0;
  virtual void forget(uint32_t qpn) = 0;

  /// Holds the queue pairs still.
  class Pause {
   public:
    explicit Pause(Runner& runner) : runner_(runner) { runner_.pause(); }
    ~Pause() { runner_.resume(); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Runner& runner_;
  };
};

/// The tables of one NIC and the Port that names them.
struct Tables {
  static constexpr uint32_t kFirstKeyIndex = 16;  // clear of kInvalidLkey and other small numbers
  static constexpr uint32_t kFirstQpn = 0x40;
  // A datagram names the queue pair it is for by number and Q_Key alone: one that comes late would
  // be the next one's. A ConnectX goes through all of its numbers first.
  static constexpr uint32_t kQpnsAtRest = 64;

  /// `epoch` seeds what tells DC connections of one life of this LID from those of another.
  Tables(uint16_t lid, uint32_t epoch, const Timing& timing);
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  Port port;
  Table<Key> keys{kFirstKeyIndex, 1u << 20};
  Table<CompletionQueue> cqs{1, 1u << 16};
  Table<SharedReceiveQueue> srqs{1, 1u << 16};
  Table<QueuePair> qps{kFirstQpn, 1u << 15, kQpnsAtRest};
  Table<DoorbellPage> pages{1, 1u << 15};
  Table<DcConnection> dc_connections{1, 1u << 13};
};

/// See nic.h for what each call means. Any thread may call.
class Control {
 public:
  /// Something counted: a protection domain, and how many objects use it.
  struct Counted {
    bool exists;
    uint32_t users;
  };

  /// Both must outlive the control. Throws std::system_error when there is no event descriptor.
  Control(Tables& tables, Runner& runner) : tables_(tables), runner_(runner) {}

  /// Paused: takes the events the engine has raised.
  void collect();

  const Table<Counted>& pds() const { return domains_; }
  /// A queue pair, DC target or shared receive queue exists.
  bool has_queues() const;

  Outcome run(const Command& command);
  Refusal change_memory(uint32_t key, const Key& config);
  Created make_indirect_key(const IndirectKey& config);
  Refusal arm_cq(uint32_t cqn, uint32_t consumed, bool solicited_only,
                 CompletionListener& listener);
  Refusal listen_cq(uint32_t cqn, CompletionListener& listener);
  Refusal arm_srq(uint32_t srqn, uint32_t limit);
  uint32_t srq_limit(uint32_t srqn);
  /// True while something is left of what collect() has taken.
  bool has_events() const { return !events_.empty(); }
  bool next_event(AsyncEvent* event) {
    return events_.take([event](const AsyncEvent& next) { *event = next; });
  }
  int event_fd() const { return events_.fd(); }
  /// Replaces the fault plan.
  void set_faults(const FaultPlan& plan);

 private:
  /// An armed CQ and who waits for it.
  struct Armed {
    uint32_t cqn;
    CompletionListener* listener;
  };

  Outcome apply(const AllocatePd& call);
  Outcome apply(const FreePd& pd);
  Outcome apply(const RegisterMemory& config);
  Outcome apply(const DeregisterMemory& call);
  Outcome apply(const CreateCq& config);
  Outcome apply(const DestroyCq& call);
  Outcome apply(const CqProduced& call);
  Outcome apply(const CreateSrq& config);
  Outcome apply(const DestroySrq& call);
  Outcome apply(const CreateQp& config);
  Outcome apply(const ModifyQp& call);
  Outcome apply(const QueryQp& call);
  Outcome apply(const DestroyQp& call);
  Outcome apply(const CreateDcTarget& config);
  Outcome apply(const DestroyDcTarget& call);
  Outcome apply(const AttachUar& from);
  Outcome apply(const DetachUar& from);
  Outcome apply(const QueryViolations& call);
  Outcome apply(const FaultRules& part);
  Outcome apply(const QueryPort& call);

  void tell_listeners();
  QueuePair* find_qp(uint32_t qpn, bool target = false);
  uint32_t add(const QueuePairConfig& config);
  Refusal check_key(const Key& config);
  Refusal check(const Key& config);
  Refusal check(const IndirectKey& config);
  uint32_t take_key_index();
  void enter_key(uint32_t number, const Key& config);
  Refusal check(const QueuePairConfig& config);
  Refusal check_shared(uint32_t srqn, uint32_t receive_cq);
  bool completes_at(uint32_t cqn);
  void count_users(const QueuePair& qp, int32_t by);
  void hear_out();
  void release_qp(uint32_t qpn);
  void forget_streams(uint32_t dctn);
  void begin_faults(const FaultPlan& plan);

  Tables& tables_;
  Runner& runner_;
  std::unique_ptr<Faults> faults_;
  FaultPlan coming_;  // as far as its parts have come
  Table<Counted> domains_{1, 1u << 15};
  std::vector<uint8_t> variants_;  // low byte of the key last given to an index
  std::unordered_map<uint32_t, std::vector<KeyEntry>> entries_;   // of indirect keys, by index
  std::unordered_map<uint32_t, std::vector<std::byte>> fetched_;  // QueuePair::fetched, by number
  WakingQueue<AsyncEvent> events_{EFD_NONBLOCK};
  std::vector<Armed> armed_;
  std::unordered_map<uint32_t, CompletionListener*> listeners_;  // of CQs that are rung, by number
};

}  // namespace peal::softnic

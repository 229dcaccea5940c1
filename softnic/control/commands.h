// SPDX-License-Identifier: Apache-2.0
//
// The calls of nic.h that every engine answers, each a struct of plain data that travels to the GPU
// engine's process as it is:
//
// * spans: visits the memory that it names, as visit(T*& address, bytes)
// * Undoes: the call that made what this one destroys
//
// A new call is a struct here, Control::apply() for it, and its name in nic.h.
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "softnic/engine/objects.h"

namespace peal::softnic {

/// Firmware status of a command (mlx5 manual, mailbox conventions): those that are answered here.
enum class CommandStatus : uint8_t {
  kOk = 0x00,
  kInternalError = 0x01,
  kBadOperation = 0x02,
  kBadParameter = 0x03,
  kBadSystemState = 0x04,
  kBadResource = 0x05,
  kBusy = 0x06,
  kNoResources = 0x0f,
  kBadInputLength = 0x50,
  kBadOutputLength = 0x51,
  kBadQpState = 0x10,
  kBadSize = 0x40,
};

/// Why a control call was refused; `reason` is for people (PEAL log, ibv error text).
struct Refusal {
  CommandStatus status = CommandStatus::kOk;
  const char* reason = "";
  bool refused() const { return status != CommandStatus::kOk; }
};

/// A number (mkey, cqn, qpn, ...) or a refusal.
struct Created {
  uint32_t number = 0;
  Refusal refusal;
};

// The most that queues may have, as powers of two.
inline constexpr uint32_t kMaxLogCqEntries = 22;
inline constexpr uint32_t kMaxLogSendBlocks = 15;
inline constexpr uint32_t kMaxLogReceiveEntries = 15;
inline constexpr uint32_t kMaxLogReceiveStride = 7;  // in units of 16 bytes

inline constexpr uint32_t kLogMostEntries = 16;  // of an indirect key

/// A key whose bytes are those of other keys, `key.log_entity` each (softnic/engine/keys.h). Only
/// an engine on a CPU has them.
struct IndirectKey {
  Key key;              // without memory
  uint8_t variant = 0;  // the low byte of its number, which the client chooses
  std::span<const KeyEntry> entries;
};

/// Told when an armed completion queue has its entry: by the engine's thread, which meanwhile does
/// nothing else, so an implementation is short and calls no SoftwareNic.
class CompletionListener {
 public:
  virtual void completed() = 0;

 protected:
  ~CompletionListener() = default;
};

/// DC target: accepts requests of any DC initiator that knows its key.
struct DcTargetConfig {
  uint32_t pd = 0;
  uint32_t shared_receive_queue = 0;
  uint32_t receive_cq = 0;
  uint32_t access = 0;
  uint8_t atomic_mode = 0;
  uint8_t min_rnr_timer = 0;
  uint16_t pkey = kDefaultPkey;
  Network network = Network::kInfiniBand;  // of the GID it has: initiators of another are not heard
  uint32_t user_index = 0;
  uint64_t dc_access_key = 0;
};

/// What a call answers: `number` those that create, the others what their names say.
struct Outcome {
  Refusal refusal;
  uint32_t number = 0;
  uint64_t produced = 0;
  QueuePairAttributes attributes = {};
  Violations violations = {};

  Outcome() = default;
  Outcome(const Refusal& why) : refusal(why) {}  // NOLINT
  Outcome(uint32_t made) : number(made) {}       // NOLINT
  operator Created() const { return {number, refusal}; }
  operator Refusal() const { return refusal; }
};

/// Takes away what `Maker` made.
template <class Maker>
struct Undo {
  using Undoes = Maker;
  uint32_t number;
};

struct AllocatePd {};
using FreePd = Undo<AllocatePd>;

struct RegisterMemory : Key {
  template <class Visit>
  void spans(Visit visit) {
    visit(memory, bytes);
  }
};
using DeregisterMemory = Undo<RegisterMemory>;

/// Bytes of 1 << log units; 0 for more units than there can be, which Control refuses.
constexpr uint64_t bytes_of(uint64_t unit, uint32_t log, uint32_t log_most) {
  return log <= log_most ? unit << log : 0;
}

struct CreateCq : CompletionQueueConfig {
  template <class Visit>
  void spans(Visit visit) {
    visit(buffer, bytes_of(cqe_bytes, log_entries, kMaxLogCqEntries));
    visit(doorbell, uint64_t{8});
  }
};
using DestroyCq = Undo<CreateCq>;
/// Answers `produced`.
struct CqProduced {
  uint32_t number;
};

struct CreateSrq : SharedReceiveConfig {};
using DestroySrq = Undo<CreateSrq>;

struct CreateQp : QueuePairConfig {
  template <class Visit>
  void spans(Visit visit) {
    visit(send_buffer, bytes_of(64, log_send_blocks, kMaxLogSendBlocks));
    const uint64_t stride = bytes_of(16, log_receive_stride, kMaxLogReceiveStride);
    visit(receive_buffer, bytes_of(stride, log_receive_entries, kMaxLogReceiveEntries));
    visit(doorbell, sizeof(mlx5::DoorbellRecord));
  }
};
struct ModifyQp {
  uint32_t number;
  QpState from;
  QueuePairAttributes to;
};
/// Answers `attributes`.
struct QueryQp {
  uint32_t number;
};
using DestroyQp = Undo<CreateQp>;

struct CreateDcTarget : DcTargetConfig {};
using DestroyDcTarget = Undo<CreateDcTarget>;

struct AttachUar {
  std::byte* page;
};
using DetachUar = Undo<AttachUar>;

/// Answers `violations`.
struct QueryViolations {};

/// Part of a fault plan: a call is too short for all of it. The last part replaces the plan.
struct FaultRules {
  static constexpr uint32_t kMost = 16;
  uint64_t seed;
  uint32_t total;  // of the plan
  uint32_t first;  // in the plan; parts come in order
  FaultRule rule[kMost];
};
/// Answers `number`: 0 while a fault has the port down, else 1.
struct QueryPort {};

using Command = std::variant<AllocatePd, FreePd, RegisterMemory, DeregisterMemory, CreateCq,
                             DestroyCq, CqProduced, CreateSrq, DestroySrq, CreateQp, ModifyQp,
                             QueryQp, DestroyQp, CreateDcTarget, DestroyDcTarget, AttachUar,
                             DetachUar, QueryViolations, FaultRules, QueryPort>;
static_assert(std::is_trivially_copyable_v<Command>);

template <class C>
concept NamesMemory = requires(C& command) {
  command.spans([](auto&, uint64_t) {});
};
template <class C>
concept Destroys = requires {
  typename C::Undoes;
};

}  // namespace peal::softnic

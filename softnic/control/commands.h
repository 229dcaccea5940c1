// SPDX-License-Identifier: Apache-2.0
//
// The calls of nic.h that every engine answers, each a struct:
//
// * fields: what the call says, plain data that travels to the GPU engine's process as it is
// * spans: visits the memory that it names, as visit(T*& address, bytes)
// * Undoes: the call that made what this one destroys
// * apply: what it does, by Control, where the tables are
//
// A new call is a struct here, its function of Control, and its name in nic.h.
#pragma once

#include <cstdint>
#include <variant>

#include "softnic/control/configs.h"

namespace peal::softnic {

class Control;

/// What a call answers: `number` those that create, the others what their names say.
struct Outcome {
  Refusal refusal;
  uint32_t number = 0;
  uint64_t produced = 0;
  QueuePairAttributes attributes = {};
  Violations violations = {};

  Outcome() = default;
  Outcome(const Refusal& why) : refusal(why) {}                                 // NOLINT
  Outcome(const Created& made) : refusal(made.refusal), number(made.number) {}  // NOLINT
  Created created() const { return {number, refusal}; }
};

struct AllocatePd {
  Outcome apply(Control& control) const;
};
struct FreePd {
  using Undoes = AllocatePd;
  uint32_t number;
  Outcome apply(Control& control) const;
};

struct RegisterMemory {
  MemoryKeyConfig config;
  Outcome apply(Control& control) const;
  template <class Visit>
  void spans(Visit visit) {
    visit(config.memory, config.bytes);
  }
};
struct DeregisterMemory {
  using Undoes = RegisterMemory;
  uint32_t number;
  Outcome apply(Control& control) const;
};

/// Bytes of 1 << log units; 0 for more units than there can be, which Control refuses.
constexpr uint64_t bytes_of(uint64_t unit, uint32_t log, uint32_t log_most) {
  return log <= log_most ? unit << log : 0;
}

struct CreateCq {
  CompletionQueueConfig config;
  Outcome apply(Control& control) const;
  template <class Visit>
  void spans(Visit visit) {
    visit(config.buffer, bytes_of(config.cqe_bytes, config.log_entries, kMaxLogCqEntries));
    visit(config.doorbell, uint64_t{8});
  }
};
struct DestroyCq {
  using Undoes = CreateCq;
  uint32_t number;
  Outcome apply(Control& control) const;
};
/// Answers `produced`.
struct CqProduced {
  uint32_t number;
  Outcome apply(Control& control) const;
};

struct CreateSrq {
  SharedReceiveConfig config;
  Outcome apply(Control& control) const;
};
struct DestroySrq {
  using Undoes = CreateSrq;
  uint32_t number;
  Outcome apply(Control& control) const;
};

struct CreateQp {
  QueuePairConfig config;
  Outcome apply(Control& control) const;
  template <class Visit>
  void spans(Visit visit) {
    visit(config.send_buffer, bytes_of(64, config.log_send_blocks, kMaxLogSendBlocks));
    const uint64_t stride = bytes_of(16, config.log_receive_stride, kMaxLogReceiveStride);
    visit(config.receive_buffer,
          bytes_of(stride, config.log_receive_entries, kMaxLogReceiveEntries));
    visit(config.doorbell, sizeof(mlx5::DoorbellRecord));
  }
};
struct ModifyQp {
  uint32_t number;
  QpState from;
  QueuePairAttributes to;
  Outcome apply(Control& control) const;
};
/// Answers `attributes`.
struct QueryQp {
  uint32_t number;
  Outcome apply(Control& control) const;
};
struct DestroyQp {
  using Undoes = CreateQp;
  uint32_t number;
  Outcome apply(Control& control) const;
};

struct CreateDcTarget {
  DcTargetConfig config;
  Outcome apply(Control& control) const;
};
struct DestroyDcTarget {
  using Undoes = CreateDcTarget;
  uint32_t number;
  Outcome apply(Control& control) const;
};

struct AttachUar {
  std::byte* page;
  Outcome apply(Control& control) const;
};
struct DetachUar {
  using Undoes = AttachUar;
  uint32_t number;
  Outcome apply(Control& control) const;
};

/// Answers `violations`.
struct QueryViolations {
  Outcome apply(Control& control) const;
};

using Command =
    std::variant<AllocatePd, FreePd, RegisterMemory, DeregisterMemory, CreateCq, DestroyCq,
                 CqProduced, CreateSrq, DestroySrq, CreateQp, ModifyQp, QueryQp, DestroyQp,
                 CreateDcTarget, DestroyDcTarget, AttachUar, DetachUar, QueryViolations>;
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

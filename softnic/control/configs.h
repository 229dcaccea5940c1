// SPDX-License-Identifier: Apache-2.0
//
// What control calls say and answer: a config for each kind of object, and why a call was refused.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/mlx5/layout.h"
#include "softnic/engine/attributes.h"

namespace peal::softnic {

/// Firmware status of a command (mlx5 manual, mailbox conventions). kOk is success.
enum class CommandStatus : uint8_t {
  kOk = 0x00,
  kInternalError = 0x01,
  kBadOperation = 0x02,
  kBadParameter = 0x03,
  kBadSystemState = 0x04,
  kBadResource = 0x05,
  kBusy = 0x06,
  kLimit = 0x08,
  kBadResourceState = 0x09,
  kBadIndex = 0x0a,
  kNoResources = 0x0f,
  kBadInputLength = 0x50,
  kBadOutputLength = 0x51,
  kBadQpState = 0x10,
  kBadPacket = 0x30,
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

/// A registration: addresses [iova, iova + bytes) mean memory [memory, memory + bytes).
struct MemoryKeyConfig {
  uint32_t pd = 0;
  uint32_t access = 0;
  uint64_t iova = 0;
  uint64_t bytes = 0;
  std::byte* memory = nullptr;
};

// The most that queues may have, as powers of two.
inline constexpr uint32_t kMaxLogCqEntries = 22;
inline constexpr uint32_t kMaxLogSendBlocks = 15;
inline constexpr uint32_t kMaxLogReceiveEntries = 15;
inline constexpr uint32_t kMaxLogReceiveStride = 7;  // in units of 16 bytes

struct CompletionQueueConfig {
  std::byte* buffer = nullptr;    // 1 << log_entries CQEs; null: no queue may complete here
  std::byte* doorbell = nullptr;  // two Be32: set_ci, arm
  uint32_t log_entries = 0;
  uint32_t cqe_bytes = 64;  // or 128
  uint32_t uar_page = 0;
  bool collapsed = false;       // cc: every CQE goes to slot 0
  bool ignore_overrun = false;  // oi
};

/// Told when an armed completion queue has its entry: by the engine's thread, which meanwhile does
/// nothing else, so an implementation is short and calls no Nic.
class CompletionListener {
 public:
  virtual void completed() = 0;

 protected:
  ~CompletionListener() = default;
};

/// A receive queue that queue pairs share: its entries are linked (shared_receive.h) from entry 0
/// on, 1 << log_entries of them, one of which is never posted.
struct SharedReceiveConfig {
  uint32_t pd = 0;              // of the keys in its entries
  std::byte* buffer = nullptr;  // (16 << log_stride) << log_entries bytes; null: always empty
  uint32_t log_entries = 0;
  uint32_t log_stride = 1;                   // link included
  mlx5::DoorbellRecord* doorbell = nullptr;  // its receive half
};

/// What CREATE_QP fixes.
struct QueuePairConfig {
  Service service = Service::kReliable;
  uint32_t pd = 0;
  uint32_t uar_page = 0;
  uint32_t user_index = 0;
  uint32_t send_cq = 0;
  uint32_t receive_cq = 0;
  uint32_t shared_receive_queue = 0;  // 0 = none
  std::byte* send_buffer = nullptr;   // 64 << log_send_blocks bytes; null without a send queue
  uint32_t log_send_blocks = 0;
  std::byte* receive_buffer =
      nullptr;  // (16 << log_receive_stride) << log_receive_entries bytes; null without
  uint32_t log_receive_entries = 0;
  uint32_t log_receive_stride = 0;
  mlx5::DoorbellRecord* doorbell = nullptr;
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

}  // namespace peal::softnic

// SPDX-License-Identifier: Apache-2.0
//
// Completion queues that their client arms itself, through the doorbell record and a register.
//
//   record[1] = sequence number | solicited only | entries consumed     then the same to the
//   register hear_arms -> armed, or an entry waits already -> due    complete -> fire -> due    ->
//   collect()
//
// A sequence number is good for one event: who has taken one counts up, as libmlx5 does, or is not
// heard. A register here is plain memory, which keeps its last value only, so all queues of a page
// that was rung are looked at: one that is listened to and was never armed may have an event early.
#pragma once

#include <cstdint>

#include "softnic/engine/completion.h"
#include "softnic/engine/objects.h"

namespace peal::softnic {

/// Offset in a UAR page: MLX5_CQ_DOORBELL (include/linux/mlx5/cq.h).
inline constexpr uint32_t kArmRegister = 0x20;

/// True when an entry counts for `arm` that is neither among the `consumed` first nor told of by an
/// event: who takes an event, arms and then polls would be woken for nothing.
PEAL_HD bool entry_waits(const CompletionQueue& cq, uint32_t consumed, Arm arm) {
  const uint64_t entries = 1ull << cq.log_entries;
  const uint64_t fresh = cq.produced - cq.told;
  uint64_t waiting = (static_cast<uint32_t>(cq.produced) - consumed) & 0xffffff;
  if (waiting > fresh) waiting = fresh;
  if (waiting > entries) waiting = entries;
  if (arm == Arm::kAny) return waiting != 0;
  for (uint64_t entry = cq.produced - waiting; entry != cq.produced; ++entry) {
    const std::byte* end = cq.buffer + ((entry & (entries - 1)) + 1) * cq.cqe_bytes;
    const uint32_t tag = client_word(end - sizeof(Be32));
    const auto kind = static_cast<mlx5::CqeOpcode>(tag >> 4 & 0xf);
    const bool failed =
        kind == mlx5::CqeOpcode::kRequesterError || kind == mlx5::CqeOpcode::kResponderError;
    if (failed || (tag & kSolicitedCqe) != 0) return true;
  }
  return false;
}

PEAL_HD uint32_t arm_record(const CompletionQueue& cq) {
  return client_word(cq.doorbell + sizeof(Be32));
}

/// Takes what the record says. Bits: 29 and 28 the sequence number, 24 solicited only.
PEAL_HD void hear_arm(Port& port, CompletionQueue& cq) {
  const uint32_t record = arm_record(cq);
  const auto number = static_cast<uint8_t>(record >> 28 & 3);
  if (cq.spent && number == cq.sequence) return;
  const bool solicited_only = (record >> 24 & 1) != 0 && cq.armed != Arm::kAny;
  cq.sequence = number;
  cq.spent = false;
  cq.rung = true;
  cq.armed = solicited_only ? Arm::kSolicitedOnly : Arm::kAny;
  if (entry_waits(cq, record & 0xffffff, cq.armed)) raise_completion(port, cq);
}

/// One pass over the registers of all pages.
PEAL_HD void hear_arms(Port& port) {
  for (uint32_t id = 1; id < port.page_count; ++id) {
    const DoorbellPage& page = port.pages[id];
    if (!page.exists || page.memory == nullptr) continue;
    auto& word = word_at<uint64_t>(page.memory + kArmRegister);
    if (Word<uint64_t>(word).load(kRelaxed) == 0) continue;
    Word<uint64_t>(word).exchange(0, kAcquire);  // a ring that comes now is heard by the next pass
    for (uint32_t cqn = 0; cqn < port.cq_count; ++cqn) {
      CompletionQueue& cq = port.cqs[cqn];
      if (cq.exists && cq.listened && cq.uar_page == id) hear_arm(port, cq);
    }
  }
}

}  // namespace peal::softnic

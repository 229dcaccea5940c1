// SPDX-License-Identifier: Apache-2.0
//
// The host's side of the model of NICs that kernels drive (device/transport/model.h): what lies in
// a queue's memory, in which bytes. Implemented in host/nic/mlx5; nothing outside that folder names
// the model. What makes queue pairs: queue_end.h; who carries work where no NIC reads it:
// carried_queue.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "device/nic/request.h"
#include "device/transport/model.h"
#include "host/memory/backing.h"
#include "host/nic/queue_layout.h"

namespace peal::nic {

/// How kernels find a queue whose memory begins there. They ring `doorbell`; if that is null they
/// ring nothing, for somebody watches what is posted. `twice`: hardware, which may lose a doorbell.
Model::WorkQueue work_queue(std::byte* begin, const QueueMemoryLayout& layout, uint64_t* doorbell,
                            bool twice);

/// Enters the number of the queue pair, while kernels may wait for it; and reads it: 0 = none yet.
void set_number(const Backing& backing, Model::WorkQueue* queue, uint32_t number);
uint32_t number_of(const Backing& backing, const Model::WorkQueue* queue);

/// "none", "17", "error of 17": the newest completion, by the low bits of the request's index.
std::string describe_completion(const Backing& backing, const std::byte* begin,
                                const QueueMemoryLayout& layout);

/// True once the NIC has answered all that it was told of a queue, the first `rung` blocks, or has
/// failed on it.
bool answered(const Backing& backing, const std::byte* begin, const QueueMemoryLayout& layout,
              uint64_t rung);

/// What the host posts itself, when it tests a queue.
using HostRequest = std::variant<Write, Read, Atomic<Update::kAdd, uint64_t>>;

/// Posts a request at block `index`, which is all that is posted then. Answers what the doorbell is
/// to be told.
uint64_t post(const Backing& backing, const SendQueue& queue, uint64_t index,
              const HostRequest& request);

/// How the request at `index`, the last one, has ended; null: not yet.
struct Ended {
  bool failed;
  uint8_t syndrome;  // of one that failed
  uint8_t vendor_syndrome;
};
std::optional<Ended> look(const Backing& backing, const SendQueue& queue, uint64_t index);

/// What QueueError::opcode names: "RDMA_WRITE".
const char* request_name(uint8_t opcode);

/// What QueueError::syndrome says: "peer does not answer: ...".
const char* syndrome_text(uint8_t syndrome);
/// What is likely wrong, and what to do about it.
const char* syndrome_remedy(uint8_t syndrome);

/// What is to be told apart of syndromes.
enum class Cause : uint8_t { kOther, kNoAnswer, kFlushed };
Cause cause_of(uint8_t syndrome);

}  // namespace peal::nic

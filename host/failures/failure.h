// SPDX-License-Identifier: Apache-2.0
//
// What a PE tells of the first thing that went wrong. docs/errors.md says what to do about it.
#pragma once

#include <cstdint>
#include <string>

#include "device/context.h"

namespace peal {

/// The first failure of a PE, decoded. What an error does not have is left as it is here.
struct Failure {
  Status status = Status::kOk;
  int pe = -1;       // the peer concerned; of an abort the PE that called it: a file's transfer
                     // on a stream that failed is kAborted too, and has none
  int context = -1;  // by its slot, if it is one context's
  int queue = -1;    // to that peer, 0 .. queues_per_peer - 1
  uint64_t wqe_index = 0;  // of a queue error
  uint8_t opcode = 0;
  uint8_t syndrome = 0;
  uint8_t vendor_syndrome = 0;
  uint64_t time_ns = 0;   // on the clock of the kernels: CLOCK_MONOTONIC, or the GPU's globaltimer
  std::string nic = {};   // by which the queue goes: "mlx5_0"
  std::string text = {};  // one sentence with all of it
  bool said = false;      // peal has said it on stderr (PEAL_REPORT_FAILURES)
};

}  // namespace peal

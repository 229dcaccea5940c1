// SPDX-License-Identifier: Apache-2.0
//
// A decoded work request: what decode.h makes of the bytes in the send queue, with every field in
// host byte order and nothing left that a client could still get wrong in shape.
#pragma once

#include <cstdint>

#include "device/mlx5/layout.h"
#include "softnic/engine/packet.h"

namespace peal::softnic {

struct Request {
  mlx5::Opcode opcode;
  uint8_t opmod;
  mlx5::Completion completion;
  mlx5::Fence fence;
  uint8_t blocks;     // 64-byte blocks taken
  uint8_t units;      // 16-byte segments, ds
  uint8_t data_unit;  // first data segment; == units when there is none
  bool solicited;     // SE bit
  uint32_t immediate;
  uint32_t rkey;
  uint64_t address;
  uint64_t bytes;
  AtomicOperands operands;
  uint32_t wait_index;
  uint32_t wait_cqn;
  uint64_t dc_key;     // datagram: the Q_Key in its upper half
  uint32_t dc_target;  // or queue pair
  uint16_t dc_lid;
  uint8_t service_level;
  bool global;  // the address has a GRH
  bool routed;  // more than the LID counts: a GRH, or on Ethernet

  PEAL_HD bool is_atomic() const {
    return opcode >= mlx5::Opcode::kAtomicCompareSwap &&
           opcode <= mlx5::Opcode::kAtomicMaskedFetchAdd;
  }
  /// The peer answers with data.
  PEAL_HD bool fetches() const { return opcode == mlx5::Opcode::kRdmaRead || is_atomic(); }
  PEAL_HD bool travels() const {
    return fetches() || opcode == mlx5::Opcode::kRdmaWrite ||
           opcode == mlx5::Opcode::kRdmaWriteImm || opcode == mlx5::Opcode::kSend ||
           opcode == mlx5::Opcode::kSendImm;
  }
};

/// A place in the data list of a WQE.
struct Cursor {
  uint32_t unit;    // segment
  uint32_t inside;  // bytes of it already passed
};

}  // namespace peal::softnic

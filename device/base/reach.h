// SPDX-License-Identifier: Apache-2.0
//
// How far away the other side of a shared access may be.
#pragma once

namespace peal {

enum class Reach {
  kLane,    // nobody else: plain accesses
  kBlock,   // lanes of this block
  kGpu,     // any lane of this GPU
  kSystem,  // the NIC, the CPU, other GPUs
};

}  // namespace peal

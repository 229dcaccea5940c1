// SPDX-License-Identifier: Apache-2.0
//
// What a PE and the process of the GPU engine say to each other: one Demand, one Reply, over a
// packet socket.
//
//   PE:      ProcessHello; then [Extent (+ descriptor)]... and the Command that names the memory.
//            Extents with `more` lie one behind the other and are mapped so
//   engine:  one Reply to each, in order
//
// Both sides are built together: kVersion changes with any of these structs. From version 7 on a
// Demand and a Reply have 1024 bytes, and Demand::version, Reply::status and Reply::reason their
// places: so either side can read that the other is of another version.
#pragma once

#include <cstdint>
#include <type_traits>
#include <variant>

#include "softnic/control/commands.h"
#include "softnic/engine/objects.h"

namespace peal::softnic::gpu {

/// Sixteen bytes that name a GPU whatever its number in a process.
struct GpuId {
  uint8_t byte[16] = {};
  bool operator==(const GpuId&) const = default;
};

/// Memory of a PE and how another process maps it.
struct ProcessMemory {
  enum class Kind : uint32_t {
    kIpcHandle,   // 64 bytes of cuIpcGetMemHandle
    kDescriptor,  // a file descriptor that travels with the message
  };
  Kind kind = Kind::kIpcHandle;
  uint32_t more = 0;  // pieces of the same range that follow
  uint64_t id = 0;    // of the allocation, never used twice in a process
  uint64_t base = 0;  // address in the PE
  uint64_t bytes = 0;
  uint8_t handle[64] = {};
};

/// Introduces a PE's NIC.
struct ProcessHello {
  uint16_t lid = 0;
  uint32_t epoch = 0;
  Timing timing;
  bool any_placement = false;  // Port::any_placement
  bool insists = false;        // on `gpu`; otherwise any that the engine runs on already will do
  GpuId gpu;
};

/// One packet; what the variants hold is plain data.
struct alignas(1024) Demand {
  static constexpr uint64_t kVersion = 0x7065616c'0000000b;
  uint64_t version = kVersion;
  std::variant<ProcessHello, ProcessMemory, Command> what;
};
static_assert(std::is_trivially_copyable_v<Demand> && sizeof(Demand) == 1024);

struct alignas(1024) Reply {
  CommandStatus status = CommandStatus::kOk;
  char reason[256] = {};
  GpuId gpu;        // of the engine, to ProcessHello
  Outcome outcome;  // to Command; its refusal is in the two others
};
static_assert(std::is_trivially_copyable_v<Reply> && sizeof(Reply) == 1024);

}  // namespace peal::softnic::gpu

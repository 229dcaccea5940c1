// SPDX-License-Identifier: Apache-2.0
//
// Sentences about the mistakes that checked mode finds: what is wrong, and what would be right.
#include <fmt/format.h>

#include <cstddef>

#include "host/base/call_names.h"
#include "host/contexts/usage_text.h"

namespace peal {
namespace {

// An argument of a call, by where a CallNote has it, as a lane gave it.
std::string argument(uint32_t offset, uint64_t value) {
  switch (offset) {
    case offsetof(CallNote, call):
      return fmt::format("the call {}", to_string(static_cast<Call>(value)));
    case offsetof(CallNote, pe):
      return fmt::format("PE {}", static_cast<int32_t>(value));
    case offsetof(CallNote, there):
      return fmt::format("the symmetric address {:#x}", value);
    case offsetof(CallNote, here):
      return fmt::format("the local address {:#x}", value);
    case offsetof(CallNote, there_bytes):
    case offsetof(CallNote, here_bytes):
      return fmt::format("{} bytes", value);
    case offsetof(CallNote, rows):
      return fmt::format("{} rows", value);
    case offsetof(CallNote, there_pitch):
    case offsetof(CallNote, here_pitch):
      return fmt::format("rows {} bytes apart", static_cast<int64_t>(value));
    case offsetof(CallNote, word):
      return fmt::format("the signal's word {:#x}", value);
    case offsetof(CallNote, value):
      return fmt::format("the value {}", value);
    case offsetof(CallNote, number):
      return fmt::format("team {:#x}", value);
    default:
      return fmt::format("{}", value);
  }
}

std::string range(const UsageError& error, int pe) {
  return fmt::format("{}, address {:#x}, {} bytes", describe_use(error, pe), error.address,
                     error.bytes);
}

}  // namespace

std::string describe_mistake(const UsageError& error, int pe, const PlaceOf& place_of) {
  const char* const call = to_string(error.call);
  const std::string other =
      fmt::format("block {}, thread {}", error.other.block, error.other.thread);
  const auto place = [&] { return place_of(reinterpret_cast<const void*>(error.address)); };
  switch (static_cast<Mistake>(error.mistake)) {
    case Mistake::kNotAllocated:
      return fmt::format("{}: it begins at {}, which no allocation answered", range(error, pe),
                         place());
    case Mistake::kPastEnd:
      return fmt::format("{}: it begins at {} and goes on behind their end", range(error, pe),
                         place());
    case Mistake::kFreed:
      return fmt::format("{}: it begins at {}, which free() gave back", range(error, pe), place());
    case Mistake::kInternal:
      return fmt::format("{}: it begins at {}; kernels use what malloc() and its like answer",
                         range(error, pe), place());
    case Mistake::kLanesDiffer:
      return fmt::format(
          "{}: it gave {}, and {} gave {}: all lanes of a warp or block call with the same "
          "arguments",
          call, argument(error.argument, error.detail), other,
          argument(error.argument, error.other_detail));
    case Mistake::kLanesMissing:
      return fmt::format(
          "{} by a block of which only {} threads are left: all threads of a block make the call, "
          "or one makes it (thread)",
          call, error.detail);
    case Mistake::kBarrierInUse:
      return fmt::format(
          "{} while {} is in a {}: one scope of one kernel at a time calls it; let the blocks meet "
          "first, or give each a {} of its own",
          call, other,
          is_collective(error.call) ? "call of the same team and context"
                                    : "barrier of the same context",
          is_collective(error.call) ? "team or context" : "context");
    case Mistake::kQueueShared:
      return fmt::format(
          "{} by the queues that {} is using, or has not drained: where blocks own queues each "
          "uses "
          "block % queues_per_peer alone (ContextOptions::queues_per_peer as many as there are "
          "blocks), an ExclusiveContext one scope at a time; a Context is for all",
          call, other);
    case Mistake::kTicketOther:
      return fmt::format("{} of a ticket that another context answered: give it that context",
                         call);
    case Mistake::kTicketStale:
      return fmt::format(
          "{} of a ticket of before recover() (number {}; its queue has come to {}): "
          "recover() makes tickets void",
          call, error.detail, error.other_detail);
    case Mistake::kNone:
    case Mistake::kCount:
      break;
  }
  return "a mistake";
}

}  // namespace peal

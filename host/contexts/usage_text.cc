// SPDX-License-Identifier: Apache-2.0
#include "host/contexts/usage_text.h"

#include <fmt/format.h>

#include <cstddef>

#include "device/base/scaled.h"
#include "device/shared/call_names.h"
#include "device/window.h"
#include "host/base/algorithm_names.h"
#include "simt/lanes/place.h"
#include "simt/lanes/symbol.h"

namespace peal {
namespace {

// "the source of put", of which range of a call.
std::string range_of(Call call, CallSide side) {
  const char* what = nullptr;
  if (side == CallSide::kHere) {
    what = fetches(call)                         ? "the result"
           : is_put(call) || is_collective(call) ? "the source"
                                                 : "the destination";
  } else if (side == CallSide::kWord) {
    what = is_put(call) ? "the signal" : is_collective(call) ? "the lists" : "the word";
  }
  return what == nullptr ? to_string(call) : fmt::format("{} of {}", what, to_string(call));
}

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

std::string describe_use(const UsageError& usage, int pe) {
  const bool at_home = usage.side == CallSide::kHere || is_of_words(usage.call);
  return fmt::format("{} used PE {}{}", range_of(usage.call, usage.side), usage.pe,
                     at_home && usage.pe == pe ? " (itself)" : "");
}

namespace {

std::string heap_range(const Window& heap) {
  return fmt::format("the symmetric heap [{}, {})", fmt::ptr(heap.base),
                     fmt::ptr(heap.base + heap.bytes));
}

// The text for a range that begins in the heap and ends behind it.
std::string beyond_heap(const UsageError& usage, const Window& heap) {
  const uint64_t begin = reinterpret_cast<uint64_t>(heap.base);
  if (usage.address < begin || usage.address - begin >= heap.bytes) return "";
  const uint64_t left = heap.bytes - (usage.address - begin);
  return fmt::format("; the heap ends after {} bytes of it", left);
}

const void* address_of(const UsageError& usage) {
  return reinterpret_cast<const void*>(usage.address);
}

// Describes the range of memory as the call named it.
std::string describe_range(const UsageError& usage) {
  const void* const address = address_of(usage);
  const std::string at = detail::names_window(address)
                             ? fmt::format("byte {} of window {}", detail::window_offset(address),
                                           detail::window_number(address))
                             : fmt::format("address {:#x}", usage.address);
  if (usage.bytes == kEndless) return at + ", more bytes than there are addresses";
  return fmt::format("{}, {} bytes", at, usage.bytes);
}

std::string remedy_for_named(const UsageError& usage) {
  if (static_cast<Status>(usage.status) == Status::kNotSymmetric) {
    return fmt::format(
        "; the part of PE {} is shorter, or the handle is none that register_window answered on "
        "this PE, or its window was unregistered",
        usage.pe);
  }
  return "; what is read and written at home is given by its own address, not by a handle";
}

std::string remedy_for_alignment(const UsageError& usage) {
  const uint64_t beyond = usage.bytes == 0 ? 0 : usage.address % usage.bytes;
  if (beyond == 0 || detail::names_window(address_of(usage))) {
    return fmt::format("; it must be a multiple of {} where the part of PE {} lies", usage.bytes,
                       usage.pe);
  }
  return fmt::format("; it must be a multiple of {} and is {} beyond one", usage.bytes, beyond);
}

std::string remedy(const UsageError& usage, const ContextFields& fields) {
  const bool named = detail::names_window(address_of(usage));
  switch (static_cast<Status>(usage.status)) {
    case Status::kBadPe:
      if (is_collective(usage.call)) {
        return "; the root is a member's number in the team, from 0";
      }
      return fmt::format("; PEs are 0 to {}", fields.n_pes - 1);
    case Status::kNotSymmetric:
      if (named) return remedy_for_named(usage);
      return fmt::format(
          "; at a PE an operation takes what lies, whole, in {}, or in memory that all PEs gave to "
          "register_window{}",
          heap_range(fields.heap), beyond_heap(usage, fields.heap));
    case Status::kNotRegistered:
      if (named) return remedy_for_named(usage);
      return fmt::format("; allocate it in {}, or register_local({:#x}, {}) first",
                         heap_range(fields.heap), usage.address, usage.bytes);
    case Status::kMisaligned:
      return remedy_for_alignment(usage);
    case Status::kPeerLost:
      return fmt::format("; a plan of faults (PEAL_P2P_FAULTS) has taken the link to PE {} down",
                         usage.pe);
    default:
      return "";
  }
}

// What ptr() answered is no name of memory: PE 1's x, seen from here.
std::string seen_from_here(const UsageError& usage, const PlaceOf& place_of) {
  const auto status = static_cast<Status>(usage.status);
  if (status != Status::kNotSymmetric && status != Status::kNotRegistered) return "";
  if (detail::names_window(address_of(usage))) return "";
  const std::string place = place_of(address_of(usage));
  return place.starts_with("PE ") ? "; it is " + place : "";
}

// A team is no range: `bytes` are the contexts that it is for.
std::string describe_bad_team(const UsageError& usage, const ContextFields& fields) {
  if (usage.address == 0) return "this PE is not in the team, or the team is none";
  return fmt::format(
      "the team is for {} contexts and this is number {}, from 0, or this PE is not in it; "
      "TeamOptions::contexts says for how many a team is made",
      usage.bytes, fields.slot);
}

// It is no range either: `address` has the algorithm, and below it the Need that is not met.
std::string describe_bad_algorithm(const UsageError& usage) {
  const auto algorithm = static_cast<collective::Algorithm>(usage.address >> 32);
  const auto lacks = static_cast<collective::Need>(usage.address & 0xffffffffu);
  const NeedWords words = words_of(lacks);
  return fmt::format("PEAL_ALGORITHM={} is for calls with: {}; {}",
                     to_string(collective::ForcedAlgorithm{usage.call, algorithm}), words.text,
                     words.remedy);
}

}  // namespace

std::string describe(const LaneName& lane, uint64_t place) {
  const std::string kernel = lane.kernel == 0 ? "" : simt::function_at(lane.kernel);
  const std::string line = place == 0 ? "" : simt::place_text(place);
  std::string text = kernel.empty() ? line : "kernel " + kernel;
  if (!kernel.empty() && !line.empty()) text += " (" + line + ")";
  return fmt::format("{}{}block {}, thread {}", text, text.empty() ? "" : ", ", lane.block,
                     lane.thread);
}

Failure describe(const UsageError& usage, const ContextFields& fields, const PlaceOf& place_of) {
  const auto status = static_cast<Status>(usage.status);
  std::string what;
  if (status == Status::kMistake) {
    what = describe_mistake(usage, fields.pe, place_of);
  } else if (status == Status::kBadTeam) {
    what = fmt::format("{}: {}: {}", to_string(usage.call), to_string(status),
                       describe_bad_team(usage, fields));
  } else if (status == Status::kBadAlgorithm) {
    what = fmt::format("{} of {} bytes: {}: {}", to_string(usage.call), usage.bytes,
                       to_string(status), describe_bad_algorithm(usage));
  } else {
    what = fmt::format("{}, {}: {}{}", describe_use(usage, fields.pe), describe_range(usage),
                       to_string(status), remedy(usage, fields) + seen_from_here(usage, place_of));
  }
  return {.status = status,
          .pe = usage.pe,
          .time_ns = usage.time_ns,
          .text = describe(usage.lane, usage.place) + ": " + what};
}

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

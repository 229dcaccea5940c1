// SPDX-License-Identifier: Apache-2.0
#include "host/contexts/usage_text.h"

#include <fmt/format.h>

#include <iterator>

#include "simt/symbol.h"

namespace peal {
namespace {

const char* name_of(Doing doing) {
  static constexpr const char* kNames[] = {"an operation",
                                           "put",
                                           "get",
                                           "p",
                                           "g",
                                           "a signal",
                                           "an atomic",
                                           "quiet or fence",
                                           "a collective call",
                                           "the source of put",
                                           "the destination of get",
                                           "the result of an atomic"};
  static_assert(std::size(kNames) == static_cast<size_t>(Doing::kCount));
  return doing < Doing::kCount ? kNames[static_cast<size_t>(doing)] : kNames[0];
}

bool at_home(Doing doing) { return doing >= Doing::kPutSource; }

std::string heap_range(const Window& heap) {
  return fmt::format("the symmetric heap [{}, {})", fmt::ptr(heap.base),
                     fmt::ptr(heap.base + heap.bytes));
}

// Of a range that begins in the heap and ends behind it.
std::string beyond_heap(const UsageError& usage, const Window& heap) {
  const uint64_t begin = reinterpret_cast<uint64_t>(heap.base);
  if (usage.address < begin || usage.address - begin >= heap.bytes) return "";
  const uint64_t left = heap.bytes - (usage.address - begin);
  return fmt::format("; the heap ends after {} bytes of it", left);
}

std::string remedy(const UsageError& usage, const ContextFields& fields) {
  switch (static_cast<Status>(usage.status)) {
    case Status::kBadPe:
      if (static_cast<Doing>(usage.doing) == Doing::kCollective) {
        return "; the root is a member's number in the team, from 0";
      }
      return fmt::format("; PEs are 0 to {}", fields.n_pes - 1);
    case Status::kNotSymmetric:
      return fmt::format(
          "; at a PE an operation takes what lies, whole, in {}, or in memory that all PEs gave to "
          "register_window{}",
          heap_range(fields.heap), beyond_heap(usage, fields.heap));
    case Status::kNotRegistered:
      return fmt::format("; allocate it in {}, or register_local({:#x}, {}) first",
                         heap_range(fields.heap), usage.address, usage.bytes);
    case Status::kMisaligned:
      return fmt::format("; it must be a multiple of {} and is {} beyond one", usage.bytes,
                         usage.bytes == 0 ? 0 : usage.address % usage.bytes);
    case Status::kBadTeam:
      return "; TeamOptions::contexts says on how many contexts a team is used";
    default:
      return "";
  }
}

}  // namespace

std::string describe(const LaneName& lane) {
  const std::string kernel = lane.kernel == 0 ? "" : simt::function_at(lane.kernel);
  const std::string place = fmt::format("block {}, thread {}", lane.block, lane.thread);
  return kernel.empty() ? place : fmt::format("kernel {}, {}", kernel, place);
}

Failure describe(const UsageError& usage, const ContextFields& fields) {
  Failure f;
  f.status = static_cast<Status>(usage.status);
  f.pe = usage.pe;
  f.time_ns = usage.time_ns;
  const auto doing = static_cast<Doing>(usage.doing);
  f.text = fmt::format("{}: {} used PE {}{}, address {:#x}, {} bytes: {}{}", describe(usage.lane),
                       name_of(doing), usage.pe, at_home(doing) ? " (itself)" : "", usage.address,
                       usage.bytes, to_string(f.status), remedy(usage, fields));
  return f;
}

}  // namespace peal

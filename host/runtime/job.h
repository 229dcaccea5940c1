// SPDX-License-Identifier: Apache-2.0
//
// The job as one PE takes part in it: what it was started with, and its place in the group.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/forks.h"
#include "host/base/config.h"
#include "host/base/log.h"
#include "host/job/live_group.h"
#include "host/memory/heap_memory.h"

namespace peal {

/// What a PE begins with.
struct Beginning {
  Config config;
  Target target;
  uint64_t epoch = 0;                      // Runtime::epoch(), as far as this PE knows
  std::shared_ptr<const HeapMemory> heap;  // that outlives the job before; null: none does
  Maker maker = {};
};

struct JobMembership {
  /// Collective. Throws kConfiguration, on all PEs the same, where what must be set alike is not.
  JobMembership(std::unique_ptr<Bootstrap> bootstrap, const Beginning& beginning);

  const Config config;
  const Target target;
  const uint64_t epoch;                    // the highest that a PE knew of
  const std::optional<int> keeper;         // the first PE whose heap outlives the job before
  std::shared_ptr<const HeapMemory> heap;  // this PE's, until it is taken; null: it is no such PE
  LiveGroup group;
  const Log log;

 private:
  struct Agreed {
    std::unique_ptr<Bootstrap> group;
    uint64_t epoch;
    std::optional<int> keeper;
  };
  static Agreed agree(std::unique_ptr<Bootstrap> bootstrap, const Beginning& beginning);
  JobMembership(Agreed agreed, const Beginning& beginning);
};

/// The collective calls of a group have a name while it lasts.
class NamedCalls {
 public:
  NamedCalls(LiveGroup& group, std::string_view name) : group_(group) { group.name_calls(name); }
  ~NamedCalls() { group_.name_calls(""); }
  NamedCalls(const NamedCalls&) = delete;
  NamedCalls& operator=(const NamedCalls&) = delete;

 private:
  LiveGroup& group_;
};

}  // namespace peal

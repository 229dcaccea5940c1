// SPDX-License-Identifier: Apache-2.0
//
// The job as one PE takes part in it: what it was started with, and its place in the group.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "host/base/config.h"
#include "host/base/log.h"
#include "host/job/live_group.h"

namespace peal {

/// What a PE begins with.
struct Beginning {
  Config config;
  Target target;
  uint64_t epoch = 0;  // Runtime::epoch(), as far as this PE knows
};

struct JobMembership {
  /// Collective. Throws kConfiguration, on all PEs the same, where what must be set alike is not.
  JobMembership(std::unique_ptr<Bootstrap> bootstrap, const Beginning& beginning);

  const Config config;
  const Target target;
  const uint64_t epoch;  // the highest that a PE knew of
  LiveGroup group;
  const Log log;

 private:
  struct Agreed {
    std::unique_ptr<Bootstrap> group;
    uint64_t epoch;
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

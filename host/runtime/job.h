// SPDX-License-Identifier: Apache-2.0
//
// The job as one PE takes part in it: what it was started with, and its place in the group.
#pragma once

#include <memory>
#include <string_view>

#include "host/base/config.h"
#include "host/base/log.h"
#include "host/job/live_group.h"

namespace peal {

struct JobMembership {
  /// Collective. Throws kConfiguration, on all PEs the same, where what must be set alike is not.
  JobMembership(std::unique_ptr<Bootstrap> bootstrap, const Config& c, Target t);

  const Config config;
  const Target target;
  LiveGroup group;
  const Log log;
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

// SPDX-License-Identifier: Apache-2.0
//
// A job that begins anew with a process in the place of each PE that has ended.
//
//   is there one?  ->  let_go()  ->  parts of the job end  ->  meet()  ->  parts of the new one
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/patience.h"
#include "host/base/error.h"
#include "host/nvtx/range.h"
#include "host/runtime.h"
#include "host/runtime/parts.h"

namespace peal {
namespace {

// Names the PEs that have ended, once some are missing. A kernel that cannot reach a host hears
// from its NIC before the host is silent for long enough.
std::string await_end_of_some(const JobMembership& job, const FailureLog& failures) {
  const LiveGroup& group = job.group;
  const auto missing = [&] {
    std::vector<int> pes = group.masked_pes();
    for (const int pe : group.lost_pes()) pes.push_back(pe);
    return pes;
  };
  const auto noticed = [&](std::chrono::microseconds time) {
    return peal::wait_until([&] { return !missing().empty(); },
                            std::chrono::steady_clock::now() + time);
  };
  const auto of_nic = [&] {
    const Status failed = failures.peek();
    return failed == Status::kQueueError || failed == Status::kTimeout;
  };
  const bool late = group.channel().udp() != nullptr;
  if (!noticed(LiveGroup::kUntilNoticed) &&
      !(late && of_nic() && noticed(job.config.host_timeout))) {
    fail(ErrorCode::kInvalidArgument,
         "rejoin: all {} PEs live, and none is to be replaced: end a process first", group.size());
  }
  std::string names;
  for (const int pe : missing()) {
    const std::optional<Departure> how = group.departure(pe);
    if (how && how->how == Departure::How::kRejoins) continue;  // it lives, and came first
    names += fmt::format("{}{}", names.empty() ? "" : ", ", group.name_of(pe));
  }
  return names;
}

// Who did not come is known by rank alone; where it was helps a person.
template <class Meet>
std::unique_ptr<Bootstrap> meet_in_place_of(const std::string& ended, const Meet& meet) {
  try {
    return meet();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kTimeout || ended.empty()) throw;
    throw Error(error.code(),
                fmt::format("{}; rejoin() was called without {}: a new process in the place of "
                            "each has to start, and all others call rejoin()",
                            error.what(), ended));
  }
}

}  // namespace

void Runtime::rejoin(const std::function<std::unique_ptr<Bootstrap>(const Config&)>& meet,
                     const RejoinOptions& options) {
  const nvtx::Range range("peal: rejoin");
  if (again_ != nullptr && !again_->maker.here()) {
    fail(
        ErrorCode::kInvalidArgument,
        "rejoin: this process was forked from a PE's that waits for a rejoin(), and is no PE: only "
        "that process may use its Runtime");
  }
  if (again_ == nullptr) {
    leave_for_rejoin(options);
  } else if (!options.keep_heap) {
    again_->heap.reset();
  } else if (again_->heap == nullptr) {
    fail(ErrorCode::kInvalidArgument,
         "rejoin: the call before, which failed, let the heap go: rejoin without it");
  }
  parts_ = std::make_unique<Parts>(meet_in_place_of(ended_, [&] { return meet(again_->config); }),
                                   *again_);
  again_.reset();
  parts().job.group.name_calls("");
}

// From then on there is no way back.
void Runtime::leave_for_rejoin(const RejoinOptions& options) {
  Parts& now = parts("rejoin");
  if (options.keep_heap && now.job.config.check) {
    fail(ErrorCode::kUnsupported,
         "rejoin: checked mode (PEAL_CHECK) keeps no heap: rejoin without it, or leave out "
         "PEAL_CHECK");
  }
  std::string ended = await_end_of_some(now.job, now.services->failures);
  auto beginning = std::make_shared<Beginning>(
      Beginning{now.job.config, now.job.target, now.job.epoch + 1, nullptr});
  // Who else is on this host may choose another one for a PE that has none of its own.
  if (now.fabric.gpu) beginning->config.device = now.fabric.gpu->index();
  if (options.keep_heap) {
    beginning->heap = std::make_shared<const HeapMemory>(now.fabric.heap.memory());
  }
  now.let_go();  // throws where a GPU has failed: this is still the PE of before then
  again_ = std::move(beginning);
  ended_ = std::move(ended);
  parts_.reset();
}

}  // namespace peal

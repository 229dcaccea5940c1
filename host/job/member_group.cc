// SPDX-License-Identifier: Apache-2.0
#include "host/job/member_group.h"

#include <algorithm>
#include <cstdlib>

namespace peal {

MemberGroup::MemberGroup(LiveGroup& job, std::vector<int> pes, uint64_t id)
    : job_(job),
      pes_(std::move(pes)),
      id_(id),
      rank_(static_cast<int>(std::ranges::find(pes_, job.rank()) - pes_.begin())) {}

void MemberGroup::allgather(std::span<const std::byte> mine, std::span<std::byte> all) {
  const std::vector<std::byte> own(mine.begin(), mine.end());  // may lie in `all`
  job_.exchange({id_, calls_++, pes_}, own, all);
}

void MemberGroup::barrier() {
  std::vector<std::byte> nothing(pes_.size());
  job_.exchange({id_, calls_++, pes_}, std::span(nothing).first(1), nothing);
}

void MemberGroup::abort(const std::string& reason) {
  job_.abort(reason);
  std::abort();  // g++ does not know that the call above stays
}

}  // namespace peal

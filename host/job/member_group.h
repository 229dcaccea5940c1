// SPDX-License-Identifier: Apache-2.0
//
// Some PEs of a job, who make collective calls without the others: over the channel, from each to
// each.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "host/job/live_group.h"

namespace peal {

/// Ranks are positions in `pes`. Made by all of them, with an `id` that no other group of theirs
/// has or had, above all counts of masked PEs.
class MemberGroup : public Bootstrap {
 public:
  MemberGroup(LiveGroup& job, std::vector<int> pes, uint64_t id);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(pes_.size()); }
  void allgather(std::span<const std::byte> mine, std::span<std::byte> all) override;
  void barrier() override;
  [[noreturn]] void abort(const std::string& reason) override;

 private:
  LiveGroup& job_;
  std::vector<int> pes_;
  uint64_t id_;
  uint64_t calls_ = 0;
  int rank_;
};

}  // namespace peal

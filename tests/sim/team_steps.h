// SPDX-License-Identifier: Apache-2.0
//
// Collective calls one after another, by kernels that write their sources anew before each and look
// at all of every result. What a member has to give follows from its number, the step and an index.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/collectives.h"
#include "device/shared/team_memory.h"
#include "tests/sim/kernels.h"

namespace peal::sim {

enum class Kind : uint32_t { kBroadcast, kGather, kAllToAll, kReduce, kScan, kSync, kBarrier };

/// One call. The count is in words of 8 bytes.
struct Step {
  Kind kind;
  uint32_t count = 1;
  int root = 0;
  bool in_place = false;
};
using Steps = std::vector<Step>;

// Where things lie in the heap. The team's memory comes first.
inline constexpr size_t kMail = 2048;  // a word for each lane and step
inline constexpr size_t kGiven = 4096;
inline constexpr size_t kTaken = 5120;
inline constexpr size_t kPlace =
    6144;  // of calls in place: in turn, for lanes look at the last one
inline constexpr size_t kPlaceBytes = 512;
inline constexpr size_t kLaunches = 7168;  // blocks that have come to the end of a launch
inline constexpr uint32_t kTeamHeap = 8192;

/// The team of all PEs of a job as member `pe` has it.
inline Team team_of_all(Job& job, int pe, uint32_t channels, uint32_t workspace,
                        uint32_t grid_workspace = 0) {
  Team team;
  team.rank = pe;
  team.size = job.options().n_pes;
  team.stride = 1;
  team.contexts = 1;
  team.channels = channels;
  team.workspace = workspace;
  team.grid_workspace = grid_workspace;
  if (!job.options().direct) team.apart = kTeamByNic;
  team.memory = job.heap(pe);
  return team;
}

inline uint64_t given_word(int member, uint32_t step, uint32_t k) {
  return tagged(member, 0, step + 1, k);
}

/// Words that each member gives, and gets.
inline uint32_t words_given(const Step& step, int n) {
  return step.kind == Kind::kAllToAll ? step.count * static_cast<uint32_t>(n) : step.count;
}
inline uint32_t words_taken(const Step& step, int n) {
  const bool blocks = step.kind == Kind::kAllToAll || step.kind == Kind::kGather;
  return blocks ? step.count * static_cast<uint32_t>(n) : step.count;
}

/// Word k of what member `rank` gets in step number `i`.
inline uint64_t taken_word(const Step& step, uint32_t i, const Team& team, uint32_t k) {
  const auto block = static_cast<int>(k / step.count);
  const auto rank = static_cast<uint32_t>(team.rank);
  uint64_t sum = 0;
  switch (step.kind) {
    case Kind::kBroadcast:
      return given_word(step.root, i, k);
    case Kind::kGather:
      return given_word(block, i, k % step.count);
    case Kind::kAllToAll:
      return given_word(block, i, rank * step.count + k % step.count);
    default:
      break;
  }
  const int last = step.kind == Kind::kScan ? team.rank : team.size - 1;
  for (int member = 0; member <= last; ++member) sum += given_word(member, i, k);
  return sum;
}

/// One member's part of steps, by the lanes of a group.
template <class S, Reach R = Reach::kGpu>
class Player {
 public:
  Player(Job& job, int pe, const Team& team, S scope)
      : ctx_(job.context<R>(pe)),
        team_(team),
        scope_(scope),
        given_(job.at<uint64_t>(pe, kGiven)),
        taken_(job.at<uint64_t>(pe, kTaken)),
        mail_(job.at<uint64_t>(pe, kMail)),
        places_(job.at<uint64_t>(pe, kPlace)),
        launched_(job.at<uint64_t>(pe, kLaunches)) {}

  void play(const Steps& steps) {
    for (uint32_t i = 0; i < steps.size(); ++i) play(steps[i], i);
  }
  void play(const Step& step, uint32_t i) {
    if constexpr (std::is_same_v<S, LaunchedGrid>) {
      fill(step, i);
      end_of_launch();
      must(call(step, i), "a call");
      end_of_launch();
      check(step, i);
      return end_of_launch();
    }
    if (step.kind == Kind::kSync) {
      must(sync(ctx_, scope_, team_), "sync");
    } else if (step.kind == Kind::kBarrier) {
      send_mail(i);
    } else {
      fill(step, i);
      must(call(step, i), "a call");
      check(step, i);
    }
  }

  /// Each lane writes its part of the source.
  void fill(const Step& step, uint32_t i) {
    uint64_t* const from = source(step, i);
    for (uint32_t k = scope_.rank(); k < words_given(step, team_.size); k += scope_.size()) {
      write(from + k, given_word(team_.rank, i, k));
    }
    // The source of a grid must be ready before a long call; a short one waits for the blocks.
    if constexpr (std::is_same_v<S, WholeGrid>) {
      if (all_mapped(team_)) must(sync(ctx_, scope_, team_), "sync of the grid");
    }
  }

  Status call(const Step& step, uint32_t i) {
    uint64_t* const from = source(step, i);
    uint64_t* const to = target(step, i);
    switch (step.kind) {
      case Kind::kBroadcast:
        return broadcast(ctx_, scope_, team_, to, from, step.count, step.root);
      case Kind::kGather:
        return all_gather(ctx_, scope_, team_, to, from, step.count);
      case Kind::kAllToAll:
        return all_to_all(ctx_, scope_, team_, to, from, step.count);
      case Kind::kScan:
        return scan(ctx_, scope_, team_, to, from, step.count, op::sum);
      default:
        return all_reduce(ctx_, scope_, team_, to, from, step.count, op::sum);
    }
  }

  /// Every lane looks at all.
  void check(const Step& step, uint32_t i) {
    const uint64_t* const at = target(step, i);
    for (uint32_t k = 0; k < words_taken(step, team_.size); ++k) {
      const uint64_t seen = read(at + k);
      if (seen == taken_word(step, i, team_, k)) continue;
      throw Failure("word " + std::to_string(k) + " of step " + std::to_string(i) + ", kind " +
                    std::to_string(static_cast<int>(step.kind)) + ", is " + std::to_string(seen));
    }
  }

  uint64_t* taken() { return taken_; }

 private:
  /// All blocks of this PE's grid have come: what a stream has between two kernels.
  void end_of_launch() {
    const Status come = by_leader(block, [&] {
      const uint64_t all = blocks_in_grid() * ++launches_;
      fetch_add<Reach::kGpu>(launched_, uint64_t{1});
      return detail::spin(ctx_, [&] { return load_acquire<Reach::kGpu>(launched_) >= all; });
    });
    must(come, "another block");
  }

  uint64_t* target(const Step& step, uint32_t i) {
    return step.in_place ? places_ + i % 2 * kPlaceBytes / sizeof(uint64_t) : taken_;
  }
  uint64_t* source(const Step& step, uint32_t i) {
    if (!step.in_place) return given_;
    const bool block = step.kind == Kind::kGather;
    return target(step, i) + (block ? static_cast<uint32_t>(team_.rank) * step.count : 0);
  }

  /// Every lane tells the next member a word, of which that one knows after the barrier.
  void send_mail(uint32_t i) {
    const int n = team_.size;
    const int next = (team_.rank + 1) % n;
    const int before = (team_.rank + n - 1) % n;
    uint64_t* const words = mail_ + i * scope_.size();
    must(p(ctx_, words + scope_.rank(), given_word(team_.rank, i, scope_.rank()), next), "p");
    must(barrier(ctx_, scope_, team_), "barrier");
    for (uint32_t k = 0; k < scope_.size(); ++k) {
      expect_equal(read(words + k), given_word(before, i, k), "word before a barrier");
    }
  }

  const BasicContext<R> ctx_;
  const Team team_;
  const S scope_;
  uint64_t* const given_;
  uint64_t* const taken_;
  uint64_t* const mail_;
  uint64_t* const places_;
  uint64_t* const launched_;
  uint64_t launches_ = 0;
};

}  // namespace peal::sim

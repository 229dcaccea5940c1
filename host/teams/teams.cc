// SPDX-License-Identifier: Apache-2.0
#include "host/teams/teams.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "device/shared/team_memory.h"
#include "host/base/config.h"
#include "host/base/error.h"
#include "host/job/together.h"

namespace peal {
namespace {

constexpr size_t kMost = size_t{1} << 30;

size_t block_bytes(size_t members, const TeamOptions& options) {
  const uint64_t part = collective::part_bytes(static_cast<uint32_t>(members), options.blocks,
                                               options.workspace + options.grid_workspace);
  return part * options.contexts + members * sizeof(int32_t);
}

// Workspaces are of whole lines: behind them lie words, of the next context and who the members
// are. What no team has stays, to be refused as it was asked for.
TeamOptions rounded(TeamOptions options) {
  for (size_t* const bytes : {&options.workspace, &options.grid_workspace}) {
    if (*bytes > kMost) continue;
    *bytes =
        (*bytes + collective::kAlignment - 1) / collective::kAlignment * collective::kAlignment;
  }
  return options;
}

// The distance between PEs that are evenly spaced, or 0.
int stride_of(const std::vector<int>& pes) {
  if (pes.size() < 2) return 1;
  const int stride = pes[1] - pes[0];
  for (size_t i = 2; i < pes.size(); ++i) {
    if (pes[i] - pes[i - 1] != stride) return 0;
  }
  return stride;
}

bool one_host(const LiveGroup& job, const std::vector<int>& pes) {
  const auto& places = job.places();
  return std::ranges::all_of(pes, [&](int pe) {
    return same_host(places[static_cast<size_t>(pe)], places[static_cast<size_t>(pes[0])]);
  });
}

constexpr uint64_t kNoTeam = ~uint64_t{0};
// The team of all PEs lets as many blocks of a grid share a long call as a GPU has room for.
TeamOptions world_options(bool on_gpu) {
  TeamOptions options{.contexts = 4, .blocks = 128};
  if (on_gpu) options.grid_workspace = 8 << 20;
  return options;
}

}  // namespace

// What a PE tells of itself when a team is split.
struct Teams::MemberRequest {
  int32_t color;
  int32_t key;
  uint32_t made;
  TeamOptions options;
  Taken taken;
};

size_t Teams::arena_bytes(size_t asked, int n_pes, bool on_gpu) {
  const size_t needed = block_bytes(static_cast<size_t>(n_pes), world_options(on_gpu));
  return std::max(asked, 2 * needed);
}

Teams::Teams(LiveGroup& group, SymmetricHeap& heap, size_t arena, Ways ways, Backing published)
    : job_(group),
      heap_(heap),
      arena_(arena),
      granule_(std::max<size_t>(collective::kAlignment, arena / kGranules / collective::kAlignment *
                                                            collective::kAlignment)),
      base_(heap.reserve_internal(arena)),
      ways_(std::move(ways)),
      published_(std::move(published)) {
  Record world;
  for (int pe = 0; pe < job_.size(); ++pe) world.pes.push_back(pe);
  world.team.id = 0;
  world.team.rank = job_.rank();
  if (!ways_.all_mapped) world.team.apart = kTeamByNic;
  world.options = world_options(!heap_.backing().host_accessible());
  world.count = granules(world.pes.size(), world.options);
  fill_team(world);
  write(world);
  publish(world.first, world.team);
  for (size_t i = kWords; i > 0; --i) free_words_.push_back(i - 1);
  take_words(world);
  for (size_t i = 0; i < world.count; ++i) taken_.set(i);
  world_ = &records_.emplace(0, std::move(world)).first->second.team;
}

size_t Teams::granules(size_t members, const TeamOptions& options) const {
  return (block_bytes(members, options) + granule_ - 1) / granule_;
}

void Teams::check(const TeamOptions& options) {
  if (options.contexts == 0 || options.blocks == 0 || options.blocks > 65535 ||
      options.contexts > 64 || options.workspace > kMost || options.grid_workspace > kMost) {
    fail(ErrorCode::kInvalidArgument,
         "split_team: {} contexts, {} blocks, workspaces of {} and {} bytes: a team has 1 to 64 "
         "contexts, 1 to 65535 blocks and at most {} of each workspace",
         options.contexts, options.blocks, options.workspace, options.grid_workspace,
         format_size(kMost));
  }
}

// Fills in what follows from the members and the place in the arena.
void Teams::fill_team(Record& record) const {
  Team& team = record.team;
  team.size = static_cast<int32_t>(record.pes.size());
  team.first = record.pes.front();
  team.stride = stride_of(record.pes);
  team.contexts = record.options.contexts;
  team.channels = record.options.blocks;
  team.workspace = static_cast<uint32_t>(record.options.workspace);
  team.grid_workspace = static_cast<uint32_t>(record.options.grid_workspace);
  team.apart |= ways_.forced.word();
  team.memory = base_ + record.first * granule_;
  team.pes = reinterpret_cast<const int32_t*>(collective::Part::of(team, team.contexts).base);
}

// Called before the members meet, when nobody writes there yet.
void Teams::write(const Record& record) {
  const Team& team = record.team;
  const std::span<const int> pes = record.pes;
  heap_.zero(team.memory, record.count * granule_);
  heap_.backing().copy_in(const_cast<int32_t*>(team.pes), pes.data(), pes.size_bytes());
  const bool masked = std::ranges::any_of(record.pes, [&](int pe) { return job_.masked(pe); });
  if (generation_ == 0) return;
  for (uint32_t context = 0; context < team.contexts; ++context) {
    const collective::Part at = collective::Part::of(team, context);
    for (uint32_t channel = 0; channel < team.channels; ++channel) {
      collective::ChannelCounters counters{};
      counters.meetings = generation_ << 24;  // beyond what is still on its way
      if (masked) counters.refused = static_cast<uint32_t>(Status::kPeerMasked);
      heap_.backing().copy_in(&at.counters(channel), &counters, sizeof(counters));
    }
  }
}

const Teams::Record& Teams::find(const char* call, const Team& team) const {
  const auto found = records_.find(team.id);
  if (found == records_.end() || found->second.team.memory != team.memory || team.rank < 0) {
    fail(ErrorCode::kInvalidArgument,
         "{}: PE {} is not a member of team {:#x}, or the team was freed", call, job_.rank(),
         team.id);
  }
  return found->second;
}
Teams::Record& Teams::find(const char* call, const Team& team) {
  return const_cast<Record&>(std::as_const(*this).find(call, team));
}

void Teams::publish(size_t granule, const Team& team) {
  published_.copy_in(reinterpret_cast<Team*>(published_.address()) + granule, &team, sizeof(team));
}

const Team* Teams::published(const char* call, const Team& team) const {
  return reinterpret_cast<const Team*>(published_.address()) + find(call, team).first;
}

uint64_t* Teams::word(size_t number) const {
  return reinterpret_cast<uint64_t*>(published_.address() + kGranules * sizeof(Team)) + number;
}

// The words are this PE's alone. What a call that was cut short left in one is cleared.
void Teams::take_words(Record& record) {
  while (record.words.size() < record.options.contexts && !free_words_.empty()) {
    record.words.push_back(free_words_.back());
    free_words_.pop_back();
    published_.store_word(word(record.words.back()), uint64_t{0});
  }
}

uint64_t* Teams::under_way(const Team& team, uint32_t context) const {
  const std::vector<size_t>& words = find("under_way", team).words;
  return context < words.size() ? word(words[context]) : nullptr;
}

std::vector<int> Teams::members(const Team& team) const { return find("members", team).pes; }

// Every member's heap is mapped here.
bool Teams::maps(const std::vector<int>& pes) const {
  return std::ranges::all_of(
      pes, [&](int pe) { return pe == job_.rank() || ways_.direct[static_cast<size_t>(pe)]; });
}

int Teams::node_color() const {
  for (int pe = 0; pe < job_.size(); ++pe) {
    if (pe == job_.rank() || ways_.direct[static_cast<size_t>(pe)]) return pe;
  }
  return job_.rank();
}

// The members of the parent that told the same color, by key.
std::vector<size_t> Teams::ranks_of(const Record& parent, const std::vector<MemberRequest>& offers,
                                    int color) const {
  std::vector<size_t> ranks;
  for (size_t i = 0; i < offers.size(); ++i) {
    if (color >= 0 && offers[i].color == color && !job_.masked(parent.pes[i])) ranks.push_back(i);
  }
  std::ranges::stable_sort(ranks, {}, [&](size_t i) { return offers[i].key; });
  return ranks;
}

// The first gap that is free at all members.
size_t Teams::find_gap(const Taken& taken, size_t count, size_t members) const {
  size_t run = 0;
  for (size_t at = 0; at < kGranules; ++at) {
    run = taken.test(at) ? 0 : run + 1;
    if (run == count) return at + 1 - count;
  }
  fail(ErrorCode::kOutOfMemory,
       "split_team: no {} bytes in one piece for a team of {} PEs; of {} for teams {} bytes are "
       "taken at some member: raise PEAL_TEAM_MEMORY, free teams, or ask for less (TeamOptions)",
       count * granule_, members, format_size(arena_), taken.count() * granule_);
}

Teams::Record Teams::make(const Record& parent, const std::vector<MemberRequest>& offers,
                          const std::vector<size_t>& ranks) {
  Record record;
  record.options = offers[ranks.front()].options;
  Taken taken;
  for (const size_t i : ranks) {
    record.pes.push_back(parent.pes[i]);
    taken |= offers[i].taken;
    const TeamOptions& one = offers[i].options;
    if (one == record.options) continue;
    fail(ErrorCode::kInvalidArgument,
         "split_team: PE {} asks for {} contexts, {} blocks, {} and {} bytes of workspaces, PE {} "
         "for {}, {}, {} and {}: all members must ask alike",
         record.pes.back(), one.contexts, one.blocks, one.workspace, one.grid_workspace,
         record.pes.front(), record.options.contexts, record.options.blocks,
         record.options.workspace, record.options.grid_workspace);
  }
  check(record.options);
  record.count = granules(record.pes.size(), record.options);
  record.first = find_gap(taken, record.count, record.pes.size());
  const auto leader = static_cast<uint64_t>(record.pes.front());
  record.team.id = (leader + 1) << 32 | (offers[ranks.front()].made + 1);
  record.team.rank =
      static_cast<int32_t>(std::ranges::find(record.pes, job_.rank()) - record.pes.begin());
  return record;
}

Team Teams::split(const Team& parent_team, int color, int key, const TeamOptions& asked) {
  Record& parent = find("split_team", parent_team);
  const TeamOptions options = rounded(asked);
  if (parent.group && !one_host(job_, parent.pes)) {
    fail(ErrorCode::kUnsupported,
         "split_team: team {:#x} has members on several hosts, where only the team of all PEs can "
         "be split",
         parent.team.id);
  }
  Bootstrap& group = group_of(parent);
  const std::vector<MemberRequest> offers =
      gather(group, MemberRequest{color, key, made_, options, taken_});
  const std::vector<size_t> ranks = ranks_of(parent, offers, color);
  Record record;
  // Nobody uses memory that is not ready at all members.
  const std::vector<uint8_t> mapped = gather_together(group, [&] {
    if (ranks.empty()) return uint8_t{0};
    record = make(parent, offers, ranks);
    fill_team(record);
    write(record);
    return static_cast<uint8_t>(maps(record.pes) ? 1 : 0);
  });
  for (const size_t i : ranks) record.team.apart |= mapped[i] != 0 ? 0 : kTeamByNic;
  if (ranks.empty()) return Team{};
  publish(record.first, record.team);
  take_words(record);
  if (record.team.rank == 0) ++made_;
  for (size_t i = 0; i < record.count; ++i) taken_.set(record.first + i);
  record.group = std::make_unique<MemberGroup>(job_, record.pes, record.team.id);
  return records_.emplace(record.team.id, std::move(record)).first->second.team;
}

void Teams::free(const Team& team) {
  Record& record = find("free_team", team);
  if (!record.group) fail(ErrorCode::kInvalidArgument, "free_team: the team of all PEs stays");
  // Between hosts there is no way for some PEs alone to meet: the caller has seen to that.
  if (one_host(job_, record.pes)) record.group->barrier();
  for (size_t i = 0; i < record.count; ++i) taken_.reset(record.first + i);
  publish(record.first, Team{.id = kNoTeam});
  free_words_.insert(free_words_.end(), record.words.begin(), record.words.end());
  records_.erase(team.id);
}

void Teams::begin_anew() {
  ++generation_;
  together(job_, [&] {
    for (const auto& [id, record] : records_) {
      write(record);
      for (const size_t number : record.words) published_.store_word(word(number), uint64_t{0});
    }
  });
}

}  // namespace peal

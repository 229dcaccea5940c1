// SPDX-License-Identifier: Apache-2.0
//
// The teams of a PE: who is in them, and the memory that their collective calls use.
//
//   arena of the heap   [ world | team | ... ]    a team's block at one offset at all its members
//
// A team is made by the members of another one, its parent, in two exchanges: each tells its color
// and which blocks of its arena are taken, and all members of a color find the same first gap; then
// that the memory is ready, and whether all members are mapped.
// Teams without a common member may lie at the same offset.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "device/shared/algorithms.h"
#include "device/team.h"
#include "host/job/live_group.h"
#include "host/job/together.h"
#include "host/memory/symmetric_heap.h"
#include "host/options.h"

namespace peal {

class Teams {
 public:
  /// Bytes of the arena for PEAL_TEAM_MEMORY: at least what the team of all PEs needs.
  static size_t arena_bytes(size_t asked, int n_pes, bool on_gpu);

  /// How calls of teams go.
  struct Ways {
    std::vector<bool> direct;            // by PE: its heap is mapped here
    bool all_mapped;                     // so it is for all pairs of the job
    collective::ForcedAlgorithm forced;  // PEAL_ALGORITHM
  };
  /// Takes the arena out of the heap, which is not in use yet.
  Teams(LiveGroup& group, SymmetricHeap& heap, size_t arena, Ways ways, Backing published);
  /// Bytes of `published`, memory of kernels.
  static size_t published_bytes() { return kGranules * sizeof(Team) + kWords * sizeof(uint64_t); }

  const Team& world() const { return *world_; }

  /// Collective among the members of `parent`. Those of one color become a team, ordered by key,
  /// then by their number in the parent; a negative color none. Throws kInvalidArgument for a
  /// parent that this PE is not in, kOutOfMemory at all members of a color, kUnsupported for a
  /// parent other than the world with members on several hosts.
  Team split(const Team& parent, int color, int key, const TeamOptions& options);

  /// The color of PEs that map one another's memory: the lowest that this PE maps.
  int node_color() const;

  /// Collective among the members, who have no kernel running that uses the team. The world stays.
  void free(const Team& team);

  /// The PEs of the members, in order.
  std::vector<int> members(const Team& team) const;

  /// The team as kernels look it up when they run: until free() where they find its id. Throws
  /// kInvalidArgument, naming `call`, for a team that this PE is not in.
  const Team* published(const char* call, const Team& team) const;
  /// The word of kernels that says what call of the team is under way on a context
  /// (kernels::UnderWay), or null: there are no more words.
  uint64_t* under_way(const Team& team, uint32_t context) const;

  /// Collective among the members: what each gives, in order.
  template <class T>
  std::vector<T> gather_from(const Team& team, const T& mine) {
    return gather(group_of(find("gather", team)), mine);
  }

  /// After Contexts::recover(), collective: counters and arrivals of all teams begin anew.
  void begin_anew();

 private:
  static constexpr size_t kGranules = 8192;
  static constexpr size_t kWords = 16384;
  using Taken = std::bitset<kGranules>;
  struct Record {
    Team team;
    std::vector<int> pes;
    std::unique_ptr<MemberGroup> group;  // none: the whole job
    size_t first = 0;                    // granules in the arena
    size_t count = 0;
    TeamOptions options;
    std::vector<size_t> words;  // one for each context, as far as there were some
  };
  struct MemberRequest;

  Record& find(const char* call, const Team& team);
  const Record& find(const char* call, const Team& team) const;
  Bootstrap& group_of(Record& record) {
    return record.group ? *record.group : static_cast<Bootstrap&>(job_);
  }
  size_t granules(size_t members, const TeamOptions& options) const;
  std::vector<size_t> ranks_of(const Record& parent, const std::vector<MemberRequest>& offers,
                               int color) const;
  size_t find_gap(const Taken& taken, size_t count, size_t members) const;
  Record make(const Record& parent, const std::vector<MemberRequest>& offers,
              const std::vector<size_t>& ranks);
  void fill_team(Record& record) const;
  bool maps(const std::vector<int>& pes) const;
  void write(const Record& record);
  void publish(size_t granule, const Team& team);
  uint64_t* word(size_t number) const;
  void take_words(Record& record);
  static void check(const TeamOptions& options);

  LiveGroup& job_;
  SymmetricHeap& heap_;
  size_t arena_;
  size_t granule_;
  std::byte* base_;
  Ways ways_;
  Backing published_;  // a Team for each granule: of the one that begins there; words
  Taken taken_;
  std::vector<size_t> free_words_;
  std::map<uint64_t, Record> records_;  // by Team::id
  const Team* world_ = nullptr;
  uint32_t made_ = 0;        // teams that this PE was the first member of
  uint32_t generation_ = 0;  // counters begin beyond it
};

}  // namespace peal

// SPDX-License-Identifier: Apache-2.0
#include "host/runtime/kept_heap.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "host/base/error.h"
#include "host/job/together.h"

namespace peal {

namespace {

struct Digest {
  uint64_t words = 0;  // 0: of a new process
  uint64_t sum = 0;    // XXH3 of them

  bool operator==(const Digest&) const = default;
};

Digest digest_of(const std::vector<uint64_t>& words) {
  if (words.empty()) return {};
  return {words.size(), XXH3_64bits(words.data(), words.size() * sizeof(uint64_t))};
}

}  // namespace

// PEs that keep their heaps have the same words, if they may: each gives its share of them, so that
// the exchange is as long as one list.
std::vector<uint64_t> kept_words(JobMembership& job) {
  if (!job.keeper) return {};
  const std::vector<uint64_t> mine = job.heap ? job.heap->words() : std::vector<uint64_t>();
  const std::vector<Digest> all = gather(job.group, digest_of(mine));
  const auto keeper = static_cast<size_t>(*job.keeper);
  const Digest& kept = all[keeper];
  std::vector<size_t> keepers;
  for (size_t pe = 0; pe < all.size(); ++pe) {
    if (all[pe].words == 0) continue;
    keepers.push_back(pe);
    if (all[pe] == kept) continue;
    fail(ErrorCode::kConfiguration,
         "rejoin: PE {} has allocated other blocks than PE {}: a call of the heap had succeeded on "
         "one of them alone when a PE ended: rejoin without keeping the heaps",
         pe, keeper);
  }
  const size_t share = (kept.words + keepers.size() - 1) / keepers.size();
  const auto me = std::ranges::find(keepers, static_cast<size_t>(job.group.rank()));
  const auto shares = gather_together<uint64_t>(job.group, share, [&](std::span<uint64_t> out) {
    if (me == keepers.end()) return;
    const size_t at = static_cast<size_t>(me - keepers.begin()) * share;
    for (size_t i = 0; i < share && at + i < mine.size(); ++i) out[i] = mine[at + i];
  });
  std::vector<uint64_t> words;
  for (const size_t pe : keepers) {
    const auto from = std::span(shares).subspan(pe * share, share);
    words.insert(words.end(), from.begin(), from.end());
  }
  words.resize(kept.words);
  return words;
}

HeapMemory kept_memory(JobMembership& job, const std::vector<uint64_t>& words,
                       const std::function<Backing(size_t bytes, HeapKind kind)>& make) {
  // A segment ends with its last block: nobody else may hold it then.
  if (const auto heap = std::exchange(job.heap, nullptr)) return *heap;
  HeapMemory heap = HeapMemory::from_words(words);
  for (size_t i = 0; i < heap.segments.size(); ++i) {
    const auto& [number, kind, bytes] = heap.segments[i];
    heap.memory[i] = std::make_shared<Backing>(make(bytes, kind));
  }
  return heap;
}

}  // namespace peal

// SPDX-License-Identifier: Apache-2.0
#include "host/runtime/kept_heap.h"

#include <algorithm>
#include <memory>
#include <span>

#include "host/base/error.h"
#include "host/job/together.h"

namespace peal {

std::vector<uint64_t> kept_words(JobMembership& job) {
  if (!job.keeper) return {};
  const std::vector<uint64_t> mine = job.heap ? job.heap->words() : std::vector<uint64_t>();
  const std::vector<uint64_t> counts = gather<uint64_t>(job.group, mine.size());
  const auto keeper = static_cast<size_t>(*job.keeper);
  const size_t count = *std::ranges::max_element(counts);
  const std::vector<uint64_t> all = gather_together<uint64_t>(
      job.group, count, [&](std::span<uint64_t> out) { std::ranges::copy(mine, out.begin()); });
  const auto words_of = [&](size_t pe) {
    return std::span(all).subspan(pe * count, static_cast<size_t>(counts[pe]));
  };
  const auto kept = words_of(keeper);
  for (size_t pe = 0; pe < counts.size(); ++pe) {
    if (counts[pe] == 0 || std::ranges::equal(words_of(pe), kept)) continue;
    fail(ErrorCode::kConfiguration,
         "rejoin: PE {} has allocated other blocks than PE {}: a call of the heap had succeeded on "
         "one of them alone when a PE ended: rejoin without keeping the heaps",
         pe, keeper);
  }
  return {kept.begin(), kept.end()};
}

HeapMemory kept_memory(const JobMembership& job, const std::vector<uint64_t>& words,
                       const std::function<Backing(size_t bytes, HeapKind kind)>& make) {
  if (job.heap) return *job.heap;
  HeapMemory heap = HeapMemory::from_words(words);
  for (size_t i = 0; i < heap.segments.size(); ++i) {
    const auto& [number, kind, bytes] = heap.segments[i];
    heap.memory[i] = std::make_shared<Backing>(make(bytes, kind));
  }
  return heap;
}

}  // namespace peal

// SPDX-License-Identifier: Apache-2.0
#include "host/memory/pinned_pages.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace peal {

std::shared_ptr<void> PinnedPages::hold(std::byte* address, size_t bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(address);
  const uintptr_t end = (first + bytes + page - 1) / page * page;
  std::erase_if(parts_, [](const auto& part) { return part.second.range.expired(); });
  auto held = std::make_shared<std::vector<std::shared_ptr<PinnedRange>>>();
  uintptr_t at = first / page * page;
  auto next = parts_.upper_bound(at);
  if (next != parts_.begin() && std::prev(next)->second.end > at) --next;
  while (at < end) {
    if (next != parts_.end() && next->first <= at) {
      held->push_back(next->second.range.lock());
      at = next->second.end;
      ++next;
      continue;
    }
    const uintptr_t until = next == parts_.end() ? end : std::min(end, next->first);
    // Its owner may have pinned from there on, and not from where the page begins.
    if (!gpu_->knows(reinterpret_cast<std::byte*>(std::max(at, first)))) {
      auto* const begin = reinterpret_cast<std::byte*>(at);
      auto range = std::make_shared<PinnedRange>(pin(gpu_, begin, until - at));
      parts_.insert(next, {at, {until, range}});
      held->push_back(std::move(range));
    }
    at = until;
  }
  return held;
}

}  // namespace peal

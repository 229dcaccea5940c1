// SPDX-License-Identifier: Apache-2.0
//
// A sweep over the windows' ends makes the spans; the spans' granules are hashed.
#include "host/windows/window_index.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

namespace peal {
namespace {

/// A window begins or ends.
struct Boundary {
  uint64_t at;
  const IndexedWindow* window;
  bool begins;
};

/// Windows that the sweep is in, by their ends, then by their numbers.
using Open = std::set<std::pair<uint64_t, uint32_t>>;

void pass(Open& open, const Boundary& boundary) {
  const std::pair entry{boundary.window->begin + boundary.window->bytes, boundary.window->number};
  if (boundary.begins) {
    open.insert(entry);
  } else {
    open.erase(entry);
  }
}

uint32_t last_to_end(const Open& open) { return open.empty() ? 0 : open.rbegin()->second; }

std::vector<WindowSpan> spans_of(std::span<const IndexedWindow> windows) {
  std::vector<Boundary> boundaries;
  for (const IndexedWindow& window : windows) {
    boundaries.push_back({window.begin, &window, true});
    boundaries.push_back({window.begin + window.bytes, &window, false});
  }
  std::ranges::sort(boundaries, {}, &Boundary::at);
  std::vector<WindowSpan> spans;
  Open home, peer;
  for (size_t i = 0; i < boundaries.size(); ++i) {
    const Boundary& boundary = boundaries[i];
    pass(home, boundary);
    if (boundary.window->peer) pass(peer, boundary);
    if (i + 1 < boundaries.size() && boundaries[i + 1].at == boundary.at) continue;
    const WindowSpan span{boundary.at, last_to_end(home), last_to_end(peer)};
    const bool same =
        !spans.empty() && spans.back().home == span.home && spans.back().peer == span.peer;
    if (!same) spans.push_back(span);
  }
  return spans;
}

/// Calls `body(granule, span)` for each granule that a span which is not empty has bytes of, in
/// rising order, until it answers false. Answers whether it never did.
template <class Body>
bool for_granules(const std::vector<WindowSpan>& spans, uint32_t shift, const Body& body) {
  for (uint32_t i = 0; i + 1 < spans.size(); ++i) {
    if (spans[i].home == 0) continue;
    const uint64_t last = (spans[i + 1].begin - 1) >> shift;
    for (uint64_t granule = spans[i].begin >> shift; granule <= last; ++granule) {
      if (!body(granule, i)) return false;
    }
  }
  return true;
}

/// One entry for each granule, in rising order; none where there would be more than `most`.
std::vector<WindowSlot> granules_of(const std::vector<WindowSpan>& spans, uint32_t shift,
                                    size_t most) {
  std::vector<WindowSlot> granules;
  const bool fit = for_granules(spans, shift, [&](uint64_t granule, uint32_t span) {
    if (!granules.empty() && granules.back().granule == granule) {
      granules.back().count = span - granules.back().first + 1;
    } else {
      granules.push_back({granule, span, 1});
    }
    return granules.size() <= most;
  });
  if (!fit) granules.clear();
  return granules;
}

bool is_near(const WindowNearAt& line) {
  return std::ranges::any_of(line.apart, [](uint64_t apart) { return apart != 0; });
}

/// True if every address of the window is of it and of no other: a near line, which is looked at
/// for addresses of other granules too, knows of one window.
bool undivided(const std::vector<WindowSpan>& spans, const IndexedWindow& window) {
  const uint64_t end = window.begin + window.bytes;
  auto span = std::ranges::upper_bound(spans, window.begin, {}, &WindowSpan::begin);
  for (--span; span != spans.end() && span->begin < end; ++span) {
    if (span->peer != window.number) return false;
  }
  return true;
}

/// What the slots of an image say of near windows.
std::vector<WindowNearAt> near_of(const IndexImage& image, std::span<const IndexedWindow> windows) {
  std::vector<const IndexedWindow*> by_number(kMaxWindows);
  for (const IndexedWindow& window : windows) {
    if (undivided(image.spans, window)) by_number[window.number] = &window;
  }
  std::vector<WindowNearAt> all(image.slots.size());
  for (size_t slot = 0; slot < all.size(); ++slot) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < image.slots[slot].count; ++i) {
      const IndexedWindow* const window = by_number[image.spans[image.slots[slot].first + i].peer];
      if (window == nullptr || !is_near(window->near) || window->bytes <= most) continue;
      most = window->bytes;
      all[slot] = window->near;
    }
  }
  return all;
}

/// PublishedIndex::drop of so many slots.
uint32_t drop_of(size_t slots) { return 33 - static_cast<uint32_t>(std::bit_width(slots)); }

std::vector<WindowSlot> hashed(const std::vector<WindowSlot>& granules) {
  constexpr size_t kLeast = 16;
  std::vector<WindowSlot> slots(std::bit_ceil(std::max(2 * granules.size(), kLeast)));
  const auto mask = static_cast<uint32_t>(slots.size() - 1);
  for (const WindowSlot& entry : granules) {
    uint32_t slot = WindowIndex::first_slot(entry.granule, drop_of(slots.size()));
    uint32_t probe = 1;
    for (; slots[slot].count != 0 && probe < WindowIndex::kProbes; ++probe) {
      slot = (slot + 1) & mask;
    }
    // An entry that finds no slot is left out: a lane that does not find it looks at all windows.
    if (slots[slot].count == 0) slots[slot] = entry;
  }
  return slots;
}

}  // namespace

uint32_t IndexImage::drop() const { return drop_of(slots.size()); }

IndexImage make_index(std::span<const IndexedWindow> windows) {
  constexpr uint32_t kPageShift = 12;
  constexpr uint32_t kAddressBits = 48;
  IndexImage image{kPageShift, {}, {}, spans_of(windows)};
  const size_t most = std::clamp<size_t>(8 * windows.size(), 64, WindowIndex::kSlots / 2);
  std::vector<WindowSlot> granules;
  while (image.spans.size() > 1 && image.shift <= kAddressBits) {
    granules = granules_of(image.spans, image.shift, most);
    if (!granules.empty()) break;
    ++image.shift;
  }
  image.slots = hashed(granules);
  image.near = near_of(image, windows);
  return image;
}

}  // namespace peal

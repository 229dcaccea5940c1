// SPDX-License-Identifier: Apache-2.0
//
// The order of stores that lets kernels look a window up while others come and go: an entry is
// empty while the rest of it is written, and the version goes up behind every change.
#include "host/windows/published_windows.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <iterator>
#include <type_traits>
#include <utility>

#include "host/base/error.h"

namespace peal {

/// Stores into tables that kernels read meanwhile, collected and then carried out in one go: a GPU
/// is waited for once, not for each.
class StoreList {
 public:
  /// The values are copied.
  template <class T>
  void add(T* to, std::span<const std::type_identity_t<T>> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    static_assert(sizeof(T) % sizeof(uint32_t) == 0);
    if (values.empty()) return;
    const auto bytes = std::as_bytes(values);
    const auto& kept = values_.emplace_back(bytes.begin(), bytes.end());
    stores_.push_back({to, kept.data(), kept.size()});
  }
  template <class T>
  void add(T* to, const T& value) {
    add(to, std::span(&value, 1));
  }

  /// Stores the words in this order, as Backing::store_in_order() does. They are stored on return.
  void carry_out(const Backing& memory) const { memory.store_in_order(stores_); }

 private:
  std::deque<std::vector<std::byte>> values_;
  std::vector<Copy> stores_;
};

namespace {

constexpr uint32_t kFirstBlock = 64;

// Block k is for windows [kFirstBlock * (2^k - 1), kFirstBlock * (2^(k+1) - 1)).
uint32_t block_of(uint32_t number) {
  return static_cast<uint32_t>(std::bit_width(number / kFirstBlock + 1)) - 1;
}
uint32_t first_of(uint32_t block) { return kFirstBlock * ((1u << block) - 1); }

constexpr uint64_t kValues = (uint64_t{1} << kMarkShift) - 1;

/// A word of a near line, with a mark that differs from window to window: this one was the
/// `count`th to be filled in.
uint64_t marked(uint64_t value, uint64_t count) {
  constexpr uint64_t kMarks = (uint64_t{1} << (64 - kMarkShift)) - 1;
  return value | (1 + count % kMarks) << kMarkShift;
}

// The mapped PEs are neighbours where PEs are numbered machine by machine; others are looked up.
PublishedWindows::Heap heap_of(const Window& window, std::span<std::byte* const> direct) {
  PublishedWindows::Heap heap{.window = window};
  const auto first = std::ranges::find_if(direct, [](auto* at) { return at != nullptr; });
  if (first == direct.end()) return heap;
  heap.near_first = static_cast<int32_t>(first - direct.begin());
  const auto near = std::span(first, direct.end());
  std::ranges::copy(near.first(std::min<size_t>(near.size(), kNearPes)), heap.near.begin());
  return heap;
}

}  // namespace

PublishedWindows::PublishedWindows(Make make, int n_pes, uint32_t rails)
    : make_(std::move(make)),
      n_pes_(static_cast<size_t>(n_pes)),
      keys_(rails * n_pes_),
      memory_(make_(sizeof(WindowTable) + 2 * sizeof(WindowIndex))) {
  static_assert(sizeof(WindowTable) % alignof(WindowIndex) == 0);
}

const WindowTable* PublishedWindows::table() const { return published(); }

size_t PublishedWindows::bytes() const {
  size_t sum = memory_.bytes();
  for (const Backing& block : blocks_) sum += block.bytes();
  return sum;
}

// Rounded up, so that what lies behind is aligned.
size_t PublishedWindows::bytes_by_pe() const {
  const size_t bytes =
      n_pes_ * (sizeof(WindowPart) + sizeof(std::byte*)) + 2 * keys_ * sizeof(NicKey);
  return (bytes + alignof(WindowPart) - 1) / alignof(WindowPart) * alignof(WindowPart);
}

void PublishedWindows::make_room(uint32_t number) {
  while (block_of(number) >= blocks_.size()) {
    blocks_.push_back(make_((kFirstBlock << blocks_.size()) * bytes_by_pe()));
  }
}

PublishedWindows::ByPe PublishedWindows::by_pe(uint32_t number) const {
  const uint32_t block = block_of(number);
  auto* const parts = reinterpret_cast<WindowPart*>(blocks_[block].address() +
                                                    (number - first_of(block)) * bytes_by_pe());
  auto* const direct = reinterpret_cast<std::byte**>(parts + n_pes_);
  auto* const rkeys = reinterpret_cast<NicKey*>(direct + n_pes_);
  return {parts, direct, rkeys, rkeys + keys_};
}

void PublishedWindows::check_room() const {
  if (in_use_ < kMaxWindows) return;
  fail(ErrorCode::kInvalidArgument,
       "register: {} windows are in use already, which is all there are; unregister some",
       kMaxWindows);
}

// Numbers that were never used come first, so that a slow kernel finds no other window under the
// number that it has.
uint32_t PublishedWindows::next_number() const {
  return entries_.size() < kMaxWindows ? static_cast<uint32_t>(entries_.size()) : free_.front();
}

PublishedWindows::Draft PublishedWindows::fill(Window window, const Reached& reached) {
  check_room();
  Draft draft;
  draft.number_ = next_number();
  make_room(draft.number_);
  const ByPe to = by_pe(draft.number_);
  StoreList stores;
  const auto fill = [&](auto* entries, const auto& values) {
    stores.add(entries, values);
    return values.empty() ? nullptr : entries;
  };
  window.rkeys = fill(to.rkeys, reached.rkeys);
  window.word_rkeys = fill(to.word_rkeys, reached.word_rkeys);
  window.direct = fill(to.direct, reached.direct);
  window.parts = fill(to.parts, reached.parts);
  draft.window_ = window;
  draft.entry_ = {window.base, window.bytes, true,
                  window.rkeys != nullptr || window.direct != nullptr};
  if (draft.number_ == 0) draft.heap_ = heap_of(window, reached.direct);
  ++drafts_;
  add_near_lines(draft, (draft.number_ == 0 ? draft.heap_ : heap_).near_first, reached);
  Window rest = window;
  rest.base = nullptr;
  rest.bytes = 0;
  if (window.off_gpu != 0) stores.add(&published()->off_gpu, uint32_t{1});
  stores.add(&published()->window[draft.number_], rest);
  stores.carry_out(memory_);
  return draft;
}

// A line whose values leave no room for a mark stays zero.
void PublishedWindows::add_near_lines(Draft& draft, int32_t near_first,
                                      const Reached& reached) const {
  const Window& window = draft.window_;
  WindowNearAt& by_address = draft.entry_.near;
  const auto base = reinterpret_cast<uint64_t>(window.base);
  uint64_t shortest = window.bytes;
  for (size_t slot = 0; slot < kNearPes; ++slot) {
    const size_t pe = slot + static_cast<size_t>(near_first);
    if (pe >= reached.direct.size() || reached.direct[pe] == nullptr) continue;
    const uint64_t bytes = reached.parts.empty() ? window.bytes : reached.parts[pe].bytes;
    const auto there = reinterpret_cast<uint64_t>(reached.direct[pe]);
    if (bytes >= kValues || there > kValues) continue;
    draft.near_[slot] = {marked(bytes + 1, drafts_), marked(there, drafts_)};
    by_address.apart[slot] = marked((there - base) & kValues, drafts_);
    shortest = std::min(shortest, bytes);
  }
  if (base != 0 && shortest != 0 && base + shortest < kValues) {
    by_address.begin = marked(base, drafts_);
    by_address.limit = marked(base + shortest + 1, drafts_);
  }
}

uint32_t PublishedWindows::publish(const Draft& draft) {
  const uint32_t number = draft.number_;
  if (number == 0) heap_ = draft.heap_;
  StoreList stores;
  const uint64_t part[] = {reinterpret_cast<uint64_t>(draft.window_.base), draft.window_.bytes};
  stores.add(reinterpret_cast<uint64_t*>(&published()->window[number]), std::span(part));
  add_near(stores, number, draft.near_);
  if (number == entries_.size()) {
    entries_.emplace_back();
    stores.add(&published()->count, number + 1);
  } else {
    free_.pop_front();
  }
  entries_[number] = draft.entry_;
  ++in_use_;
  if (number != 0) add_index(stores);
  carry_out(stores);
  return number;
}

void PublishedWindows::hide(uint32_t number) {
  entries_[number] = {};
  free_.push_back(number);
  --in_use_;
  StoreList stores;
  add_near(stores, number, {});
  stores.add(&published()->window[number], Window{});
  add_index(stores);
  carry_out(stores);
}

void PublishedWindows::add_near(StoreList& stores, uint32_t number, const NearParts& parts) const {
  const auto peers =
      std::min<size_t>(n_pes_ - std::min<size_t>(heap_.near_first, n_pes_), kNearPes);
  for (size_t slot = 0; slot < peers; ++slot) {
    stores.add(&published()->near[slot][number], parts[slot]);
  }
}

void PublishedWindows::add_index(StoreList& stores) {
  std::vector<IndexedWindow> windows;
  for (uint32_t number = 1; number < entries_.size(); ++number) {
    const Entry& entry = entries_[number];
    if (entry.bytes == 0) continue;
    windows.push_back(
        {reinterpret_cast<uint64_t>(entry.base), entry.bytes, number, entry.peer, entry.near});
  }
  IndexImage image = make_index(windows);
  auto* const index = reinterpret_cast<WindowIndex*>(published() + 1) + next_index_;
  next_index_ = 1 - next_index_;
  stores.add(index->span, std::span(image.spans));
  stores.add(index->slot, std::span(image.slots));
  stores.add(index->near, std::span(image.near));
  stores.add(&published()->published, PublishedIndex{index, image.shift, image.drop()});
  spans_ = std::move(image.spans);
}

uint32_t PublishedWindows::number_at(const void* address, bool peer) const {
  const auto at = reinterpret_cast<uint64_t>(address);
  const auto behind = std::ranges::upper_bound(spans_, at, {}, &WindowSpan::begin);
  if (behind == spans_.begin()) return 0;
  const WindowSpan& span = *std::prev(behind);
  return peer ? span.peer : span.home;
}

void PublishedWindows::leave_out(std::span<const int> masked) {
  if (masked.empty()) return;
  std::byte* const nowhere = nullptr;
  StoreList stores;
  for (uint32_t number = 0; number < entries_.size(); ++number) {
    if (!entries_[number].used) continue;
    for (const int pe : masked) {
      stores.add(by_pe(number).direct + pe, nowhere);
      const int64_t slot = int64_t{pe} - heap_.near_first;
      if (slot < 0 || slot >= int64_t{kNearPes}) continue;
      if (number == 0) heap_.near[static_cast<size_t>(slot)] = nullptr;
      stores.add(&published()->near[slot][number], WindowNear{});
      entries_[number].near.apart[slot] = 0;
    }
  }
  add_index(stores);
  carry_out(stores);
}

void PublishedWindows::carry_out(StoreList& stores) {
  stores.add(&published()->version, ++version_);
  stores.carry_out(memory_);
}

PublishedWindows::Keys PublishedWindows::heap_keys() const {
  Keys keys{std::vector<NicKey>(keys_), std::vector<NicKey>(keys_)};
  const ByPe heap = by_pe(0);
  memory_.copy_out(keys.payload.data(), heap.rkeys, keys_ * sizeof(NicKey));
  memory_.copy_out(keys.words.data(), heap.word_rkeys, keys_ * sizeof(NicKey));
  return keys;
}

}  // namespace peal

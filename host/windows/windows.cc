// SPDX-License-Identifier: Apache-2.0
#include "host/windows/windows.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <utility>

#include "base/ranges.h"
#include "host/base/error.h"
#include "host/job/together.h"

namespace peal {
namespace {

// Keys by rail.
using RailKeys = std::array<Be32, mlx5::kMaxRails>;

// By what the others reach it.
struct Part {
  RailKeys rkeys;
  RailKeys word_rkeys;
};

// Keys of all PEs as kernels read them: [rails][PEs].
std::vector<Be32> by_rail(const std::vector<Part>& parts, uint32_t rails, RailKeys Part::*keys) {
  std::vector<Be32> all;
  for (uint32_t rail = 0; rail < rails; ++rail) {
    for (const Part& part : parts) all.push_back((part.*keys)[rail]);
  }
  return all;
}

// Entries of the multimap that are of `number`.
template <class Map>
void erase_number(Map& map, const typename Map::key_type& key, uint32_t number) {
  auto [at, end] = map.equal_range(key);
  while (at != end && at->second != number) ++at;
  if (at != end) map.erase(at);
}

// Throws kInvalidArgument, naming `call`, for a range that no address space has.
void check_range(const char* call, const std::byte* address, size_t bytes) {
  constexpr uintptr_t kHalf = ~uintptr_t{0} / 2;  // rounded up to pages it must not wrap either
  if (bytes <= kHalf && reinterpret_cast<uintptr_t>(address) <= kHalf) return;
  fail(ErrorCode::kInvalidArgument,
       "{}: {} bytes at {} would pass the end of the address space: the size is wrong", call, bytes,
       fmt::ptr(address));
}

RegistrationCache::Identify identify_by(const std::shared_ptr<Gpu>& gpu) {
  return [gpu](const std::byte* address, size_t bytes) {
    return gpu ? identify(*gpu, address, bytes) : MemoryIdentity{};
  };
}

}  // namespace

Windows::Windows(LiveGroup& bootstrap, DeviceTables& tables, const WindowTransports& transports)
    : bootstrap_(bootstrap),
      tables_(tables),
      transports_(transports),
      cache_(identify_by(transports.gpu)),
      local_cache_(identify_by(transports.gpu)) {}

// One window, known to all NICs of this PE.
struct Windows::Known {
  std::vector<nic::MemoryRegion> regions;
  RailKeys lkeys{};
  Part part{};
};

// Leaves only what the routes want mapped.
void Windows::keep_wanted(PeerMemory& memory, const std::vector<WindowRequest>& parts) const {
  for (size_t pe = 0; pe < memory.direct.size(); ++pe) {
    if (transports_.routes.to(static_cast<int>(pe)) != Route::kP2p ||
        bootstrap_.masked(static_cast<int>(pe))) {
      memory.direct[pe] = nullptr;
    } else if (memory.direct[pe] == nullptr && parts[pe].bytes != 0) {
      fail(ErrorCode::kUnsupported,
           "register_window: PE {} is reached by loads and stores, but its {} bytes cannot be "
           "mapped: {}; use symmetric memory (Runtime::malloc) or set PEAL_TRANSPORT=ibgda",
           pe, parts[pe].bytes, memory.how[pe]);
    }
  }
}

// Each NIC knows a window by keys of its own: for payload, and for words where those are ordered
// otherwise.
Windows::Known Windows::registered(std::byte* address, size_t bytes, bool words) const {
  Known known;
  if (transports_.rails == nullptr || bytes == 0) return known;
  const Rails& rails = *transports_.rails;
  const nic::Memory memory = memory_of(transports_.gpu, address, bytes);
  for (size_t i = 0; i < rails.nics().size(); ++i) {
    const IbgdaNic& nic = rails.nics()[i];
    const nic::MemoryRegion& payload =
        known.regions.emplace_back(nic.device, nic.domain, memory, nic.payload);
    const Be32 lkey = payload.lkey();
    const Be32 rkey = payload.rkey();
    Be32 word_rkey = rkey;
    if (words && nic.payload != nic.words) {
      word_rkey = known.regions.emplace_back(nic.device, nic.domain, memory).rkey();
    }
    for (uint32_t rail = 0; rail < rails.count(); ++rail) {
      if (rails.nic_of(rail) != i) continue;
      known.lkeys[rail] = lkey;
      known.part.rkeys[rail] = rkey;
      known.part.word_rkeys[rail] = word_rkey;
    }
  }
  return known;
}

// Completions lie in the memory of the kernels' GPU, and vouch for what lies there too, if that GPU
// shows writes in order. A thread that posts for kernels polls in memory of the host, as a CPU
// does: nothing is dumped there, whatever PEAL_GET_FLUSH says.
bool Windows::must_dump(bool far) const {
  const std::shared_ptr<Gpu>& gpu = transports_.gpu;
  if (transports_.routes.by_nic() == Route::kProxy) return false;
  if (transports_.get_flush != GetFlush::kAuto) return transports_.get_flush == GetFlush::kDump;
  return gpu && (far || !gpu->orders_writes());
}

Window Windows::window_of(std::byte* address, size_t bytes, const Known& known) const {
  Window window{};
  window.base = address;
  window.bytes = bytes;
  window.iova = static_cast<uint32_t>(nic::MemoryRegion::first_offset(address));
  std::ranges::copy(known.lkeys, window.lkeys);
  const bool far = transports_.gpu && bytes != 0 && !transports_.gpu->owns(address);
  window.far = far ? 1 : 0;
  window.dumped = must_dump(far) ? 1 : 0;
  return window;
}

void Windows::keep(uint32_t number, Entry entry) {
  if (entry.range.bytes != 0) by_begin_.emplace(entry.range.begin, number);
  entries_.emplace(number, std::move(entry));
}

void Windows::forget(Entries::iterator entry) {
  const Range& range = entry->second.range;
  if (range.bytes != 0) erase_number(by_begin_, range.begin, entry->first);
  entries_.erase(entry);
}

WindowHandle Windows::add_mapped(Range range, const std::vector<WindowRequest>& parts,
                                 PeerMemory memory) {
  Known known;
  const std::vector<Part> all = gather_together(bootstrap_, [&] {
    known = registered(range.begin, range.bytes, true);
    keep_wanted(memory, parts);
    return known.part;
  });
  const uint32_t rails = transports_.rails ? transports_.rails->count() : 0;
  const std::vector<Be32> rkeys = by_rail(all, rails, &Part::rkeys);
  const std::vector<Be32> word_rkeys = by_rail(all, rails, &Part::word_rkeys);
  std::vector<WindowPart> shown;
  for (const WindowRequest& part : parts) shown.push_back({part.iova, part.bytes});
  const auto alike = [&](const auto& of) {
    return std::ranges::all_of(shown, [&](const WindowPart& p) { return of(p) == of(shown[0]); });
  };
  if (!alike([](const WindowPart& part) { return part.bytes; })) {
    for (const WindowPart& part : shown) range.sizes.push_back(part.bytes);
  }
  if (range.sizes.empty() && alike([](const WindowPart& part) { return part.iova; })) shown.clear();
  range.direct = memory.direct;
  const Window window = window_of(range.begin, range.bytes, known);
  Entry entry{std::move(range), serial_++, std::move(known.regions), std::move(memory), nullptr};
  const PublishedWindows::Reached reached{
      .rkeys = rkeys, .word_rkeys = word_rkeys, .direct = entry.range.direct, .parts = shown};
  uint32_t number = 0;
  if (entry.serial == 0) {
    together(bootstrap_, [&] { tables_.publish_heap(window, reached); });
  } else {
    together(bootstrap_, [&] { tables_.windows().fill(window, reached); });
    const auto failure = failure_of([&] { number = tables_.windows().publish(); });
    try {
      settle(bootstrap_, failure);
    } catch (const Error&) {
      if (!failure) tables_.windows().hide(number);  // nobody was told of it
      throw;
    }
  }
  keep(number, std::move(entry));
  return {number};
}

void Windows::add_heap(std::byte* address, size_t bytes, PeerMemory memory) {
  const auto n_pes = static_cast<size_t>(bootstrap_.size());
  WindowRequest alike{};
  alike.bytes = bytes;
  alike.iova = nic::MemoryRegion::first_offset(address);
  add_mapped({address, bytes, true, {}, {}}, std::vector<WindowRequest>(n_pes, alike),
             std::move(memory));
}

WindowRequest Windows::request(const std::byte* address, size_t bytes,
                               const WindowOptions& options) const {
  check_range("register_window", address, bytes);
  WindowRequest request{};
  request.bytes = bytes;
  request.iova = nic::MemoryRegion::first_offset(address);
  request.any_size = options.any_size;
  request.cached = options.cached;
  // Windows of memory that was freed end first.
  request.room = kMaxWindows - tables_.windows().in_use() + cache_.count();
  return request;
}

WindowHandle Windows::add_everywhere(std::byte* address, size_t bytes,
                                     const WindowOptions& options) {
  if (address == nullptr) bytes = 0;
  RegistrationCache::Memory memory;
  const std::vector<WindowRequest> parts = agree_on_window(bootstrap_, [&] {
    WindowRequest mine = request(address, bytes, options);
    if (options.cached) {
      memory = cache_.describe("register_window", address, bytes);
      mine.known = cache_.find(memory);
    }
    return mine;
  });
  const uint64_t known = known_to_all(parts);
  if (known != 0) return {cached_.at(known)};
  end_freed();
  const WindowHandle window = add(parts, address, bytes, -1);
  if (options.cached) {
    const uint64_t serial = entries_.at(window.number).serial;
    cached_.emplace(serial, window.number);
    cache_.keep(serial, std::move(memory));
  }
  return window;
}

WindowHandle Windows::add_everywhere(const Backing& memory) {
  const std::vector<WindowRequest> parts =
      agree_on_window(bootstrap_, [&] { return request(memory.address(), memory.bytes(), {}); });
  end_freed();
  return add(parts, memory.address(), memory.bytes(), memory.fd());
}

// Memory that is registered now may lie where other memory was. All PEs have the same entries.
void Windows::end_freed() {
  const std::vector<uint64_t> serials = cache_.numbers();
  if (serials.empty()) return;
  const auto n_pes = static_cast<size_t>(bootstrap_.size());
  const std::vector<uint8_t> ended =
      gather_together<uint8_t>(bootstrap_, serials.size(), [&](std::span<uint8_t> mine) {
        for (const uint64_t serial : cache_.ended()) {
          mine[static_cast<size_t>(std::ranges::lower_bound(serials, serial) - serials.begin())] =
              1;
        }
      });
  for (size_t i = 0; i < serials.size(); ++i) {
    bool somewhere = false;
    for (size_t pe = 0; pe < n_pes; ++pe) somewhere |= ended[pe * serials.size() + i] != 0;
    if (somewhere) remove({cached_.at(serials[i])});
  }
}

// Of `fd` see P2p::map().
WindowHandle Windows::add(const std::vector<WindowRequest>& parts, std::byte* address, size_t bytes,
                          int fd) {
  const WindowHandle window =
      add_mapped({address, bytes, true, {}, {}}, parts,
                 transports_.p2p ? transports_.p2p->map(address, bytes, fd) : PeerMemory{});
  if (transports_.after_add) transports_.after_add(window);
  return window;
}

void Windows::add_local(std::byte* address, size_t bytes, const WindowOptions& options) {
  check_range("register_local", address, bytes);
  RegistrationCache::Memory memory;
  if (options.cached) {
    memory = local_cache_.describe("register_local", address, bytes);
    if (local_cache_.find(memory)[0] != 0) return;
  }
  for (const uint64_t number : local_cache_.ended()) end_local(static_cast<uint32_t>(number));
  tables_.windows().check_room();
  PinnedRange pinned;
  if (transports_.gpu && !transports_.gpu->knows(address)) {
    pinned = pin(transports_.gpu, address, bytes);
  }
  Known known = registered(address, bytes, false);
  tables_.windows().fill(window_of(address, bytes, known), {});
  const uint32_t number = tables_.windows().publish();
  keep(number,
       {{address, bytes, false, {}, {}}, 0, std::move(known.regions), {}, std::move(pinned)});
  if (options.cached) local_cache_.keep(number, std::move(memory));
}

void Windows::remove(const WindowHandle& window) {
  const auto entry = entries_.find(window.number);
  const bool mine = window.number != 0 && entry != entries_.end() && entry->second.serial != 0;
  const std::vector<uint64_t> all = gather<uint64_t>(bootstrap_, mine ? entry->second.serial : 0);
  for (size_t pe = 0; pe < all.size(); ++pe) {
    if (all[pe] == all[0] && all[pe] != 0) continue;
    fail(ErrorCode::kInvalidArgument,
         "unregister_window: PE {} names {}, PE 0 {}: all PEs must name the same window, with what "
         "register_window answered there or was given",
         pe, all[pe] == 0 ? "no window" : fmt::format("window {} of the job", all[pe]),
         all[0] == 0 ? "none" : fmt::format("window {}", all[0]));
  }
  // Nobody names it any more before a part ends, and nobody maps it before its owner goes on.
  if (transports_.before_end) transports_.before_end(entry->second.range.begin);
  together(bootstrap_, [&] { tables_.windows().hide(window.number); });
  cache_.forget(entry->second.serial);
  cached_.erase(entry->second.serial);
  together(bootstrap_, [&] { forget(entry); });
}

void Windows::remove_local(const std::byte* address) {
  auto [at, end] = by_begin_.equal_range(address);
  while (at != end && entries_.at(std::prev(end)->second).range.symmetric) --end;
  if (at == end) {
    fail(ErrorCode::kInvalidArgument,
         "unregister_local: no memory was registered at {} by register_local, or not any more",
         fmt::ptr(address));
  }
  end_local(std::prev(end)->second);
}

void Windows::end_local(uint32_t number) {
  const auto entry = entries_.find(number);
  if (transports_.before_end) transports_.before_end(entry->second.range.begin);
  tables_.windows().hide(number);
  local_cache_.forget(number);
  forget(entry);
}

// As kernels find it: the heap, else the window that the address is of. One of all PEs is asked for
// first, for peers need such a one.
const Windows::Range* Windows::around(const std::byte* address, size_t bytes) const {
  const auto holding = [&](uint32_t number) -> const Range* {
    const auto entry = entries_.find(number);
    if (entry == entries_.end()) return nullptr;
    const Range& range = entry->second.range;
    const auto offset = static_cast<size_t>(address - range.begin);
    return bytes <= range.bytes && offset <= range.bytes - bytes ? &range : nullptr;
  };
  if (const Range* const heap = holding(0)) return heap;
  for (const bool peer : {true, false}) {
    const uint32_t number = tables_.windows().number_at(address, peer);
    const Range* const range = number == 0 ? nullptr : holding(number);
    if (range != nullptr) return range;
  }
  return nullptr;
}

Windows::Location Windows::find(const void* address, size_t bytes) const {
  const auto* const at = static_cast<const std::byte*>(address);
  if (!detail::names_window(address)) {
    const Range* const range = around(at, bytes);
    return {range, range == nullptr ? 0 : static_cast<uint64_t>(at - range->begin)};
  }
  const auto entry = entries_.find(detail::window_number(address));
  const bool symmetric = entry != entries_.end() && entry->second.serial != 0;
  return {symmetric ? &entry->second.range : nullptr, detail::window_offset(address)};
}

WindowHandle Windows::handle_of(const std::byte* address) const {
  WindowHandle newest;
  uint64_t serial = 0;
  const auto [begin, end] = by_begin_.equal_range(address);
  for (auto at = begin; at != end; ++at) {
    const Entry& entry = entries_.at(at->second);
    if (entry.serial > serial) {
      serial = entry.serial;
      newest.number = at->second;
    }
  }
  return newest;
}

std::string Windows::MappedHeaps::describe(const void* address) const {
  for (size_t of = 0; of < direct.size(); ++of) {
    const auto offset = static_cast<size_t>(static_cast<const std::byte*>(address) - direct[of]);
    if (direct[of] == nullptr || static_cast<int>(of) == pe || offset >= bytes) continue;
    return fmt::format(
        "PE {}'s {}, seen from here (ptr()): operations take the address that it has in this PE's "
        "own heap, and the number of the PE",
        of, fmt::ptr(base + offset));
  }
  return "";
}

Windows::MappedHeaps Windows::mapped_heaps() const {
  const auto heap = entries_.find(0);
  if (heap == entries_.end()) return {};
  const Range& range = heap->second.range;
  return {range.begin, range.bytes, bootstrap_.rank(), range.direct};
}

std::string Windows::describe_registration() const {
  const auto heap = entries_.find(0);
  if (heap == entries_.end() || heap->second.regions.empty()) return "";
  return heap->second.regions.front().registration().describe();
}

std::string Windows::describe(const WindowHandle& window) const {
  const auto found = entries_.find(window.number);
  if (found == entries_.end()) return fmt::format("window {}: none", window.number);
  const Entry& entry = found->second;
  std::string text = fmt::format("window {}: nothing here", window.number);
  if (entry.range.bytes != 0) {
    text = fmt::format(
        "window {}: {} bytes at {}, {}", window.number, entry.range.bytes,
        fmt::ptr(entry.range.begin),
        transports_.gpu ? transports_.gpu->describe_memory(entry.range.begin) : "host memory");
  }
  const auto way = [&](size_t pe) {
    if (pe == static_cast<size_t>(bootstrap_.rank())) return std::string("itself");
    const bool direct = !entry.range.direct.empty() && entry.range.direct[pe] != nullptr;
    return direct ? entry.mapped.how[pe] : std::string("by the NIC");
  };
  const auto alike = [&](size_t a, size_t b) { return way(a) == way(b); };
  for_each_run(static_cast<size_t>(bootstrap_.size()), alike, [&](size_t first, size_t last) {
    if (way(first) != "itself") text += fmt::format("; {}: {}", name_pes(first, last), way(first));
  });
  if (!entry.regions.empty()) {
    text += "; the NIC knows it as " + entry.regions.front().registration().describe();
  }
  return text;
}

void Windows::unmap() {
  for (auto& [number, entry] : entries_) entry.mapped.mappings.clear();
}

}  // namespace peal

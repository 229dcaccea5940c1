// SPDX-License-Identifier: Apache-2.0
#include "host/windows/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "host/base/error.h"
#include "host/job/together.h"

namespace peal {
namespace {

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

Windows::Windows(LiveGroup& group, PublishedWindows& published, const WindowTransports& transports,
                 Heap heap)
    : group_(group),
      published_(published),
      transports_(transports),
      cache_(identify_by(transports.gpu)),
      local_cache_(identify_by(transports.gpu)) {
  WindowRequest alike{};
  alike.bytes = heap.bytes;
  alike.iova = nic::MemoryRegion::first_offset(heap.address);
  add_mapped({heap.address, heap.bytes, true, {}, {}},
             std::vector<WindowRequest>(static_cast<size_t>(group.size()), alike),
             std::move(heap.memory));
}

// Leaves only what the routes want mapped.
void Windows::keep_wanted(PeerMemory& memory, const std::vector<WindowRequest>& requests) const {
  for (size_t pe = 0; pe < memory.direct.size(); ++pe) {
    if (transports_.routes.to(static_cast<int>(pe)) != Route::kP2p ||
        group_.masked(static_cast<int>(pe))) {
      memory.direct[pe] = nullptr;
    } else if (memory.direct[pe] == nullptr && requests[pe].bytes != 0) {
      fail(ErrorCode::kUnsupported,
           "register_window: PE {} is reached by loads and stores, but its {} bytes cannot be "
           "mapped: {}; use symmetric memory (Runtime::malloc) or set PEAL_TRANSPORT=ibgda",
           pe, requests[pe].bytes, memory.how[pe]);
    }
  }
}

// On a GPU that shares the CPU's page tables (NVLink-C2C) a CPU hears of a completion by another
// path than the one that the data takes over PCIe: NCCL flushes there, too (ncclTopoNeedFlush).
bool must_flush(const Gpu* gpu, GetFlush asked, bool by_cpu) {
  if (asked != GetFlush::kAuto) return asked == GetFlush::kDump;
  if (gpu == nullptr) return false;
  return !gpu->orders_writes() || (by_cpu && gpu->attribute(cuda::kUsesHostPageTables) != 0);
}

// Completions lie in the memory of the kernels' GPU, and vouch for what lies there too, if that GPU
// shows writes in order. A thread that posts for kernels polls in memory of the host, as a CPU
// does: that vouches for memory of the host.
bool Windows::must_dump(bool off_gpu) const {
  const bool by_cpu = transports_.routes.by_nic() == Route::kProxy;
  if (off_gpu && transports_.get_flush == GetFlush::kAuto) return !by_cpu;
  return must_flush(transports_.gpu.get(), transports_.get_flush, by_cpu);
}

Window Windows::window_of(const Range& range, const RailKeys& lkeys) const {
  Window window{};
  window.base = range.begin;
  window.bytes = range.bytes;
  window.iova = static_cast<uint32_t>(nic::MemoryRegion::first_offset(range.begin));
  std::ranges::copy(lkeys, window.lkeys);
  const bool off_gpu = transports_.gpu && range.bytes != 0 && !transports_.gpu->owns(range.begin);
  window.off_gpu = off_gpu ? 1 : 0;
  window.dumped = must_dump(off_gpu) ? 1 : 0;
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

// Collective. Where one PE cannot publish it none does.
uint32_t Windows::publish(const Window& window, const PublishedWindows::Reached& reached) {
  const auto draft = together(group_, [&] { return published_.fill(window, reached); });
  uint32_t number = 0;
  const auto failure = failure_of([&] { number = published_.publish(draft); });
  try {
    throw_if_any_failed(group_, failure);
  } catch (const Error&) {
    if (!failure) published_.hide(number);  // nobody was told of it
    throw;
  }
  return number;
}

uint32_t Windows::add_mapped(Range range, const std::vector<WindowRequest>& requests,
                             PeerMemory memory) {
  RegisteredPart part;
  const std::vector<RemoteKeys> remote = gather_together(group_, [&] {
    part = register_part(transports_.rails, transports_.gpu, range.begin, range.bytes, true);
    keep_wanted(memory, requests);
    return part.remote;
  });
  const PublishedWindows::Keys keys = keys_of_all(remote, transports_.rails);
  const std::vector<WindowPart> parts = different_parts(requests);
  range.sizes = different_sizes(requests);
  range.direct = memory.direct;
  const Window window = window_of(range, part.lkeys);
  Entry entry{std::move(range), serial_++, std::move(part.regions), std::move(memory), nullptr};
  const PublishedWindows::Reached reached{.rkeys = keys.payload,
                                          .word_rkeys = keys.words,
                                          .direct = entry.range.direct,
                                          .parts = parts};
  const auto publish_heap = [&] { return published_.publish(published_.fill(window, reached)); };
  const uint32_t number =
      entry.serial == 0 ? together(group_, publish_heap) : publish(window, reached);
  keep(number, std::move(entry));
  return number;
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
  request.room = kMaxWindows - published_.in_use() + cache_.count();
  return request;
}

WindowHandle Windows::add_everywhere(std::byte* address, size_t bytes,
                                     const WindowOptions& options) {
  if (address == nullptr) bytes = 0;
  RegistrationCache::Memory memory;
  const std::vector<WindowRequest> requests = agree_on_window(group_, [&] {
    WindowRequest mine = request(address, bytes, options);
    if (options.cached) {
      memory = cache_.describe("register_window", address, bytes);
      mine.known = cache_.find(memory);
    }
    return mine;
  });
  const uint64_t known = known_to_all(requests);
  if (known != 0) return {cached_.at(known)};
  end_freed();
  const WindowHandle window = add(requests, address, bytes, -1);
  if (options.cached) {
    const uint64_t serial = entries_.at(window.number).serial;
    cached_.emplace(serial, window.number);
    cache_.keep(serial, std::move(memory));
  }
  return window;
}

WindowHandle Windows::add_everywhere(const Backing& memory) {
  const std::vector<WindowRequest> requests =
      agree_on_window(group_, [&] { return request(memory.address(), memory.bytes(), {}); });
  end_freed();
  return add(requests, memory.address(), memory.bytes(), memory.fd());
}

// Memory that is registered now may lie where other memory was. All PEs have the same entries.
void Windows::end_freed() {
  const std::vector<uint64_t> serials = cache_.numbers();
  if (serials.empty()) return;
  const auto n_pes = static_cast<size_t>(group_.size());
  const std::vector<uint8_t> ended =
      gather_together<uint8_t>(group_, serials.size(), [&](std::span<uint8_t> mine) {
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

// P2p::map() says what `fd` is.
WindowHandle Windows::add(const std::vector<WindowRequest>& requests, std::byte* address,
                          size_t bytes, int fd) {
  PeerMemory memory;
  if (transports_.p2p != nullptr) memory = transports_.p2p->map(address, bytes, fd);
  const WindowHandle window{
      add_mapped({address, bytes, true, {}, {}}, requests, std::move(memory))};
  if (transports_.info != nullptr) transports_.info->print("window", describe(window));
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
  published_.check_room();
  PinnedRange pinned;
  if (transports_.gpu && !transports_.gpu->knows(address)) {
    pinned = pin(transports_.gpu, address, bytes);
  }
  RegisteredPart part = register_part(transports_.rails, transports_.gpu, address, bytes, false);
  Range range{address, bytes, false, {}, {}};
  const uint32_t number = published_.publish(published_.fill(window_of(range, part.lkeys), {}));
  keep(number, {std::move(range), 0, std::move(part.regions), {}, std::move(pinned)});
  if (options.cached) local_cache_.keep(number, std::move(memory));
}

void Windows::remove(const WindowHandle& window) {
  const auto entry = entries_.find(window.number);
  const bool mine = window.number != 0 && entry != entries_.end() && entry->second.serial != 0;
  const std::vector<uint64_t> all = gather<uint64_t>(group_, mine ? entry->second.serial : 0);
  for (size_t pe = 0; pe < all.size(); ++pe) {
    if (all[pe] == all[0] && all[pe] != 0) continue;
    fail(ErrorCode::kInvalidArgument,
         "unregister_window: PE {} names {}, PE 0 {}: all PEs must name the same window, with what "
         "register_window answered there or was given",
         pe, all[pe] == 0 ? "no window" : fmt::format("window {} of the job", all[pe]),
         all[0] == 0 ? "none" : fmt::format("window {}", all[0]));
  }
  // Nobody names it any more before a part ends, and nobody maps it before its owner goes on.
  if (before_end_) before_end_(entry->second.range.begin);
  together(group_, [&] { published_.hide(window.number); });
  cache_.forget(entry->second.serial);
  cached_.erase(entry->second.serial);
  together(group_, [&] { forget(entry); });
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
  if (before_end_) before_end_(entry->second.range.begin);
  published_.hide(number);
  local_cache_.forget(number);
  forget(entry);
}

void Windows::unmap() {
  for (auto& [number, entry] : entries_) entry.mapped.mappings.clear();
}

}  // namespace peal

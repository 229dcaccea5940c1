// SPDX-License-Identifier: Apache-2.0
#include "host/windows.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "host/base/error.h"
#include "host/job/together.h"

namespace peal {
namespace {

// What a PE would make a window of.
struct Request {
  uint64_t bytes;
  uint64_t in_page;  // offset of its first byte
  uint64_t windows;  // in use already
};

// Keys by rail.
using RailKeys = std::array<Be32, mlx5::kMaxRails>;

// By what the others reach it.
struct Part {
  RailKeys rkeys;
  RailKeys word_rkeys;
};

}  // namespace

// One window, known to all NICs of this PE.
struct Windows::Known {
  std::vector<nic::MemoryRegion> regions;
  RailKeys lkeys{};
  Part part{};
};

// Where a NIC knows a window it begins where its page does; what lies before `address` the NIC
// refuses.
uint64_t Windows::first_offset(const std::byte* address) const {
  return transports_.rails ? nic::MemoryRegion::first_offset(address) : 0;
}

void Windows::agree(const std::byte* address, size_t bytes) {
  const std::vector<Request> all =
      gather(bootstrap_, Request{.bytes = address == nullptr ? 0 : bytes,
                                 .in_page = nic::MemoryRegion::first_offset(address),
                                 .windows = tables_.window_count()});
  for (size_t pe = 0; pe < all.size(); ++pe) {
    const Request& one = all[pe];
    if (one.windows == kMaxWindows) {
      fail(ErrorCode::kInvalidArgument, "register_window: PE {} has {} windows, which is the limit",
           pe, kMaxWindows);
    }
    if (one.bytes == all[0].bytes && one.in_page == all[0].in_page && one.bytes != 0) continue;
    fail(ErrorCode::kInvalidArgument,
         "register_window: PE {} registers {} bytes from byte {} of a page, PE 0 {} from byte {}: "
         "all must register the same size, not 0, from the same place in a page",
         pe, one.bytes, one.in_page, all[0].bytes, all[0].in_page);
  }
}

// Leaves only what the routes want mapped.
void Windows::keep_wanted(PeerMemory& memory, size_t bytes) const {
  for (size_t pe = 0; pe < memory.direct.size(); ++pe) {
    if (transports_.routes.to(static_cast<int>(pe)) != Route::kP2p ||
        bootstrap_.masked(static_cast<int>(pe))) {
      memory.direct[pe] = nullptr;
    } else if (memory.direct[pe] == nullptr) {
      fail(ErrorCode::kUnsupported,
           "register_window: PE {} is reached by loads and stores, but its {} bytes cannot be "
           "mapped: {}; use symmetric memory (Runtime::malloc) or set PEAL_TRANSPORT=ibgda",
           pe, bytes, memory.how[pe]);
    }
  }
}

// Each NIC knows a window by keys of its own: for payload, and for words where those are ordered
// otherwise.
Windows::Known Windows::registered(std::byte* address, size_t bytes, bool words) const {
  Known known;
  if (transports_.rails == nullptr) return known;
  const Rails& rails = *transports_.rails;
  const nic::Memory memory = memory_of(transports_.gpu, address, bytes);
  for (size_t i = 0; i < rails.nics().size(); ++i) {
    const IbgdaNic& nic = rails.nics()[i];
    const nic::MemoryRegion& payload =
        known.regions.emplace_back(nic.device, nic.domain, memory, nic.payload);
    const Be32 lkey = payload.lkey();
    const Be32 rkey = payload.rkey();
    Be32 word_rkey = rkey;
    if (words && nic.payload != nic::Ordering::kStrict) {
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
// does.
bool Windows::must_dump(bool far) const {
  const std::shared_ptr<Gpu>& gpu = transports_.gpu;
  return gpu && transports_.routes.by_nic() != Route::kProxy && (far || !gpu->orders_writes());
}

Window Windows::window_of(std::byte* address, size_t bytes, const Known& known) const {
  const uint64_t first = first_offset(address);
  Window window{};
  window.base = address - first;
  window.bytes = bytes + first;
  std::ranges::copy(known.lkeys, window.lkeys);
  const bool far = transports_.gpu && !transports_.gpu->owns(address);
  window.far = far ? 1 : 0;
  window.dumped = must_dump(far) ? 1 : 0;
  return window;
}

void Windows::add_mapped(std::byte* address, size_t bytes, PeerMemory memory) {
  Known known;
  const std::vector<Part> all = gather_together(bootstrap_, [&] {
    known = registered(address, bytes, true);
    keep_wanted(memory, bytes);
    return known.part;
  });
  std::vector<Be32> rkeys;
  std::vector<Be32> word_rkeys;
  for (uint32_t rail = 0; transports_.rails && rail < transports_.rails->count(); ++rail) {
    for (const Part& part : all) {
      rkeys.push_back(part.rkeys[rail]);
      word_rkeys.push_back(part.word_rkeys[rail]);
    }
  }
  const uint64_t first = first_offset(address);
  const std::vector<std::byte*> direct = memory.direct;
  for (std::byte*& begin : memory.direct) begin = begin == nullptr ? nullptr : begin - first;
  together(bootstrap_, [&] {
    tables_.fill(window_of(address, bytes, known),
                 {.rkeys = rkeys, .word_rkeys = word_rkeys, .direct = memory.direct});
  });
  // Kept first: where this last step fails on another PE, kernels here see the window.
  std::ranges::move(known.regions, std::back_inserter(regions_));
  mapped_.push_back(std::move(memory));
  together(bootstrap_, [&] { tables_.publish(); });
  ranges_.push_back({address, bytes, true, direct});
}

const Windows::Range* Windows::find(const void* address, size_t bytes) const {
  const auto* const at = static_cast<const std::byte*>(address);
  for (const Range& range : ranges_) {
    if (at >= range.begin && bytes <= range.bytes &&
        static_cast<size_t>(at - range.begin) <= range.bytes - bytes) {
      return &range;
    }
  }
  return nullptr;
}

void Windows::add_everywhere(std::byte* address, size_t bytes) {
  agree(address, bytes);
  add_mapped(address, bytes,
             transports_.p2p ? transports_.p2p->map(address, bytes, -1) : PeerMemory{});
}

void Windows::add_local(std::byte* address, size_t bytes) {
  tables_.check_room();
  if (transports_.gpu && !transports_.gpu->knows(address)) {
    pinned_.push_back(pin(transports_.gpu, address, bytes));
  }
  Known known = registered(address, bytes, false);
  tables_.fill(window_of(address, bytes, known), {});
  tables_.publish();
  std::ranges::move(known.regions, std::back_inserter(regions_));
  ranges_.push_back({address, bytes, false, {}});
}

}  // namespace peal

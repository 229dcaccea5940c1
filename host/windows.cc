// SPDX-License-Identifier: Apache-2.0
//
// Whatever can fail on one PE is told to all before anybody throws: none waits for one that did.
#include "host/windows.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "host/base/error.h"

namespace peal {
namespace {

// What a PE would make a window of.
struct Wish {
  uint64_t bytes;
  uint64_t in_page;  // offset of its first byte
  uint64_t windows;  // in use already
};

// What came of it.
struct Part {
  Be32 rkey;
  Be32 word_rkey;
  uint32_t refused;     // by the NIC
  int32_t unreachable;  // a PE whose part cannot be mapped here, or -1
};

}  // namespace

// Where the NIC knows a window it begins where its page does; what lies before `address` the NIC
// refuses.
uint64_t Windows::first_offset(const std::byte* address) const {
  return transports_.nic ? nic::MemoryRegion::first_offset(address) : 0;
}

void Windows::agree(const std::byte* address, size_t bytes) {
  const std::vector<Wish> all =
      gather(bootstrap_, Wish{.bytes = address == nullptr ? 0 : bytes,
                              .in_page = nic::MemoryRegion::first_offset(address),
                              .windows = tables_.window_count()});
  for (size_t pe = 0; pe < all.size(); ++pe) {
    const Wish& one = all[pe];
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
int32_t Windows::first_unreachable(PeerMemory& memory) const {
  int32_t first = -1;
  for (size_t pe = memory.direct.size(); pe-- > 0;) {
    if (transports_.routes.to(static_cast<int>(pe)) != Route::kP2p ||
        bootstrap_.masked(static_cast<int>(pe))) {
      memory.direct[pe] = nullptr;
    } else if (memory.direct[pe] == nullptr) {
      first = static_cast<int32_t>(pe);
    }
  }
  return first;
}

nic::MemoryRegion Windows::registered(std::byte* address, size_t bytes,
                                      nic::Ordering ordering) const {
  return {transports_.nic->device, transports_.nic->domain, address, bytes, ordering};
}

void Windows::add_mapped(std::byte* address, size_t bytes, PeerMemory memory) {
  Part mine{Be32{0u}, Be32{0u}, 0, first_unreachable(memory)};
  std::vector<nic::MemoryRegion> regions;  // for payload; for words, where that is not the same
  std::string why;
  try {
    if (transports_.nic) {
      const nic::Ordering payload = transports_.nic->payload;
      regions.push_back(registered(address, bytes, payload));
      if (payload != nic::Ordering::kStrict) {
        regions.push_back(registered(address, bytes, nic::Ordering::kStrict));
      }
      mine.rkey = regions.front().rkey();
      mine.word_rkey = regions.back().rkey();
    }
  } catch (const Error& error) {
    why = error.what();
    mine.refused = 1;
  }
  const std::vector<Part> all = gather(bootstrap_, mine);
  if (mine.refused != 0) fail(ErrorCode::kSystem, "{}", why);
  if (mine.unreachable >= 0) {
    fail(ErrorCode::kUnsupported,
         "register_window: PE {} is reached by loads and stores, but its {} bytes cannot be "
         "mapped: {}; "
         "use symmetric memory (Runtime::malloc) or set PEAL_TRANSPORT=ibgda",
         mine.unreachable, bytes, memory.how[static_cast<size_t>(mine.unreachable)]);
  }
  std::vector<Be32> rkeys;
  std::vector<Be32> word_rkeys;
  for (size_t pe = 0; pe < all.size(); ++pe) {
    if (all[pe].refused != 0) {
      fail(ErrorCode::kSystem, "PE {} could not register its part of a window of {} bytes", pe,
           bytes);
    }
    if (all[pe].unreachable >= 0) {
      fail(ErrorCode::kUnsupported,
           "register_window: PE {} cannot map the {} bytes of PE {} (its message says why)", pe,
           bytes, all[pe].unreachable);
    }
    if (regions.empty()) continue;
    rkeys.push_back(all[pe].rkey);
    word_rkeys.push_back(all[pe].word_rkey);
  }
  const uint64_t first = first_offset(address);
  for (std::byte*& begin : memory.direct) begin = begin == nullptr ? nullptr : begin - first;
  tables_.add({.base = address - first,
               .bytes = bytes + first,
               .lkeys = {regions.empty() ? Be32{0u} : regions.front().lkey()},
               .rkeys = nullptr,
               .word_rkeys = nullptr,
               .direct = nullptr},
              {.rkeys = rkeys, .word_rkeys = word_rkeys, .direct = memory.direct});
  std::ranges::move(regions, std::back_inserter(regions_));
  mapped_.push_back(std::move(memory));
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
  Window window{.base = address,
                .bytes = bytes,
                .lkeys = {},
                .rkeys = nullptr,
                .word_rkeys = nullptr,
                .direct = nullptr};
  if (transports_.nic) {
    regions_.push_back(registered(address, bytes, transports_.nic->payload));
    window.base -= first_offset(address);
    window.bytes += first_offset(address);
    window.lkeys[0] = regions_.back().lkey();
  }
  tables_.add(window, {});
}

}  // namespace peal

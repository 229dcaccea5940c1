// SPDX-License-Identifier: Apache-2.0
#include "host/windows/window_request.h"

#include <algorithm>

#include "host/base/error.h"
#include "host/job/together.h"
#include "host/transport/ibgda.h"

namespace peal {
namespace {

bool all_alike(const std::vector<WindowRequest>& all, uint64_t WindowRequest::*field) {
  return std::ranges::all_of(all,
                             [&](const WindowRequest& one) { return one.*field == all[0].*field; });
}

void check_alike(const std::vector<WindowRequest>& all, uint64_t WindowRequest::*field,
                 const char* name) {
  for (size_t pe = 0; pe < all.size(); ++pe) {
    if (all[pe].*field == all[0].*field) continue;
    fail(ErrorCode::kInvalidArgument,
         "register_window: PE {} and PE 0 differ in WindowOptions::{}, which must be alike on all "
         "PEs",
         pe, name);
  }
}

void check_sizes(const std::vector<WindowRequest>& all) {
  if (all[0].any_size != 0) {
    const auto some = [](const WindowRequest& one) { return one.bytes != 0; };
    if (std::ranges::any_of(all, some)) return;
    fail(ErrorCode::kInvalidArgument, "register_window: no PE has anything to register");
  }
  for (size_t pe = 0; pe < all.size(); ++pe) {
    if (all[pe].bytes == all[0].bytes && all[pe].bytes != 0) continue;
    fail(ErrorCode::kInvalidArgument,
         "register_window: PE {} registers {} bytes, PE 0 {}: all must register the same size, not "
         "0, unless all ask for WindowOptions::any_size",
         pe, all[pe].bytes, all[0].bytes);
  }
}

}  // namespace

std::vector<WindowRequest> agree_on_window(Bootstrap& group,
                                           const std::function<WindowRequest()>& mine) {
  const std::vector<WindowRequest> all = gather_together(group, mine);
  for (size_t pe = 0; pe < all.size(); ++pe) {
    if (all[pe].room != 0) continue;
    fail(ErrorCode::kInvalidArgument,
         "register_window: PE {} has {} windows, which is the limit; unregister some", pe,
         kMaxWindows);
  }
  check_alike(all, &WindowRequest::any_size, "any_size");
  check_alike(all, &WindowRequest::cached, "cached");
  check_sizes(all);
  return all;
}

uint64_t known_to_all(const std::vector<WindowRequest>& requests) {
  for (const uint64_t number : requests[0].known) {
    const auto knows = [&](const WindowRequest& one) {
      return std::ranges::find(one.known, number) != one.known.end();
    };
    if (number != 0 && std::ranges::all_of(requests, knows)) return number;
  }
  return 0;
}

std::vector<uint64_t> different_sizes(const std::vector<WindowRequest>& requests) {
  std::vector<uint64_t> sizes;
  if (all_alike(requests, &WindowRequest::bytes)) return sizes;
  for (const WindowRequest& one : requests) sizes.push_back(one.bytes);
  return sizes;
}

std::vector<WindowPart> different_parts(const std::vector<WindowRequest>& requests) {
  std::vector<WindowPart> parts;
  if (all_alike(requests, &WindowRequest::bytes) && all_alike(requests, &WindowRequest::iova))
    return parts;
  for (const WindowRequest& one : requests) parts.push_back({one.iova, one.bytes});
  return parts;
}

RegisteredPart register_part(const Rails* rails, const std::shared_ptr<Gpu>& gpu,
                             std::byte* address, size_t bytes, bool words) {
  RegisteredPart part;
  if (rails == nullptr || bytes == 0) return part;
  const nic::Memory memory = memory_of(gpu, address, bytes);
  for (size_t i = 0; i < rails->nics().size(); ++i) {
    const IbgdaNic& nic = rails->nics()[i];
    const nic::MemoryRegion& payload =
        part.regions.emplace_back(nic.device, nic.domain, memory, nic.payload);
    const NicKey lkey = payload.lkey();
    const NicKey rkey = payload.rkey();
    NicKey word_rkey = rkey;
    if (words && nic.payload != nic.words) {
      word_rkey = part.regions.emplace_back(nic.device, nic.domain, memory).rkey();
    }
    for (uint32_t rail = 0; rail < rails->count(); ++rail) {
      if (rails->nic_of(rail) != i) continue;
      part.lkeys[rail] = lkey;
      part.remote.payload[rail] = rkey;
      part.remote.words[rail] = word_rkey;
    }
  }
  return part;
}

PublishedWindows::Keys keys_of_all(const std::vector<RemoteKeys>& parts, const Rails* rails) {
  PublishedWindows::Keys keys;
  for (uint32_t rail = 0; rails != nullptr && rail < rails->count(); ++rail) {
    for (const RemoteKeys& part : parts) {
      keys.payload.push_back(part.payload[rail]);
      keys.words.push_back(part.words[rail]);
    }
  }
  return keys;
}

}  // namespace peal

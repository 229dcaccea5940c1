// SPDX-License-Identifier: Apache-2.0
#include "host/nic/flush_reads.h"

#include <array>
#include <cerrno>
#include <span>

#include "host/base/error.h"

namespace peal::nic {
namespace {

constexpr uint32_t kDepth = 64;

}  // namespace

FlushReads::FlushReads(const Device& device, const ProtectionDomain& domain, const Memory& page,
                       const std::function<Path(uint32_t qpn)>& path_of)
    : from_(device, domain, page),
      to_(device, domain, {reinterpret_cast<std::byte*>(&landing_), sizeof(landing_)}),
      queue_(device, domain, kDepth),
      path_(path_of(queue_.number())),
      from_address_(MemoryRegion::first_offset(page.address)) {
  connect();
}

void FlushReads::connect() { queue_.connect({.qpn = queue_.number(), .path = path_}, 0); }

std::optional<uint64_t> FlushReads::begin() {
  poll();
  if (broken_) {
    queue_.to_reset();
    failed_.last = begun_;  // those under way are dropped, and have not read
    ended_ = begun_;
    connect();
    broken_ = false;
  }
  if (begun_ - ended_ >= queue_.capacity()) return std::nullopt;
  const auto address = MemoryRegion::first_offset(reinterpret_cast<std::byte*>(&landing_));
  const SendRequest read = {.id = begun_ + 1,
                            .kind = SendRequest::Kind::kRead,
                            .signalled = true,
                            .fence = false,
                            .in_place = false,
                            .rkey = from_.rkey_number(),
                            .remote = from_address_,
                            .local = address,
                            .lkey = to_.lkey_number(),
                            .bytes = sizeof(landing_),
                            .swap_or_add = 0,
                            .compare = 0};
  int error = 0;
  if (queue_.post(std::span(&read, 1), &error) == 1) return ++begun_;
  if (error == ENOMEM) return std::nullopt;
  fail_errno(error, "ibv_post_send of a READ behind fetched data");
}

void FlushReads::poll() {
  std::array<SendCompletion, VerbsQueue::kBatch> completions;
  const size_t count = queue_.poll(completions);
  for (size_t i = 0; i < count; ++i) {
    ended_ = completions[i].id;
    if (completions[i].syndrome == 0 || broken_) continue;
    broken_ = true;
    failed_ = {completions[i].id, ~uint64_t{0}, completions[i].syndrome};
  }
}

std::optional<uint8_t> FlushReads::ended(uint64_t number) {
  poll();
  if (number >= failed_.first && number <= failed_.last) return failed_.syndrome;
  return number <= ended_ ? std::optional<uint8_t>(0) : std::nullopt;
}

}  // namespace peal::nic

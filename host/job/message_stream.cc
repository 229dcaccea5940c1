// SPDX-License-Identifier: Apache-2.0
#include "host/job/message_stream.h"

#include <algorithm>
#include <utility>

namespace peal {

bool MessageStream::push(std::span<const std::byte> head, std::span<const std::byte> payload) {
  std::vector<std::byte> message(head.begin(), head.end());
  message.insert(message.end(), payload.begin(), payload.end());
  const size_t count = std::max<size_t>(1, (message.size() + kPartBytes - 1) / kPartBytes);
  if (parts_.size() + count > kMostParts) return false;
  for (size_t i = 0; i < count; ++i) {
    const auto begin = message.begin() + static_cast<ptrdiff_t>(i * kPartBytes);
    const size_t bytes = std::min(kPartBytes, message.size() - i * kPartBytes);
    parts_.push_back({++pushed_,
                      i == 0,
                      static_cast<uint32_t>(message.size()),
                      {begin, begin + static_cast<ptrdiff_t>(bytes)}});
  }
  return true;
}

void MessageStream::acknowledged(uint64_t sequence, Time now) {
  while (!parts_.empty() && parts_.front().sequence <= sequence) {
    parts_.pop_front();
    sent_ -= std::min<size_t>(sent_, 1);
    patience_ = kFirstPatience;  // the way is open
    waiting_since_ = now;
  }
}

std::optional<std::vector<std::byte>> MessageStream::take(uint64_t sequence, bool first,
                                                          uint32_t total,
                                                          std::span<const std::byte> bytes) {
  if (sequence != taken_ + 1 || total > kMostBytes) return std::nullopt;
  ++taken_;
  if (first) message_.clear();
  message_.insert(message_.end(), bytes.begin(), bytes.end());
  if (message_.size() != total) return std::nullopt;
  return std::exchange(message_, {});
}

}  // namespace peal

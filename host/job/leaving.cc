// SPDX-License-Identifier: Apache-2.0
#include "host/job/leaving.h"

#include <algorithm>

namespace peal {
namespace {

// A PE's own part is word 0 and 1, that of the loss word 2 and 3:
//   bits 63..32: PE + 1 (0: no loss; of its own part, the length of its text)
//   bits 31..0:  How
uint64_t packed(uint64_t high, Departure::How how) {
  return high << 32 | static_cast<uint64_t>(how);
}

std::optional<Departure> unpacked(uint64_t how, uint64_t code, std::string_view text) {
  const auto known = static_cast<Departure::How>(static_cast<uint32_t>(how));
  if (known > Departure::How::kKilled) return std::nullopt;
  return Departure{known, static_cast<int>(code), std::string(text)};
}

}  // namespace

LeavingMessage::LeavingMessage(const Leaving& leaving) noexcept {
  const std::string_view own = leaving.text.substr(0, kMaxText);
  const std::string_view lost = leaving.loss.text.substr(0, kMaxText);
  std::ranges::copy(own, text_.begin());
  std::ranges::copy(lost, text_.begin() + own.size());
  length_ = own.size() + lost.size();
  word_ = {packed(own.size(), leaving.how), static_cast<uint64_t>(leaving.code),
           packed(static_cast<uint64_t>(leaving.loss.pe + 1), leaving.loss.how),
           static_cast<uint64_t>(leaving.loss.code)};
}

std::optional<HeardLeaving> read_leaving(const std::array<uint64_t, 4>& word,
                                         std::span<const std::byte> payload) {
  const std::string_view text(reinterpret_cast<const char*>(payload.data()), payload.size());
  const size_t own_length = word[0] >> 32;
  if (own_length > text.size()) return std::nullopt;
  auto own = unpacked(word[0], word[1], text.substr(0, own_length));
  if (!own) return std::nullopt;
  HeardLeaving heard{std::move(*own), std::nullopt};
  const auto pe = static_cast<int64_t>(word[2] >> 32) - 1;
  if (pe < 0 || pe > INT32_MAX) return heard;
  if (auto lost = unpacked(word[2], word[3], text.substr(own_length))) {
    heard.loss = {static_cast<int>(pe), std::move(*lost)};
  }
  return heard;
}

}  // namespace peal

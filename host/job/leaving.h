// SPDX-License-Identifier: Apache-2.0
//
// What a PE tells the others when it leaves (Message::Kind::kLeft): how, and whose loss it has
// heard of. PEs that end because another one did would else be taken for the first where their
// message arrives before that one's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "host/job/departure.h"

namespace peal {

/// A Departure whose text need not be a string of its own: handlers of signals allocate none.
struct Leaving {
  Departure::How how = Departure::How::kFinalized;
  int code = 0;
  std::string_view text = {};
  struct Loss {
    int pe = -1;  // none
    Departure::How how = Departure::How::kFinalized;
    int code = 0;
    std::string_view text = {};
  } loss = {};
};

/// As it travels: texts are cut at 1,000 bytes. Allocates nothing.
class LeavingMessage {
 public:
  explicit LeavingMessage(const Leaving& leaving) noexcept;

  const std::array<uint64_t, 4>& word() const { return word_; }
  std::span<const std::byte> payload() const {
    return std::as_bytes(std::span(text_).first(length_));
  }

 private:
  static constexpr size_t kMaxText = 1000;

  std::array<uint64_t, 4> word_;
  std::array<char, 2 * kMaxText> text_;
  size_t length_ = 0;
};

struct HeardLeaving {
  Departure own;
  std::optional<std::pair<int, Departure>> loss;  // PE, as it was told
};

/// Nothing where the message is none that LeavingMessage makes.
std::optional<HeardLeaving> read_leaving(const std::array<uint64_t, 4>& word,
                                         std::span<const std::byte> payload);

}  // namespace peal

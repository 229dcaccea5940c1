// SPDX-License-Identifier: Apache-2.0
//
// The value of NVSHMEM_SYMMETRIC_SIZE, as NVSHMEM's guide describes it: "20m", "3.1M", ".5g", or
// bytes.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace peal::compat {

/// A heap of peal's that is at least as large: what is behind the suffix is ignored, and small
/// sizes, which programs compute from theirs, become the smallest heap of peal. nullopt where the
/// text is no size, or more than peal's largest heap.
inline std::optional<uint64_t> symmetric_size(std::string_view text) {
  constexpr std::string_view kBegins = "0123456789.", kSuffixes = "kmgtKMGT";
  constexpr double kLeast = 64 << 10, kMost = double{uint64_t{1} << 44};
  const bool begins_well = !text.empty() && kBegins.find(text[0]) != kBegins.npos;
  if (!begins_well) return std::nullopt;  // from_chars() also takes "-1" and "inf"
  const char* const past = text.data() + text.size();
  double bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), past, bytes);
  if (error != std::errc()) return std::nullopt;
  if (end != past) {
    const size_t suffix = kSuffixes.find(*end);
    if (suffix == kSuffixes.npos) return std::nullopt;
    bytes = std::ldexp(bytes, 10 * (1 + static_cast<int>(suffix % 4)));
  }
  if (!(bytes <= kMost)) return std::nullopt;
  return static_cast<uint64_t>(std::max(std::ceil(bytes), kLeast));
}

}  // namespace peal::compat

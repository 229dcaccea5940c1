// SPDX-License-Identifier: Apache-2.0
#include "host/transport/warn_once.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/ranges.h"

namespace peal {
namespace {

// An address is another one in each process; a status or a syndrome has at most eight digits.
void drop_addresses(std::string& text) {
  constexpr size_t kMostDigits = 8;
  for (size_t at = text.find("0x"); at != std::string::npos; at = text.find("0x", at + 1)) {
    const size_t end = std::min(text.find_first_not_of("0123456789abcdef", at + 2), text.size());
    if (end - at - 2 > kMostDigits) text.replace(at, end - at, "*");
  }
}

std::string without(std::string text, std::vector<std::string> names) {
  drop_addresses(text);
  // The longest first: mlx5_1 is a part of mlx5_10.
  std::ranges::sort(names, std::ranges::greater(), &std::string::size);
  for (const std::string& name : names) {
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
      text.replace(at, name.size(), "*");
    }
  }
  return text;
}

}  // namespace

void warn_once(Bootstrap& bootstrap, const Log& log, const std::string& text,
               std::vector<std::string> names) {
  uint64_t mine = 0;
  if (!text.empty()) mine = std::hash<std::string>()(without(text, std::move(names))) | 1;
  const std::vector<uint64_t> all = gather(bootstrap, mine);
  std::vector<size_t> alike;
  for (size_t pe = 0; pe < all.size(); ++pe) {
    if (all[pe] == mine) alike.push_back(pe);
  }
  if (mine == 0 || alike.front() != static_cast<size_t>(bootstrap.rank())) return;
  alike.erase(alike.begin());
  const char* const others = alike.size() == 1 ? "; likewise PE " : "; likewise PEs ";
  log.warn("nic", "{}{}", text, alike.empty() ? "" : others + ranges(alike));
}

}  // namespace peal

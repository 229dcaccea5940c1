// SPDX-License-Identifier: Apache-2.0
#include "host/nic/gid.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

namespace peal::nic {
namespace {

/// Smaller is better; what is not RoCE v2 has none.
std::optional<int> rank(const GidEntry& entry) {
  if (entry.type != GidType::kRoceV2 || entry.gid.empty()) return std::nullopt;
  if (entry.gid.ipv4()) return 0;
  return entry.gid.link_local() ? 2 : 1;
}

}  // namespace

std::optional<Gid> Gid::parse(std::string_view text) {
  Gid gid;
  if (::inet_pton(AF_INET6, std::string(text).c_str(), gid.bytes.data()) != 1) return std::nullopt;
  return gid;
}

bool Gid::empty() const { return *this == Gid{}; }

bool Gid::link_local() const { return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80; }

bool Gid::ipv4() const {
  return std::all_of(bytes.begin(), bytes.begin() + 10, [](uint8_t byte) { return byte == 0; }) &&
         bytes[10] == 0xff && bytes[11] == 0xff;
}

uint16_t Gid::forwardable_lid() const {
  const bool site_local = bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0xc0;
  return site_local ? static_cast<uint16_t>(bytes[4] << 8 | bytes[5]) : uint16_t{0};
}

uint16_t Gid::subnet() const { return static_cast<uint16_t>(bytes[6] << 8 | bytes[7]); }

std::string Gid::text() const {
  char text[INET6_ADDRSTRLEN] = "";
  ::inet_ntop(AF_INET6, bytes.data(), text, sizeof text);
  return text;
}

const char* to_string(GidType type) {
  constexpr const char* kNames[] = {"InfiniBand", "RoCE v1", "RoCE v2"};
  return kNames[static_cast<size_t>(type)];
}

std::optional<GidType> roce_type(std::string_view text) {
  if (text == "RoCE v2") return GidType::kRoceV2;
  if (text == "IB/RoCE v1" || text == "RoCE v1") return GidType::kRoceV1;
  return std::nullopt;
}

std::string describe(const GidEntry& entry) {
  return fmt::format("index {}: {} {}", entry.index, to_string(entry.type), entry.gid.text());
}

std::string describe(const std::vector<GidEntry>& table) {
  std::string text;
  for (const GidEntry& entry : table) text += (text.empty() ? "" : ", ") + describe(entry);
  return text.empty() ? "none" : text;
}

const GidEntry* best_roce_gid(const std::vector<GidEntry>& table) {
  const GidEntry* best = nullptr;
  for (const GidEntry& entry : table) {
    const std::optional<int> mine = rank(entry);
    if (mine && (!best || *mine < *rank(*best))) best = &entry;
  }
  return best;
}

const GidEntry* best_infiniband_gid(const std::vector<GidEntry>& table) {
  if (table.empty()) return nullptr;
  const auto forwardable = std::find_if(table.begin(), table.end(), [](const GidEntry& entry) {
    return entry.gid.forwardable_lid() != 0;
  });
  return forwardable == table.end() ? &table[0] : &*forwardable;
}

}  // namespace peal::nic

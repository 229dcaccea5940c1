// SPDX-License-Identifier: Apache-2.0
//
// The list of extended capabilities: little-endian headers of id, version and next offset.
#include "doctor/pci.h"

namespace peal::doctor {
namespace {

constexpr size_t kExtended = 0x100;
constexpr unsigned kAcs = 0x000d;
constexpr size_t kAcsControl = 6;   // from the capability's header
constexpr int kMostEntries = 1024;  // what a list without loops can hold

unsigned byte_at(std::string_view bytes, size_t at) {
  return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0u;
}

unsigned word_at(std::string_view bytes, size_t at) {
  return byte_at(bytes, at) | byte_at(bytes, at + 1) << 8;
}

}  // namespace

std::optional<unsigned> acs_control(std::string_view config) {
  if (config.size() < kExtended + 4) return std::nullopt;
  size_t at = kExtended;
  for (int entry = 0; entry < kMostEntries && at >= kExtended; ++entry) {
    if (word_at(config, at) == kAcs) return word_at(config, at + kAcsControl);
    at = word_at(config, at + 2) >> 4 & ~size_t{3};
  }
  return 0;
}

}  // namespace peal::doctor

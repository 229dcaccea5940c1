// SPDX-License-Identifier: Apache-2.0
//
// The unique id as text, which holds a secret: no error repeats it.
#include <fmt/format.h>

#include <cstring>

#include "bootstrap/bootstraps.h"
#include "host/base/error.h"

namespace peal::bootstrap {
namespace {

constexpr std::size_t kDigits = 44;  // of 16 bytes, 4 and 2

int nibble(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

}  // namespace

std::string UniqueId::to_string() const {
  std::string text;
  for (const std::byte byte : secret)
    text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  for (const std::uint8_t byte : address) text += fmt::format("{:02x}", byte);
  return text + fmt::format("{:04x}", port);
}

UniqueId UniqueId::from_string(std::string_view text, std::string_view name) {
  if (text.size() != kDigits) {
    fail(ErrorCode::kInvalidArgument,
         "{} has {} characters: 44 hexadecimal digits expected, as peal-id prints them", name,
         text.size());
  }
  std::array<std::uint8_t, kDigits / 2> bytes{};
  for (std::size_t i = 0; i < kDigits; ++i) {
    const int value = nibble(text[i]);
    if (value < 0) {
      fail(ErrorCode::kInvalidArgument, "{}: character {} is not a hexadecimal digit", name, i + 1);
    }
    bytes[i / 2] = static_cast<std::uint8_t>(bytes[i / 2] << 4 | value);
  }
  UniqueId id;
  std::memcpy(id.secret.data(), bytes.data(), 16);
  std::memcpy(id.address.data(), bytes.data() + 16, 4);
  id.port = static_cast<std::uint16_t>(bytes[20] << 8 | bytes[21]);
  if (id.port == 0)
    fail(ErrorCode::kInvalidArgument, "{}: its port is 0; copy the whole text of rank 0's id",
         name);
  return id;
}

}  // namespace peal::bootstrap

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <type_traits>
#include <vector>

#include "host/memory/backing.h"

namespace peal {

/// Stores into tables that kernels read meanwhile, collected and then carried out in one go: a GPU
/// is waited for once, not for each.
class StoreList {
 public:
  /// The values are copied.
  template <class T>
  void add(T* to, std::span<const std::type_identity_t<T>> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    static_assert(sizeof(T) % sizeof(uint32_t) == 0);
    if (values.empty()) return;
    const auto bytes = std::as_bytes(values);
    const auto& kept = values_.emplace_back(bytes.begin(), bytes.end());
    stores_.push_back({to, kept.data(), kept.size()});
  }
  template <class T>
  void add(T* to, const T& value) {
    add(to, std::span(&value, 1));
  }

  /// In this order, word by word as Backing::store_in_order() has it. Done on return.
  void carry_out(const Backing& memory) const { memory.store_in_order(stores_); }

 private:
  std::deque<std::vector<std::byte>> values_;
  std::vector<Copy> stores_;
};

}  // namespace peal

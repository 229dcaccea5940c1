// SPDX-License-Identifier: Apache-2.0
//
// A table that never moves: address space for the most it may hold is reserved at once, memory
// comes as entries are used. The engine indexes it directly while control calls add to it.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <type_traits>
#include <vector>

namespace peal::softnic {

/// Entries [first, capacity); released numbers are handed out again before fresh ones.
template <class T>
class Table {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  Table(uint32_t first, uint32_t capacity) : next_(first), capacity_(capacity) {
    void* memory = mmap(nullptr, sizeof(T) * capacity, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      throw std::system_error(errno, std::generic_category(), "softnic: mmap of a table");
    }
    entries_ = static_cast<T*>(memory);
  }
  ~Table() { munmap(entries_, sizeof(T) * capacity_); }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  /// A free number, or 0 when the table is full.
  uint32_t take() {
    uint32_t number = 0;
    if (!released_.empty()) {
      number = released_.back();
      released_.pop_back();
    } else if (next_ < capacity_) {
      number = next_++;
    }
    return number;
  }
  void release(uint32_t number) { released_.push_back(number); }

  /// The entry in use of that number, or null.
  T* find(uint32_t number) {
    return number < next_ && entries_[number].exists ? &entries_[number] : nullptr;
  }
  T* data() { return entries_; }
  T& operator[](uint32_t number) { return entries_[number]; }
  const T& operator[](uint32_t number) const { return entries_[number]; }
  uint32_t used() const { return next_; }  // one past the highest number ever handed out
  uint32_t capacity() const { return capacity_; }

 private:
  T* entries_ = nullptr;
  uint32_t next_;
  uint32_t capacity_;
  std::vector<uint32_t> released_;
};

}  // namespace peal::softnic

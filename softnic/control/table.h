// SPDX-License-Identifier: Apache-2.0
//
// A table that never moves: address space for the most it may hold is reserved at once, memory
// comes as entries are used. The engine indexes it directly while control calls add to it.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <deque>
#include <system_error>
#include <type_traits>

namespace peal::softnic {

/// Entries [first, capacity). Released numbers are handed out again, the longest free first; of a
/// table in which numbers rest, only once more than `rest` of them are free.
template <class T>
class Table {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  Table(uint32_t first, uint32_t capacity, uint32_t rest = 0)
      : next_(first), capacity_(capacity), rest_(rest) {
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
    if (released_.size() <= rest_ && next_ < capacity_) return next_++;
    if (released_.empty()) return 0;
    const uint32_t number = released_.front();
    released_.pop_front();
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
  uint32_t rest_;
  std::deque<uint32_t> released_;  // the longest free first
};

}  // namespace peal::softnic

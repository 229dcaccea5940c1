// SPDX-License-Identifier: Apache-2.0
//
// What a thread goes round: items that have work are advanced every round, of the others some are
// looked at. An item falls idle after many rounds without work.
//
//   busy: advanced every round        idle: some looked at each round, until one has work
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace peal {

/// The items are numbers or pointers, which are compared. Not locked.
template <class T>
class BusyList {
 public:
  /// `item` may have work from now on.
  void add(T item) {
    if (busy(item)) return;
    std::erase(idle_, item);
    busy_.push_back({item});
  }
  void remove(T item) {
    std::erase(idle_, item);
    std::erase(busy_, item);
  }

  bool busy(T item) const { return std::find(busy_.begin(), busy_.end(), item) != busy_.end(); }

  /// One round; true if anything worked. advance(item) does what there is to do and tells whether
  /// there was any; has_work(item) tells whether an item must be advanced.
  template <class Advance, class HasWork>
  bool round(const Advance& advance, const HasWork& has_work) {
    bool worked = false;
    for (size_t i = 0; i < busy_.size();) {
      Busy& item = busy_[i];
      if (advance(item.item)) {
        worked = true;
        item.idle_rounds = 0;
      } else if (++item.idle_rounds > kRoundsUntilIdle && !has_work(item.item)) {
        idle_.push_back(item.item);
        item = busy_.back();
        busy_.pop_back();
        continue;
      }
      ++i;
    }
    for (size_t looks = std::min(kIdleLooks, idle_.size()); looks > 0 && !idle_.empty(); --looks) {
      if (idle_at_ >= idle_.size()) idle_at_ = 0;
      const T item = idle_[idle_at_];
      if (!has_work(item)) {
        ++idle_at_;
        continue;
      }
      idle_[idle_at_] = idle_.back();
      idle_.pop_back();
      busy_.push_back({item});
      worked |= advance(item);
    }
    return worked;
  }

 private:
  static constexpr size_t kIdleLooks = 64;  // in a round
  static constexpr uint32_t kRoundsUntilIdle = 4096;
  struct Busy {
    bool operator==(const T& other) const { return item == other; }
    T item;
    uint32_t idle_rounds = 0;
  };

  std::vector<Busy> busy_;
  std::vector<T> idle_;
  size_t idle_at_ = 0;
};

}  // namespace peal

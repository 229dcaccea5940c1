// SPDX-License-Identifier: Apache-2.0
//
// A failure of kernels is told once: by the watcher on stderr, or to the program that asks, which
// may print it. Each looks first and speaks then, in threads of their own:
//
//   the watcher:  finds it ............ says it, unless somebody has asked meanwhile
//   a program:         finds it, asks: has it been said?
//
// Whoever comes second hears of the first, and not before the line is out. What was found before a
// recovery is not said behind it.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

namespace peal {

class FirstWord {
 public:
  /// The program is told of the failure now. True: stderr was before it.
  bool tell() {
    const std::lock_guard lock(mutex_);
    told_ = true;
    return said_;
  }
  /// A number for say(), to be taken ahead of the look; nothing while there is nothing to say.
  std::optional<uint64_t> due() const {
    const std::lock_guard lock(mutex_);
    return said_ || told_ ? std::nullopt : std::optional(round_);
  }
  /// Calls `say`, unless the program was told since due(), or forget() was called.
  template <class Say>
  void say(uint64_t round, const Say& say) {
    const std::lock_guard lock(mutex_);
    if (said_ || told_ || round != round_) return;
    say();
    said_ = true;
  }
  /// A program was told.
  bool told() const {
    const std::lock_guard lock(mutex_);
    return told_;
  }
  /// It was said on stderr.
  bool said() const {
    const std::lock_guard lock(mutex_);
    return said_;
  }
  /// The next failure is another one.
  void forget() {
    const std::lock_guard lock(mutex_);
    told_ = said_ = false;
    ++round_;
  }

 private:
  mutable std::mutex mutex_;
  bool told_ = false;
  bool said_ = false;
  uint64_t round_ = 0;
};

}  // namespace peal

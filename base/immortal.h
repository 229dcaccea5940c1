// SPDX-License-Identifier: Apache-2.0
//
// The static of a function that is never destroyed. The end of a process destroys statics in the
// reverse order of their making, so a static that was made late is gone when the destructor of an
// early one (a program's Runtime) still calls the function.
#pragma once

#include <utility>

namespace peal {

/// `static Immortal<T> it;` makes a T at the first call. Its memory goes with the process.
template <class T>
class Immortal {
 public:
  template <class... Arguments>
  explicit Immortal(Arguments&&... arguments) : value_(std::forward<Arguments>(arguments)...) {}
  ~Immortal() {}
  Immortal(const Immortal&) = delete;
  Immortal& operator=(const Immortal&) = delete;

  T& operator*() { return value_; }

 private:
  union {
    T value_;  // a union destroys nothing
  };
};

}  // namespace peal

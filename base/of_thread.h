// SPDX-License-Identifier: Apache-2.0
//
// A value that each thread has, as errno is: what a C interface says of its last error. It can be
// had to the end: the destructors of a program's statics call after those of the main thread's
// variables.
//
// A T takes no room in the block that threads are born with unless it has to: a program that loads
// a library late, such as Python, has some 1,600 bytes left there for all libraries. So a T holds
// its texts elsewhere, as std::string does.
#pragma once

#include <forward_list>
#include <mutex>

#include "base/immortal.h"

namespace peal {

/// Values of threads that came behind the end of their variables. They stay: nothing runs later
/// that could destroy one.
template <class T>
class Stayers {
 public:
  T& one_more() {
    const std::lock_guard guard(mutex_);
    return values_.emplace_front();
  }

 private:
  std::mutex mutex_;
  std::forward_list<T> values_;
};

/// The calling thread's T; behind the end of its variables another one, which stays as long as the
/// process. Name is a type of the caller's own: another value for each.
template <class T, class Name>
T& of_thread() {
  static Immortal<Stayers<T>> at_the_end;
  constinit static thread_local bool gone = false;
  constinit static thread_local T* late = nullptr;
  static thread_local const struct Owner {
    ~Owner() { gone = true; }
    mutable T value{};
  } owner;
  if (!gone) return owner.value;
  if (late == nullptr) late = &(*at_the_end).one_more();
  return *late;
}

}  // namespace peal

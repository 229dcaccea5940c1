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

#include "base/immortal.h"

namespace peal {

/// The calling thread's T; behind the end of its variables one that is shared by all who come so
/// late. Name is a type of the caller's own: another value for each.
template <class T, class Name>
T& of_thread() {
  static Immortal<T> at_the_end;
  constinit static thread_local bool gone = false;
  static thread_local const struct Owner {
    ~Owner() { gone = true; }
    mutable T value{};
  } owner;
  return gone ? *at_the_end : owner.value;
}

}  // namespace peal

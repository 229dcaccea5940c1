// SPDX-License-Identifier: Apache-2.0
//
// The edge between C callers and C++ code: one lock, exceptions turned into errno, and tables of
// the names that things have on either side.
//
//   extern "C" call -> answer_error / answer_pointer -> body under the control lock -> errno
//
// Nothing thrown below an entry point leaves it.
#pragma once

#include <cerrno>
#include <cstddef>
#include <mutex>

#include "softnic/nic.h"

namespace peal::softnic::abi {

/// Two names of one thing, in a table that is looked up from either side.
template <class A, class B>
struct Row {
  A left;
  B right;
};

/// The name on the right of the first row with `left`; `otherwise` where there is none.
template <class A, class B, size_t N>
constexpr B right_of(const Row<A, B> (&table)[N], A left, B otherwise) {
  for (const auto& row : table)
    if (row.left == left) return row.right;
  return otherwise;
}
template <class A, class B, size_t N>
constexpr A left_of(const Row<A, B> (&table)[N], B right, A otherwise) {
  for (const auto& row : table)
    if (row.right == right) return row.left;
  return otherwise;
}

/// Thrown inside a control call; the entry point answers `value` as errno.
struct Errno {
  int value;
};

[[noreturn]] inline void refuse(int error) { throw Errno{error}; }

/// The errno rdma-core's provider derives from a firmware status.
int errno_of(CommandStatus status);

/// Throws Errno when the NIC refused.
void require(const Refusal& refusal);
uint32_t require(const Created& created);

/// Guards every object table of this process. Never held while waiting for an event. Recursive,
/// because a parent domain's allocator may call back into the library.
std::recursive_mutex& control_mutex();

/// errno for the exception in flight; call it in a catch block. What else the exception says is
/// printed, as a line, and kept for why_refused().
int errno_of_current_exception() noexcept;

/// More than errno of this thread's last call that failed; "" where there is no more.
const char* why_refused() noexcept;

/// Runs `body`. Answers 0, or an errno value which it also stores in errno. Without the control
/// lock: for data paths, which have locks of their own.
template <class F>
int answer_plainly(F&& body) noexcept {
  try {
    body();
    return 0;
  } catch (...) {
    errno = errno_of_current_exception();
    return errno;
  }
}

/// The same under the control lock.
template <class F>
int answer_error(F&& body) noexcept {
  return answer_plainly([&] {
    std::lock_guard lock(control_mutex());
    body();
  });
}

/// The same of a call that says -1 whatever the error is.
template <class F>
int answer_negative(F&& body) noexcept {
  return answer_error(body) == 0 ? 0 : -1;
}

/// Runs `body` under the control lock. Answers its pointer, or null with errno set.
template <class F>
auto answer_pointer(F&& body) noexcept -> decltype(body()) {
  try {
    std::lock_guard lock(control_mutex());
    return body();
  } catch (...) {
    errno = errno_of_current_exception();
    return nullptr;
  }
}

}  // namespace peal::softnic::abi

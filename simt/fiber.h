// SPDX-License-Identifier: Apache-2.0
//
// One suspended flow of control on a stack of its own.
//
//   worker:  start() ... enter() ............ returns ... enter() ......... returns
//   fiber:                 entry ... leave()                returns ... finish()
//
// Invariant: enter() and leave() alternate on one thread; a fiber never moves to another.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

#include "simt/stack_pool.h"

namespace peal::simt {

/// A fiber. Destroy it only before start() or after finish(): it does not unwind what is on it.
class Fiber {
 public:
  using Entry = void (*)(void* argument);

  /// Makes the next enter() call entry(argument), which must end with finish(). `colour` bytes are
  /// left out at the top, so that equal frames of many stacks do not fall on the same cache sets.
  void start(const Stack& stack, size_t colour, Entry entry, void* argument);

  /// Runs the fiber until it leaves or finishes.
  void enter();

  /// Called on the fiber: returns to enter(); returns here at the next enter().
  void leave();

  /// Called on the fiber: as leave(), for good.
  [[noreturn]] void finish();

 private:
  static void begin(boost::context::detail::transfer_t from);
  void switch_out(void** fake_stack);

  boost::context::detail::fcontext_t fiber_ = nullptr;   // touched by the worker
  boost::context::detail::fcontext_t worker_ = nullptr;  // touched by the fiber
  Stack stack_;
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
  // AddressSanitizer's and ThreadSanitizer's handles of the worker.
  const void* worker_bottom_ = nullptr;
  size_t worker_bytes_ = 0;
  void* worker_tsan_ = nullptr;
};

}  // namespace peal::simt

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

#include "simt/lanes/sanitizer.h"
#include "simt/lanes/stack_pool.h"

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

  /// Where a debugger finds what was saved at the last leave(), and the stack.
  static constexpr size_t saved_offset() { return offsetof(Fiber, fiber_); }
  static constexpr size_t stack_offset() { return offsetof(Fiber, stack_); }

  /// The stack that start() was given.
  const Stack& stack() const { return stack_; }

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

PEAL_SIMT_SWITCH void Fiber::enter() {
  void* fake_stack = nullptr;
  if (address_sanitized()) {
    __sanitizer_start_switch_fiber(&fake_stack, stack_.bottom, stack_.bytes);
  }
#if defined(__SANITIZE_THREAD__)
  worker_tsan_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(stack_.tsan_fiber, __tsan_switch_to_fiber_no_sync);
#endif
  fiber_ = boost::context::detail::jump_fcontext(fiber_, this).fctx;
  if (address_sanitized()) __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
}

PEAL_SIMT_SWITCH void Fiber::switch_out(void** fake_stack) {
  if (address_sanitized()) {
    __sanitizer_start_switch_fiber(fake_stack, worker_bottom_, worker_bytes_);
  }
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(worker_tsan_, __tsan_switch_to_fiber_no_sync);
#endif
  worker_ = boost::context::detail::jump_fcontext(worker_, nullptr).fctx;
}

PEAL_SIMT_SWITCH void Fiber::leave() {
  void* fake_stack = nullptr;
  switch_out(&fake_stack);
  if (address_sanitized()) {
    __sanitizer_finish_switch_fiber(fake_stack, &worker_bottom_, &worker_bytes_);
  }
}

}  // namespace peal::simt

// SPDX-License-Identifier: Apache-2.0
//
// A flow of control that can stand still: on a stack of its own, or the one that a thread has.
//
//   thread:   switch_to(a) ........................ returns
//   fiber a:                entry ... switch_to(b)            stands still until somebody switches
//   fiber b:                                        entry ... switch_to(thread)
//
// Invariant: all of them are of one thread, of which one runs; a fiber never moves to another.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

#include "simt/lanes/sanitizer.h"
#include "simt/lanes/stack_pool.h"

namespace peal::simt {

/// A fiber. It does not unwind what is on it when it is destroyed.
class Fiber {
 public:
  /// Never returns: it may switch to others for good.
  using Entry = void (*)(Fiber& self);

  /// The calling thread's own flow of control.
  Fiber() = default;
  /// The first switch to it calls entry(*this). `colour` bytes are left out at the top, so that
  /// equal frames of many stacks do not fall on the same cache sets.
  Fiber(const Stack& stack, size_t colour, Entry entry);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Called on this one: it stands still from here until another switches back.
  void switch_to(Fiber& next);

  /// Where a debugger finds what was saved when it last stood still, and the stack.
  static constexpr size_t saved_offset() { return offsetof(Fiber, saved_); }
  static constexpr size_t stack_offset() { return offsetof(Fiber, stack_); }

  /// Nothing for a thread's own.
  const Stack& stack() const { return stack_; }

 private:
  static void begin(boost::context::detail::transfer_t from);
  static void arrive(const boost::context::detail::transfer_t& from, void* fake_stack);

  boost::context::detail::fcontext_t saved_ = nullptr;
  Fiber* next_ = nullptr;  // that it switches to
  Stack stack_;
  Entry entry_ = nullptr;
};

PEAL_SIMT_SWITCH void Fiber::arrive(const boost::context::detail::transfer_t& from,
                                    void* fake_stack) {
  Fiber& before = *static_cast<Fiber*>(from.data);
  before.saved_ = from.fctx;
  if (!address_sanitized()) return;
  const void* bottom = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(fake_stack, &bottom, &bytes);
  if (before.stack_.bottom == nullptr) {  // a thread's, which only the sanitizer knows
    before.stack_ = {.bottom = const_cast<void*>(bottom), .bytes = bytes};
  }
}

PEAL_SIMT_SWITCH void Fiber::switch_to(Fiber& next) {
  void* fake_stack = nullptr;
  if (address_sanitized()) {
    __sanitizer_start_switch_fiber(&fake_stack, next.stack_.bottom, next.stack_.bytes);
  }
#if defined(__SANITIZE_THREAD__)
  if (entry_ == nullptr) stack_.tsan_fiber = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(next.stack_.tsan_fiber, __tsan_switch_to_fiber_no_sync);
#endif
  next_ = &next;
  arrive(boost::context::detail::jump_fcontext(next.saved_, this), fake_stack);
}

}  // namespace peal::simt

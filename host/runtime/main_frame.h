// SPDX-License-Identifier: Apache-2.0
//
// The frame of run_main() on a thread. A Runtime that an exception unwinds waits there for the
// exception's text, which its destructor cannot know, before it tells the other PEs:
//
//   throw --> ~Runtime: keep() --> run_main's catch: leave(text) --> the others hear why
//
// And a Runtime that ends with a failure that nobody has asked for fails the program's exit code.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "host/job/departure.h"

namespace peal {

/// On one thread, the inner frame counts.
class MainFrame {
 public:
  using Leave = std::function<void(const Departure&)>;

  MainFrame() : outer_(of_thread_) { of_thread_ = this; }
  /// What was kept and not told leaves by an exception without a text.
  ~MainFrame() {
    of_thread_ = outer_;
    leave({.how = Departure::How::kException});
  }
  MainFrame(const MainFrame&) = delete;
  MainFrame& operator=(const MainFrame&) = delete;

  /// Null outside of run_main().
  static MainFrame* of_thread() { return of_thread_; }

  void keep(Leave leave) { kept_.push_back(std::move(leave)); }
  void leave(const Departure& how) {
    for (const Leave& one : std::exchange(kept_, {})) one(how);
  }

  void fail() { failed_ = true; }
  bool failed() const { return failed_; }

 private:
  static inline constinit thread_local MainFrame* of_thread_ = nullptr;
  MainFrame* const outer_;
  std::vector<Leave> kept_;
  bool failed_ = false;
};

}  // namespace peal

// SPDX-License-Identifier: Apache-2.0
//
// How a Runtime ends: by finalize(), by its destructor in order, or by an exception.
#include <exception>
#include <memory>
#include <utility>

#include "host/main_frame.h"
#include "host/runtime.h"
#include "host/runtime_parts.h"

namespace peal {
namespace {

// Known where a destructor runs in a handler.
std::string text_of_current_exception() {
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
  }
  return {};
}

}  // namespace

void Runtime::finalize() {
  require("finalize");
  const std::unique_ptr<Parts> ended = std::move(parts_);
  ended->end({});
}

// A child of fork() leaves its copy as it is.
void Runtime::leave(std::unique_ptr<Parts> ending) const noexcept {
  if (ending == nullptr) return;
  if (!ending->maker.here()) return static_cast<void>(ending.release());
  MainFrame* const frame = MainFrame::of_thread();
  if (std::uncaught_exceptions() <= exceptions_) {
    if (!ending->end_and_say({}) && frame != nullptr) frame->fail();
  } else if (frame == nullptr) {
    ending->end_and_say({Departure::How::kException, 0, text_of_current_exception()});
  } else {
    frame->keep([parts = std::shared_ptr<Parts>(std::move(ending))](const Departure& how) {
      parts->end_and_say(how);
    });
  }
}

}  // namespace peal

// SPDX-License-Identifier: Apache-2.0
//
// What all C functions do: find the runtime, and turn an exception into an answer and
// peal_error()'s text. For peal's own files.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "peal/c_api.h"
#include "peal/peal.h"

namespace peal::c {

/// The last error of the calling thread.
struct LastError {
  std::string text;
  peal_error_code_t code = PEAL_ERROR_NONE;
};
LastError& last_error();

/// What it becomes by `error`.
LastError told(const std::exception& error);

/// Throws kInvalidArgument, naming `call`, where what it is to fill in is NULL.
void require_place(const char* call, const char* argument, const void* place);

/// Throws kInvalidArgument, naming `call`, before peal_init(). What goes wrong from then on in the
/// same call of C has its name, too.
Runtime& initialised(const char* call);

/// What peal_error() says of `what`, in the words of C. For guarded().
std::string sentence(const char* what);
/// No call has a name until initialised().
void begin_call();

/// Runs `body`; an exception becomes `on_error` and peal_error()'s text, which a call that succeeds
/// leaves as it was, as errno.
template <class Body>
auto guarded(decltype(std::declval<Body>()()) on_error, const Body& body) -> decltype(body()) {
  begin_call();
  try {
    return body();
  } catch (const std::exception& error) {
    last_error() = told(error);
    return on_error;
  }
}

/// Runs `body` with the runtime that `call` needs. 0, or -1.
template <class Body>
int done(const char* call, const Body& body) {
  return guarded(-1, [&] {
    body(initialised(call));
    return 0;
  });
}

}  // namespace peal::c

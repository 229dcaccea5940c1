// SPDX-License-Identifier: Apache-2.0
//
// What the bootstrap tests share: typed gathering, and the error a call ends with.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "host/base/error.h"
#include "host/bootstrap.h"

namespace peal::bootstrap {

inline std::vector<int> gather(Bootstrap& group, int mine) {
  std::vector<int> all(static_cast<std::size_t>(group.size()), -1);
  group.allgather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

/// The error `call` ends with; its text is "no error" if it does not throw.
template <class Call>
Error error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::kInternal, "no error"};
}

inline bool contains(const Error& error, const std::string& text) {
  return std::string(error.what()).find(text) != std::string::npos;
}

}  // namespace peal::bootstrap

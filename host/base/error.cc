// SPDX-License-Identifier: Apache-2.0
//
// Texts of the set-up exception.
#include "host/base/error.h"

#include <system_error>

namespace peal {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid argument";
    case ErrorCode::kOutOfMemory:
      return "out of memory";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kConfiguration:
      return "configuration";
    case ErrorCode::kSystem:
      return "system";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kPeerLost:
      return "peer lost";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown error code";
}

void fail_errno(int error, const std::string& call) {
  // generic_category, not strerror: its text is thread-safe.
  throw Error(ErrorCode::kSystem, call + ": " + std::generic_category().message(error));
}

}  // namespace peal

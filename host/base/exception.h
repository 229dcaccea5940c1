// SPDX-License-Identifier: Apache-2.0
//
// What set-up code throws and callers catch. It names the call, the value and the remedy; the data
// path never throws. Standard headers only: kernels' sources include it, and nvcc refuses fmt's.
#pragma once

#include <stdexcept>
#include <string>

namespace peal {

enum class ErrorCode {
  kInvalidArgument,  // the caller's value cannot be right
  kOutOfMemory,      // heap, host or device memory exhausted
  kUnsupported,      // this machine or NIC cannot do it
  kConfiguration,    // a PEAL_* variable is unknown or malformed
  kSystem,           // a system or verbs call failed
  kTimeout,          // a deadline passed
  kPeerLost,         // another PE died or left
  kInternal,         // a defect of peal
};

/// "invalid argument", "timeout", ...
const char* to_string(ErrorCode code);

/// Thrown by everything that sets up, never by the data path.
class Error : public std::runtime_error {
 public:
  /// `what` is the whole sentence.
  Error(ErrorCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  /// Of which kind the error is.
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace peal

// SPDX-License-Identifier: Apache-2.0
//
// Names of what the host does, for profilers that listen by NVTX (Nsight Systems).
#pragma once

namespace peal::nvtx {

/// A range of the calling thread's time, from construction to destruction. Nothing without a
/// profiler (NVTX_INJECTION64_PATH), and where peal was built without NVTX's headers.
class Range {
 public:
  /// `name` is copied by whoever listens.
  explicit Range(const char* name);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace peal::nvtx

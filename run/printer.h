// SPDX-License-Identifier: Apache-2.0
//
// What peal-run prints: whole lines, each with the number of the PE that wrote it. Never waits for
// a reader, so that a full pipe does not keep signals from the PEs.
#pragma once

#include <cstddef>
#include <string_view>

#include "run/byte_queue.h"

namespace peal::run {

class Printer {
 public:
  /// Writes to descriptor `fd`, which is somebody else's.
  explicit Printer(int fd) : fd_(fd) {}

  int fd() const { return fd_; }
  std::size_t pending() const { return text_.size(); }
  /// errno of the write that failed; 0: none has.
  int error() const { return error_; }

  /// Adds `lines`, each of them behind `prefix`.
  void add(std::string_view prefix, std::string_view lines);

  /// Writes what fits, or some of it; to be called when poll says that a piece does. False when
  /// nothing can be written any more: what is added from then on is dropped.
  bool write_some();

  /// Drops what is not written yet, and all that is added from now on.
  void close() {
    closed_ = true;
    text_.clear();
  }

 private:
  int fd_;
  ByteQueue text_;
  int error_ = 0;
  bool closed_ = false;
};

}  // namespace peal::run

// SPDX-License-Identifier: Apache-2.0
//
// What peal-run prints: whole lines, each with the number of the PE that wrote it. Never waits for
// a reader, so that a full pipe does not keep signals from the PEs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace peal::run {

class Printer {
 public:
  /// Writes to descriptor `fd`, which is somebody else's.
  explicit Printer(int fd) : fd_(fd) {}

  int fd() const { return fd_; }
  std::size_t pending() const { return text_.size(); }

  /// Adds `lines`, each of them behind `prefix`.
  void add(std::string_view prefix, std::string_view lines);

  /// Writes a piece; to be called when poll says that one fits. False when nobody reads any more:
  /// what is added from then on is dropped.
  bool write_some();

  /// Drops what is not written yet, and all that is added from now on.
  void close() {
    closed_ = true;
    text_.clear();
  }

 private:
  int fd_;
  std::string text_;
  bool closed_ = false;
};

}  // namespace peal::run

// SPDX-License-Identifier: Apache-2.0
//
// What an observer was told of one piece of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "simt/lanes/plain_access.h"
#include "tests/unit/simt/support.h"

namespace peal::simt {

/// Keeps the accesses that touch the given bytes, and fences, from now on. One at a time.
class Recorder {
 public:
  Recorder(const void* begin, size_t bytes) : begin_(static_cast<const char*>(begin)) {
    end_ = begin_ + bytes;
    the_one = this;
    observe_accesses([](const PlainAccess& access) { the_one->keep(access); });
  }
  ~Recorder() { observe_accesses(nullptr); }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Runs `body` on a lane, and hands over what was told of it.
  std::vector<PlainAccess> accesses_of(const std::function<void()>& body) {
    told_.clear();
    simt::run({.blocks = {1, 1, 1}, .threads = {1, 1, 1}}, body);
    return told_;
  }

  /// What lay in the memory when each of them was told, for up to 8 bytes.
  const std::vector<uint64_t>& seen() const { return seen_; }

 private:
  void keep(const PlainAccess& access) {
    const auto* const at = static_cast<const char*>(access.address);
    const bool here = at != nullptr && at < end_ && at + access.bytes > begin_;
    if (!here && at != nullptr) return;
    told_.push_back(access);
    uint64_t word = 0;
    if (here && access.bytes <= sizeof word) std::memcpy(&word, at, access.bytes);
    seen_.push_back(word);
  }

  static inline Recorder* the_one = nullptr;

  const char* begin_;
  const char* end_;
  std::vector<PlainAccess> told_;
  std::vector<uint64_t> seen_;
};

}  // namespace peal::simt

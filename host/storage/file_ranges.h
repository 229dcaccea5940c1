// SPDX-License-Identifier: Apache-2.0
//
// A range of a file, cut into pieces that threads take one after another. All but the first begin
// at a block, so that only the ends of the range go through the page cache.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "host/storage/file.h"

namespace peal::storage {

struct FileRange {
  size_t index;
  uint64_t at;  // in the range
  size_t bytes;
};

class FileRanges {
 public:
  /// `piece` bytes each, a multiple of kBlock.
  FileRanges(uint64_t offset, uint64_t bytes, size_t piece)
      : bytes_(bytes), piece_(piece), skew_(offset % kBlock) {}

  size_t count() const {
    return bytes_ == 0 ? 0 : static_cast<size_t>((skew_ + bytes_ - 1) / piece_ + 1);
  }
  FileRange operator[](size_t index) const {
    const uint64_t begin = index == 0 ? 0 : index * piece_ - skew_;
    const uint64_t end = std::min(bytes_, (index + 1) * piece_ - skew_);
    return {index, begin, static_cast<size_t>(end - begin)};
  }

 private:
  uint64_t bytes_;
  size_t piece_;
  uint64_t skew_;
};

/// Calls `move(worker, piece)` for all pieces on up to `threads` threads, this one among them.
/// After the first throw no piece is begun; rethrows it when all threads have ended.
template <class Move>
void move_all(const FileRanges& pieces, size_t threads, const Move& move) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr first;
  const auto work = [&](size_t worker) {
    try {
      for (size_t i = next++; i < pieces.count(); i = next++) move(worker, pieces[i]);
    } catch (...) {
      next = pieces.count();
      const std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    const size_t workers = std::min(threads, pieces.count());
    for (size_t worker = 1; worker < workers; ++worker) {
      try {
        others.emplace_back(work, worker);
      } catch (const std::system_error&) {
        break;  // the machine has no more threads: these do all
      }
    }
    work(0);
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace peal::storage

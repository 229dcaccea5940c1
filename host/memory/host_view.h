// SPDX-License-Identifier: Apache-2.0
//
// A GPU's memory as the host itself loads and stores it, through the GPU's BAR by GDRCopy: words
// and small copies, for which a stream takes 6 to 9 us (docs/performance.md).
//
//   HostAccess   of a GPU: whether and how that works here, found out once by a trial
//   HostView     of one allocation: mapped piece by piece where it is first used, until it is freed
//
// What a store does is done on return: it is read back, for a read is answered behind the writes in
// front of it. So whoever hears of it afterwards finds it, a kernel that runs, a copy of a stream,
// a NIC that was rung; and the order of calls is the order in which they see it, also on GPUs that
// do not order what comes over the bus.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "host/memory/gdrcopy.h"

namespace peal {

class Gpu;

/// Thread-safe. Calls answer false, with nothing done, where a stream has to copy: the size is
/// larger, the piece could not be mapped, or the other end is no memory of the host.
class HostView {
 public:
  /// Bytes from which on a stream's copy is as fast (docs/performance.md). Stores are combined in
  /// the CPU, loads cross the bus one after another.
  static constexpr size_t kMostIn = 4096;
  static constexpr size_t kMostOut = 1024;
  /// Words that are ordered: each costs a round over the bus.
  static constexpr size_t kMostWords = 8;
  /// What is mapped at once. The page table of a whole heap would cost the host 8 bytes for every
  /// 4 KiB, and the GPU as much of its BAR as the heap is large.
  static constexpr size_t kPiece = 64u << 20;

  /// `begin` is a multiple of gdrcopy::kPage, as `bytes` is.
  HostView(const Gpu& gpu, std::shared_ptr<gdrcopy::Session> session, std::byte* begin,
           size_t bytes);

  /// Between the host and this memory; done on return.
  bool copy(void* to, const void* from, size_t bytes) const;

  /// One word of 4 or 8 bytes, or some of 8, each whole. Loaded from the last to the first, and
  /// before what the caller reads next; stored from the first to the last, and after what it wrote
  /// before.
  template <class Word>
  bool load(Word* to, const Word* from, size_t count) const;
  template <class Word>
  bool store(Word* to, const Word* from, size_t count) const;

  /// True where the others would not answer false.
  bool reaches(const void* at, size_t bytes) const { return kind_of(at, bytes) != gdrcopy::kNone; }
  /// How a range is mapped.
  gdrcopy::Kind kind_of(const void* at, size_t bytes) const;

 private:
  struct Piece {
    std::once_flag once;
    std::unique_ptr<const gdrcopy::GdrMapping> mapping;
  };
  /// A range that lies in one piece. No mapping: it does not, or that has none.
  struct Found {
    const gdrcopy::GdrMapping* mapping = nullptr;
    std::byte* at = nullptr;  // in the mapping
  };
  bool holds(const void* at) const {
    return reinterpret_cast<uintptr_t>(at) - reinterpret_cast<uintptr_t>(begin_) < bytes_;
  }
  Found piece_of(const void* at, size_t bytes) const;

  const Gpu& gpu_;
  const std::shared_ptr<gdrcopy::Session> session_;
  std::byte* const begin_;
  const size_t bytes_;
  const std::unique_ptr<Piece[]> pieces_;
};

/// How the host reaches words of a GPU's memory.
class HostAccess {
 public:
  /// `asked` is PEAL_GDRCOPY: "auto", "off", or the path of libgdrapi. Tries it on memory of its
  /// own; what does not work is no error. Nothing is tried for "off".
  HostAccess(const Gpu& gpu, const std::string& asked);

  /// The view of an allocation that outlives it; null: by streams only.
  std::unique_ptr<const HostView> view_of(const Gpu& gpu, std::byte* begin, size_t bytes) const;

  /// "host words by GDRCopy 2.6, mapped write-combining", or why by a stream, for people.
  std::string describe() const;

 private:
  std::shared_ptr<gdrcopy::Session> session_;
  std::string how_;
};

}  // namespace peal

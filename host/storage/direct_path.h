// SPDX-License-Identifier: Apache-2.0
//
// Transfers between files and a GPU's memory by libcufile. It may refuse at any point; then the
// whole transfer goes by POSIX, and describe() says why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "host/memory/gpu.h"
#include "host/storage/cufile.h"
#include "host/storage/file.h"

namespace peal::storage {

/// A range of this PE's memory.
struct MemoryRange {
  std::byte* address;
  size_t bytes;
  bool on_gpu = false;  // the host cannot load and store it
  /// What it is part of (heap, window) and may be registered as a whole; null: itself. It stays
  /// until forget(), or as long as the engine.
  std::byte* whole = nullptr;
  size_t whole_bytes = 0;
};

/// GPUDirect Storage on one GPU.
class DirectPath {
 public:
  /// `setting` is PEAL_CUFILE. `gpu` null: there is nothing to do.
  DirectPath(const std::string& setting, std::shared_ptr<Gpu> gpu);
  ~DirectPath();
  DirectPath(const DirectPath&) = delete;
  DirectPath& operator=(const DirectPath&) = delete;

  struct Transfer {
    const File& file;
    uint64_t offset;
    const MemoryRange& memory;
    bool reading;
    size_t piece_bytes;
    size_t threads;
  };

  /// True when all is done. False: the library does not do it; what it moved so far is to be moved
  /// again.
  bool move(const Transfer& transfer);

  /// Ends the registration of what begins there.
  void forget(const std::byte* whole);

  std::string describe() const;

 private:
  struct Registered {
    size_t bytes;
    std::string why_not;  // empty: it is
  };
  /// Registers the whole of it, where the library takes it.
  void prepare(const MemoryRange& memory);
  void release(const std::byte* base, const Registered& registered);
  std::string move_pieces(const Transfer& transfer, const cufile::FileHandle& handle) const;

  std::shared_ptr<Gpu> gpu_;
  std::shared_ptr<const cufile::CufileLibrary> library_;
  std::string why_not_;  // the last refusal; of the library, if it is null
  mutable std::mutex mutex_;
  std::map<const std::byte*, Registered> registered_;  // by where it begins, under the lock
};

}  // namespace peal::storage

// SPDX-License-Identifier: Apache-2.0
//
// Memory that a heap or a queue lies in, owned. Where it comes from (host pages now, GPU memory
// with a transport that has a GPU) is known only to the factory that filled in the Operations.
#pragma once

#include <cstddef>
#include <string>

namespace peal {

/// Owns one contiguous range that begins at a multiple of kAlignment. Move-only; the destructor
/// releases it.
class Backing {
 public:
  static constexpr size_t kAlignment = 2u << 20;  // a huge page; what cuMemCreate deals in too

  struct Block {
    std::byte* address = nullptr;
    size_t bytes = 0;
    int fd = -1;                  // maps the same pages in another process; -1 = cannot
    bool host_accessible = true;  // false: only a GPU may load and store
  };

  /// What differs from one kind of memory to another.
  struct Operations {
    void (*release)(const Block& block) noexcept;
    void (*zero)(std::byte* address, size_t bytes);  // complete on return
  };

  Backing(const Block& block, const Operations& operations)
      : block_(block), operations_(&operations) {}
  ~Backing() { reset(); }
  Backing(Backing&& other) noexcept;
  Backing& operator=(Backing&& other) noexcept;

  std::byte* address() const { return block_.address; }
  size_t bytes() const { return block_.bytes; }
  int fd() const { return block_.fd; }
  bool host_accessible() const { return block_.host_accessible; }

  /// Sets [offset, offset + bytes) to zero; done when it returns. Throws kInvalidArgument when the
  /// range is not inside.
  void zero(size_t offset, size_t bytes);

 private:
  void reset() noexcept;

  Block block_;
  const Operations* operations_;  // of static storage: one per kind
};

/// Zeroed host pages in a memfd called `name` (as /proc/PID/maps shows it), rounded up to whole
/// pages. Throws kInvalidArgument for 0 bytes, kOutOfMemory (naming size and remedy) when there is
/// not that much. Pages are taken when first touched: another program may still exhaust the
/// machine.
Backing make_host_backing(size_t bytes, const std::string& name);

}  // namespace peal

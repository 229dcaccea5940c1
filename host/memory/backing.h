// SPDX-License-Identifier: Apache-2.0
//
// Memory that a heap, a table or a queue lies in, owned. Where it comes from (host pages here, a
// GPU's memory in backing_cuda.h) is known only to the factory that filled in the Operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace peal {

class HostView;

/// Bytes to be copied, between host and GPU memory in any direction.
struct Copy {
  void* to;
  const void* from;
  size_t bytes;
};

/// Owns one contiguous range that begins at a multiple of kAlignment, unless its factory says
/// otherwise. Move-only; the destructor releases it.
class Backing {
 public:
  static constexpr size_t kAlignment = 2u << 20;  // a huge page, on hosts and GPUs

  struct Block {
    std::byte* address = nullptr;
    size_t bytes = 0;
    int fd = -1;                             // maps the same pages in another process; -1 = cannot
    bool host_accessible = true;             // false: only a GPU may load and store
    std::shared_ptr<void> keeper = nullptr;  // what the operations need, such as the GPU
    std::shared_ptr<const HostView> view = nullptr;  // by which the host reaches words of a GPU's
  };

  /// What differs from one kind of memory to another. `zero` and `copy` are for memory that the
  /// host cannot access; they are complete on return and never wait for a running kernel.
  struct Operations {
    void (*release)(const Block& block) noexcept;
    void (*zero)(const Block& block, std::byte* address, size_t bytes) = nullptr;
    void (*copy)(const Block& block, std::span<const Copy> copies) = nullptr;  // in this order
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

  /// True where the calls below load and store by themselves: no stream, no device is asked.
  bool reaches(const void* at, size_t bytes) const;

  /// Sets [offset, offset + bytes) to zero. Throws kInvalidArgument when the range is not inside.
  void zero(size_t offset, size_t bytes);

  /// Copies between host memory and memory of this kind: here or elsewhere, a GPU's for a GPU's.
  void copy_in(void* to, const void* from, size_t bytes) const { copy(to, from, bytes); }
  void copy_out(void* to, const void* from, size_t bytes) const { copy(to, from, bytes); }

  /// Reads and writes one word that kernels use at the same time: whole, and after (write) or
  /// before (read) everything copied with the calls above.
  uint32_t load_word(const uint32_t* word) const;
  uint64_t load_word(const uint64_t* word) const;
  /// Several 8-byte words that kernels change meanwhile: each is whole, and read before those in
  /// front of it.
  void load_words(uint64_t* to, const uint64_t* from, size_t count) const;
  void store_word(uint32_t* word, uint32_t value) const;
  void store_word(uint64_t* word, uint64_t value) const;
  /// Several 8-byte words that kernels read meanwhile: each is whole, and written after those in
  /// front of it.
  void store_words(uint64_t* to, const uint64_t* from, size_t count) const;
  /// The same of many, from host memory: each is written after those in front of it. What is not
  /// made of whole 8-byte words is written by words of 4 bytes.
  void store_in_order(std::span<const Copy> stores) const;

 private:
  template <class Word>
  Word load(const Word* word) const;
  template <class Word>
  void store(Word* word, Word value) const;
  void reset() noexcept;
  void copy(void* to, const void* from, size_t bytes) const;
  void copy_by_stream(void* to, const void* from, size_t bytes) const;

  Block block_;
  const Operations* operations_;  // of static storage: one per kind
};

/// Zeroed host pages in a memfd called `name` (as /proc/PID/maps shows it), rounded up to whole
/// pages. Throws kInvalidArgument for 0 bytes, kOutOfMemory (naming size and remedy) when there is
/// not that much. Pages are taken when first touched: another program may still exhaust the
/// machine.
Backing make_host_backing(size_t bytes, const std::string& name);

}  // namespace peal

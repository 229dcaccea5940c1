// SPDX-License-Identifier: Apache-2.0
//
// Memory of all PEs in one file, saved and loaded together. A failure on one PE is a failure of
// all: then the file of before is as it was.
//
//   PE 0   make PATH.partial | write part, sums, fsync | write header, fsync, rename
//   PE 1   open what PE 0    | write part, sums, fsync |
//          made              |                         |
// What a killed saver has left in PATH.partial is compared with what is to be saved, from the
// beginning of each part: what is there already is not written again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "host/bootstrap.h"
#include "host/storage/engine.h"
#include "host/storage/file.h"

namespace peal::storage {

/// Collective; all PEs name the same path and as many bytes. Throws on all PEs: kInvalidArgument
/// where they differ or `path` cannot be written, kConfiguration where they do not see one file
/// system, kSystem where a disk fails or is full. Memory must not change meanwhile.
void save_checkpoint(Engine& engine, Bootstrap& group, const std::string& path,
                     const MemoryRange& from);

/// Collective; fills `to` with what this PE saved. Throws on all PEs: kInvalidArgument for what is
/// no checkpoint, one of another number of PEs or bytes, one that was cut short, and where PEs see
/// different ones; kSystem for a damaged one, naming PE and bytes. Memory is undefined then.
void load_checkpoint(Engine& engine, Bootstrap& group, const std::string& path,
                     const MemoryRange& to);

// How it lies in the file. Numbers are little-endian; every part begins at a block.
//
//   | header | part of PE 0 | ... | part of PE n-1 | sums of PE 0 | ... | sums of PE n-1 |
//
// A part is padded to a block. The sums of a PE are one XXH3 of 64 bits for each piece of its part,
// and one more of those; they are padded to a block too. The header is written last: a file
// without it is none.

/// What the file begins with. Written out as it lies in memory.
struct CheckpointHeader {
  static constexpr std::array<char, 8> kMagic = {'p', 'e', 'a', 'l', ' ', 'c', 'k', 'p'};
  static constexpr uint32_t kVersion = 1;

  std::array<char, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t n_pes = 0;
  uint64_t part_bytes = 0;             // of each PE
  uint64_t piece_bytes = 0;            // which have a sum each
  std::array<uint64_t, 2> saved = {};  // random: tells one save from another
  uint64_t sum = 0;                    // XXH3 of what is in front of it

  bool operator==(const CheckpointHeader&) const = default;
};
static_assert(sizeof(CheckpointHeader) == 56);

/// Where things lie in a file with such a header.
class CheckpointLayout {
 public:
  explicit CheckpointLayout(const CheckpointHeader& header);

  uint64_t part(int pe) const { return kBlock + index(pe) * part_; }
  uint64_t sums(int pe) const { return kBlock + n_pes_ * part_ + index(pe) * sums_; }
  size_t pieces() const { return pieces_; }
  uint64_t file_bytes() const { return sums(static_cast<int>(n_pes_)); }

 private:
  static uint64_t index(int pe) { return static_cast<uint64_t>(pe); }
  uint64_t n_pes_;
  uint64_t part_;  // padded
  uint64_t sums_;  // padded
  size_t pieces_;
};

/// The header's `sum`.
uint64_t sum_of(const CheckpointHeader& header);

/// The sum of a piece takes in its `offset` in the file, so that pieces in each other's place are
/// noticed.
uint64_t sum_of_piece(std::span<const std::byte> piece, uint64_t offset);

/// The sum over the sums of one PE's pieces.
uint64_t sum_of_sums(std::span<const uint64_t> sums, int pe);

/// The header of an open file. Throws kInvalidArgument where the file is no checkpoint, is one of
/// another version, is damaged there or was cut short.
CheckpointHeader read_header(File& file);

}  // namespace peal::storage

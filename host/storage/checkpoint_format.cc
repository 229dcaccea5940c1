// SPDX-License-Identifier: Apache-2.0
#include "host/storage/checkpoint_format.h"

#include <bit>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "host/base/error.h"
#include "host/storage/engine.h"

namespace peal::storage {
namespace {

static_assert(std::endian::native == std::endian::little);

// Larger numbers are damage or malice; their products would overflow.
constexpr uint64_t kMaxPart = uint64_t{1} << 44;
constexpr uint32_t kMaxPes = 1u << 18;

uint64_t padded(uint64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

bool possible(const CheckpointHeader& header) {
  return header.n_pes >= 1 && header.n_pes <= kMaxPes && header.part_bytes <= kMaxPart &&
         header.piece_bytes >= kBlock && header.piece_bytes <= kMaxPiece &&
         header.piece_bytes % kBlock == 0;
}

}  // namespace

CheckpointLayout::CheckpointLayout(const CheckpointHeader& header)
    : n_pes_(header.n_pes),
      part_(padded(header.part_bytes)),
      pieces_(
          static_cast<size_t>((header.part_bytes + header.piece_bytes - 1) / header.piece_bytes)) {
  sums_ = padded((pieces_ + 1) * sizeof(uint64_t));
}

uint64_t sum_of(const CheckpointHeader& header) {
  return XXH3_64bits(&header, offsetof(CheckpointHeader, sum));
}

uint64_t sum_of_piece(std::span<const std::byte> piece, uint64_t offset) {
  return XXH3_64bits_withSeed(piece.data(), piece.size(), offset);
}

uint64_t sum_of_sums(std::span<const uint64_t> sums, int pe) {
  return XXH3_64bits_withSeed(sums.data(), sums.size_bytes(), static_cast<uint64_t>(pe));
}

CheckpointHeader read_header(File& file) {
  const std::string& path = file.path();
  CheckpointHeader header;
  const uint64_t there = file.bytes();
  if (there < kBlock) {
    fail(ErrorCode::kInvalidArgument, "{} is no checkpoint: it has {} bytes", path, there);
  }
  file.read(0, reinterpret_cast<std::byte*>(&header), sizeof(header));
  if (header.magic != CheckpointHeader::kMagic) {
    fail(ErrorCode::kInvalidArgument, "{} is no checkpoint: it does not begin like one", path);
  }
  if (header.version != CheckpointHeader::kVersion) {
    fail(
        ErrorCode::kInvalidArgument,
        "{} is a checkpoint of version {}, this is version {}: load it with the peal that saved it",
        path, header.version, CheckpointHeader::kVersion);
  }
  if (header.sum != sum_of(header) || !possible(header)) {
    fail(ErrorCode::kInvalidArgument, "{}: bytes 0 to {} (the header) are damaged", path,
         sizeof(header) - 1);
  }
  const uint64_t whole = CheckpointLayout(header).file_bytes();
  if (there < whole) {
    fail(ErrorCode::kInvalidArgument, "{} was cut short: it has {} of {} bytes", path, there,
         whole);
  }
  return header;
}

}  // namespace peal::storage

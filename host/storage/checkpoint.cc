// SPDX-License-Identifier: Apache-2.0
#include "host/storage/checkpoint.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <mutex>
#include <optional>
#include <random>
#include <vector>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "host/base/error.h"
#include "host/job/together.h"
#include "host/storage/engine.h"
#include "host/storage/replacement.h"

namespace peal::storage {
namespace {

// What a PE asks, as it travels.
struct Request {
  uint64_t bytes;
  uint64_t path;  // its sum
  uint64_t piece_bytes;
};

uint64_t sum_of_text(const std::string& text) {
  return sum_of_piece(std::as_bytes(std::span(text)), 0);
}

/// Throws on all PEs unless all ask alike.
Request agree(Engine& engine, Bootstrap& group, const char* call, const std::string& path,
              const MemoryRange& memory) {
  const auto all = gather_together(group, [&] {
    return Request{memory.bytes, sum_of_text(path), engine.options().piece_bytes};
  });
  for (size_t pe = 1; pe < all.size(); ++pe) {
    if (all[pe].path != all[0].path) {
      fail(ErrorCode::kInvalidArgument, "{}: PE {} names another path than PE 0", call, pe);
    }
    if (all[pe].bytes != all[0].bytes) {
      fail(ErrorCode::kInvalidArgument, "{} {}: PE {} has {} bytes and PE 0 {}: as many on all PEs",
           call, path, pe, all[pe].bytes, all[0].bytes);
    }
  }
  return all[0];
}

std::array<uint64_t, 2> random_name() {
  std::random_device random;
  const auto word = [&] { return uint64_t{random()} << 32 | random(); };
  return {word(), word()};
}

using Block = std::array<std::byte, kBlock>;

/// A block at the file's beginning that no reader takes for a header, and that tells this save's
/// file from another of the same name.
void write_name(File& file, const std::array<uint64_t, 2>& name) {
  Block block = {};
  std::memcpy(block.data() + sizeof(CheckpointHeader), name.data(), sizeof(name));
  file.write(0, block.data(), block.size());
  file.sync();
}

void write_header(File& file, const CheckpointHeader& header) {
  Block block = {};
  std::memcpy(block.data(), &header, sizeof(header));
  file.write(0, block.data(), block.size());
}

/// Opens the file that PE 0 made.
void open_made(std::optional<File>& file, Engine& engine, const std::string& partial,
               const std::array<uint64_t, 2>& name) {
  std::array<uint64_t, 2> there = {};
  std::string cause = "another file is there";
  try {
    file.emplace(engine.calls(), partial, File::Use::kWrite, engine.options().direct);
    file->read(sizeof(CheckpointHeader), reinterpret_cast<std::byte*>(there.data()), sizeof(there));
  } catch (const Error& error) {
    cause = error.what();
  }
  if (there == name) return;
  fail(ErrorCode::kConfiguration,
       "save_checkpoint: this PE does not see {} as PE 0 has made it ({}): choose a path, an "
       "absolute one, on a file system that all hosts share",
       partial, cause);
}

void write_part(Engine& engine, File& file, const CheckpointHeader& header, int pe,
                const MemoryRange& from) {
  const CheckpointLayout layout(header);
  std::vector<uint64_t> sums(layout.pieces() + 1);
  const uint64_t begin = layout.part(pe);
  engine.write({file, begin, from, static_cast<size_t>(header.piece_bytes),
                [&](const FileRange& piece, std::span<const std::byte> bytes) {
                  sums[piece.index] = sum_of_piece(bytes, begin + piece.at);
                },
                true});
  sums.back() = sum_of_sums(std::span(sums).first(layout.pieces()), pe);
  const auto bytes = std::as_bytes(std::span(sums));
  file.write(layout.sums(pe), bytes.data(), bytes.size());
  file.sync();
}

std::vector<uint64_t> read_sums(File& file, const CheckpointLayout& layout, int pe) {
  std::vector<uint64_t> sums(layout.pieces() + 1);
  const auto bytes = std::as_writable_bytes(std::span(sums));
  file.read(layout.sums(pe), bytes.data(), bytes.size());
  const uint64_t told = sums.back();
  sums.pop_back();
  if (told != sum_of_sums(sums, pe)) {
    fail(ErrorCode::kSystem,
         "{}: the checksums of PE {} (bytes {} to {} of the file) are damaged: load another "
         "checkpoint",
         file.path(), pe, layout.sums(pe), layout.sums(pe) + bytes.size() - 1);
  }
  return sums;
}

void read_part(Engine& engine, File& file, const CheckpointHeader& header, int pe,
               const MemoryRange& to) {
  const CheckpointLayout layout(header);
  const std::vector<uint64_t> sums = read_sums(file, layout, pe);
  const uint64_t begin = layout.part(pe);
  std::mutex mutex;
  std::vector<FileRange> damaged;
  engine.read({file, begin, to, static_cast<size_t>(header.piece_bytes),
               [&](const FileRange& piece, std::span<const std::byte> bytes) {
                 if (sum_of_piece(bytes, begin + piece.at) == sums[piece.index]) return;
                 const std::lock_guard lock(mutex);
                 damaged.push_back(piece);
               }});
  if (damaged.empty()) return;
  const FileRange first = *std::ranges::min_element(damaged, {}, &FileRange::index);
  fail(ErrorCode::kSystem,
       "{}: the part of PE {} is damaged in {} of {} pieces, first in its bytes {} to {} (from "
       "offset {} of the file): load another checkpoint",
       file.path(), pe, damaged.size(), layout.pieces(), first.at, first.at + first.bytes - 1,
       begin + first.at);
}

/// What PE 0 goes by, which was checked for this job.
CheckpointHeader open_saved(std::optional<File>& file, Engine& engine, Bootstrap& group,
                            const std::string& path, const MemoryRange& to) {
  file.emplace(engine.calls(), path, File::Use::kRead, engine.options().direct);
  const CheckpointHeader header = read_header(*file);
  if (header.n_pes != static_cast<uint32_t>(group.size())) {
    fail(ErrorCode::kInvalidArgument,
         "load_checkpoint of {}: {} PEs saved it and this job has {}: start {} PEs", path,
         header.n_pes, group.size(), header.n_pes);
  }
  if (header.part_bytes != to.bytes) {
    fail(ErrorCode::kInvalidArgument,
         "load_checkpoint of {}: each PE saved {} bytes, {} are asked: ask for as many", path,
         header.part_bytes, to.bytes);
  }
  return header;
}

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

void save_checkpoint(Engine& engine, Bootstrap& group, const std::string& path,
                     const MemoryRange& from) {
  const Request request = agree(engine, group, "save_checkpoint", path, from);
  const int me = group.rank();
  std::optional<Replacement> replacement;  // PE 0's
  std::optional<File> opened;              // the others'
  const CheckpointHeader header = gather_together(group, [&] {
    CheckpointHeader made;
    if (me != 0) return made;
    made.n_pes = static_cast<uint32_t>(group.size());
    made.part_bytes = request.bytes;
    made.piece_bytes = request.piece_bytes;
    made.saved = random_name();
    made.sum = sum_of(made);
    replacement.emplace(engine.calls(), path, engine.options().direct, Replacement::Left::kKept);
    replacement->file().resize(CheckpointLayout(made).file_bytes());
    write_name(replacement->file(), made.saved);
    return made;
  })[0];
  together(group, [&] {
    if (me != 0) open_made(opened, engine, Replacement::partial_of(path), header.saved);
  });
  together(group,
           [&] { write_part(engine, me == 0 ? replacement->file() : *opened, header, me, from); });
  together(group, [&] {
    if (me != 0) return;
    write_header(replacement->file(), header);
    replacement->commit();
  });
}

void load_checkpoint(Engine& engine, Bootstrap& group, const std::string& path,
                     const MemoryRange& to) {
  agree(engine, group, "load_checkpoint", path, to);
  std::optional<File> file;
  const auto headers =
      gather_together(group, [&] { return open_saved(file, engine, group, path, to); });
  for (size_t pe = 1; pe < headers.size(); ++pe) {
    if (headers[pe] == headers[0]) continue;
    fail(
        ErrorCode::kInvalidArgument,
        "load_checkpoint of {}: PE {} finds another checkpoint there than PE 0: choose a path on a "
        "file system that all hosts share, or copy one checkpoint to all",
        path, pe);
  }
  together(group, [&] { read_part(engine, *file, headers[0], group.rank(), to); });
}

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

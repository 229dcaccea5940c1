// SPDX-License-Identifier: Apache-2.0
#include "simt/simulation/announced.h"

#include <cstring>

namespace peal::simt {
namespace {

MemoryOrder order_of(int order) {
  switch (order) {
    case __ATOMIC_RELAXED:
      return MemoryOrder::kRelaxed;
    case __ATOMIC_CONSUME:
    case __ATOMIC_ACQUIRE:
      return MemoryOrder::kAcquire;
    case __ATOMIC_RELEASE:
      return MemoryOrder::kRelease;
    default:
      return MemoryOrder::kBoth;
  }
}

// How far a plain access reaches, and an atomic one. Compilers say nothing of CUDA's scopes.
ModelAccess how(const PlainAccess& access) {
  if (!access.atomic) return {Scope::kLane, MemoryOrder::kRelaxed};
  return {Scope::kSystem, order_of(access.order)};
}

uint64_t read(const std::byte* from, unsigned bytes) {
  uint64_t value = 0;
  std::memcpy(&value, from, bytes);
  return value;
}

// Calls visit(start, bytes) for aligned words of up to 8 bytes that make up a range.
template <class Visit>
void for_each_word(const void* start, size_t bytes, const Visit& visit) {
  auto* at = static_cast<std::byte*>(const_cast<void*>(start));
  while (bytes != 0) {
    size_t piece = 8;
    while (piece > bytes || reinterpret_cast<uintptr_t>(at) % piece != 0) piece /= 2;
    visit(at, static_cast<unsigned>(piece));
    at += piece;
    bytes -= piece;
  }
}

}  // namespace

void Announced::take(uint64_t me, const PlainAccess& access) {
  if (access.address == nullptr) {
    code_ = access.pc;
    memory_.fence(me, order_of(access.order));
    code_ = nullptr;
    return;
  }
  if (access.write) {
    writer_ = me;
    return take_store(access);
  }
  take_load(me, access);
}

void Announced::take_load(uint64_t me, const PlainAccess& access) {
  code_ = access.pc;
  for_each_word(access.address, access.bytes, [&](std::byte* start, unsigned bytes) {
    if (!memory_.holds(start)) return;
    // An atomic load is announced when it has been made: it has read the newest.
    if (access.atomic) {
      memory_.newest(me, start, bytes, how(access));
      return;
    }
    const uint64_t newest = read(start, bytes);
    const uint64_t value = memory_.load(me, start, bytes, how(access));
    if (value == newest) return;
    loads_.push_back({start, bytes, newest});
    loads_.back().value = value;
  });
  // Only now: the model takes what memory holds for the newest.
  for (Piece& piece : loads_) {
    const uint64_t newest = read(piece.start, piece.bytes);
    std::memcpy(piece.start, &piece.value, piece.bytes);
    piece.value = newest;
  }
  code_ = nullptr;
}

void Announced::take_store(const PlainAccess& access) {
  store_ = access;
  for_each_word(access.address, access.bytes, [&](std::byte* start, unsigned bytes) {
    if (memory_.holds(start)) stores_.push_back({start, bytes, read(start, bytes)});
  });
}

// Returns what was stored; memory has again what was there before, for the model compares it with
// what it knows: nobody else may seem to have written.
uint64_t Announced::take_back(const Piece& piece) {
  const uint64_t value = read(piece.start, piece.bytes);
  std::memcpy(piece.start, &piece.value, piece.bytes);
  return value;
}

bool Announced::take_end_of_update(const PlainAccess& access) {
  if (stores_.empty() || access.write || !store_.atomic || access.pc != store_.pc ||
      access.address != store_.address) {
    return false;
  }
  code_ = store_.pc;
  for (const Piece& piece : stores_) {
    const uint64_t value = take_back(piece);
    memory_.newest(writer_, piece.start, piece.bytes, how(store_));
    // A compare-and-swap that failed has stored nothing. Nor counts an exchange for the same value:
    // of a lock that somebody has.
    if (value != piece.value) {
      memory_.replace(writer_, piece.start, piece.bytes, value, how(store_));
    }
  }
  stores_.clear();
  code_ = nullptr;
  return true;
}

void Announced::complete_all() {
  for (const Piece& piece : loads_) std::memcpy(piece.start, &piece.value, piece.bytes);
  loads_.clear();
  code_ = store_.pc;
  for (const Piece& piece : stores_) {
    memory_.store(writer_, piece.start, piece.bytes, take_back(piece), how(store_));
  }
  stores_.clear();
  code_ = nullptr;
}

}  // namespace peal::simt

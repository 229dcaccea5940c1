// SPDX-License-Identifier: Apache-2.0
//
// A kernel's own loads and stores in a simulation. Compilers' hooks announce an access before it is
// made (simt/lanes/plain_access.h), and the machine makes it:
//
//   announced load    the model says which value it answers; an old one lies in memory until the
//                     load has been made
//   announced store   what is found behind it in memory is stored in the model
//
// An access has been made when its lane comes to the simulation again: complete().
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "simt/lanes/plain_access.h"
#include "simt/simulation/memory.h"

namespace peal::simt {

class Announced {
 public:
  explicit Announced(WeakMemory& memory) : memory_(memory) {}

  /// True if the access matters here: a fence, or one that begins in modelled memory.
  bool concerns(const PlainAccess& access) const {
    return access.address == nullptr || memory_.holds(access.address);
  }
  /// Takes an access of agent `me`, which runs. To be called after complete().
  void take(uint64_t me, const PlainAccess& access);
  /// The second half of a read-modify-write, which is announced as a store, made, and announced as
  /// a load: nobody else runs between. False for any other access.
  bool take_end_of_update(const PlainAccess& access);
  /// Where the program is in the access that the model is being told of; null: in none.
  const void* code() const { return code_; }
  /// Tells the model of the accesses that were announced, which have been made since.
  void complete() {
    if (!loads_.empty() || !stores_.empty()) complete_all();
  }

 private:
  struct Piece {
    std::byte* start;
    unsigned bytes;
    uint64_t value;  // of a load: the newest; of a store: what was there before
  };

  void complete_all();
  void take_load(uint64_t me, const PlainAccess& access);
  void take_store(const PlainAccess& access);
  uint64_t take_back(const Piece& piece);

  WeakMemory& memory_;
  std::vector<Piece> loads_;   // that answer old values
  std::vector<Piece> stores_;  // of one access
  const void* code_ = nullptr;
  uint64_t writer_ = 0;
  PlainAccess store_{};  // what the stores are pieces of
};

}  // namespace peal::simt

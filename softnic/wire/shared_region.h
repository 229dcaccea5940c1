// SPDX-License-Identifier: Apache-2.0
//
// Registered memory that the NIC of another process maps for itself, so that what it is sent out of
// it is copied once, by it, and not twice, through the ring.
//
//   requester:  kOffer (a file)  ->  responder:  maps it, kBorrowed  ->  requester: names its bytes
//               kTakeBack        ->              unmaps it               in requests
//
// Only a memfd sealed against shrinking is shared: nobody can cut off what a reader has
// mapped, so a peer stays as harmless as it is with a ring.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/fd.h"
#include "softnic/wire/fabric.h"

namespace peal::softnic {

/// Payload of kOffer: bytes [offset, offset + bytes) of descriptor `fd` of process `pid`.
struct RegionDescriptor {
  uint64_t id;  // never used again by this NIC
  int64_t pid;
  int64_t fd;
  uint64_t device;  // so that no other file is taken for it
  uint64_t inode;
  uint64_t offset;
  uint64_t bytes;
};

/// What follows a request instead of its payload when kInRegion is set.
struct RegionBytes {
  uint64_t id;
  uint64_t at;  // of the offer's bytes
};

/// A registration whose memory the peer can map. Keeps its file open.
class SharedRegion {
 public:
  static constexpr uint32_t kLeastBytes = 8 << 10;  // of a registration, and of a packet

  /// Nothing if the memory is less, or not all in one shared mapping of a memfd that is sealed
  /// against shrinking and that this process has open.
  static std::optional<SharedRegion> of(uint32_t key, const std::byte* memory, uint64_t bytes);

  uint32_t key() const { return key_; }
  uint64_t id() const { return offer_.id; }
  const RegionDescriptor& offer() const { return offer_; }
  /// True if [at, at + bytes) is of this memory, and then where.
  bool covers(const std::byte* at, uint32_t bytes, uint64_t* offset) const;

 private:
  SharedRegion(uint32_t key, const std::byte* memory, const RegionDescriptor& offer)
      : key_(key), memory_(memory), offer_(offer), file_(static_cast<int>(offer.fd)) {}

  uint32_t key_;
  const std::byte* memory_;
  RegionDescriptor offer_;
  Fd file_;
};

/// All regions that a NIC shares. Those that find no room here are sent through the ring.
class SharedRegions {
 public:
  static constexpr uint32_t kMax = 64;  // a bit each

  void add(SharedRegion region);
  /// Calls forget(slot, id) for the region of that key, and forgets it.
  template <class Forget>
  void remove(uint32_t key, const Forget& forget) {
    for (uint32_t slot = 0; slot < kMax; ++slot) {
      if (!region_[slot] || region_[slot]->key() != key) continue;
      forget(slot, region_[slot]->id());
      region_[slot].reset();
    }
  }
  /// Slot of a region with these bytes, or kMax.
  uint32_t find(const std::byte* at, uint32_t bytes, uint64_t* offset);
  /// Slot of region `id`, or kMax.
  uint32_t find(uint64_t id) const;
  const SharedRegion& operator[](uint32_t slot) const { return *region_[slot]; }

 private:
  std::array<std::optional<SharedRegion>, kMax> region_;
  uint32_t last_ = 0;  // where one was found
};

/// What a NIC has mapped of another's memory, to read.
class PeerRegion {
 public:
  /// Nothing if the file cannot be opened here, is not what was offered, or could shrink.
  static std::optional<PeerRegion> open(const RegionDescriptor& offer);

  uint64_t id() const { return offer_.id; }
  /// Null if it reaches beyond what was offered.
  const std::byte* at(uint64_t offset, uint32_t bytes) const;

 private:
  PeerRegion(const RegionDescriptor& offer, Mapping file) : offer_(offer), file_(std::move(file)) {}

  RegionDescriptor offer_;
  Mapping file_;  // from the page on in which the bytes begin
};

}  // namespace peal::softnic

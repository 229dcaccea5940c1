// SPDX-License-Identifier: Apache-2.0
//
// The NICs of one host and user that see each other: a folder with one small file per NIC.
//
//   <dir>/peal-softnic-<uid>/<fabric>/slot-<n>     locked by its owner; LID = n + 1
//                                    /ring-...     a link being set up; unlinked once both have it
//
// The kernel drops a lock when its process dies, so a lock tells who lives, and whoever comes next
// removes what the dead left. A generation (time of the claim) tells two owners of a slot apart.
// Contents of the files are hints from others of the same user: never trusted for memory safety.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "softnic/presentation/settings.h"

namespace peal::softnic {

inline constexpr uint32_t kMaxSlots = 1024;

/// The format of slot pages, links and what travels in them: every change of any takes another
/// number. Files begin with it; those of before there was one count as 1.
inline constexpr uint32_t kFabricFormat = 3;
constexpr uint64_t format_word(uint32_t format) { return 0x7065616c'00000000 | format; }

/// A mapped file, or what of it begins at a page, unmapped with its owner.
class Mapping {
 public:
  Mapping() = default;
  /// `rights` are mmap's. valid() is false when mmap fails.
  Mapping(const Fd& file, size_t bytes, int rights = PROT_READ | PROT_WRITE, uint64_t from = 0);
  ~Mapping() {
    if (memory_ != nullptr) munmap(memory_, bytes_);
  }
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  bool valid() const { return memory_ != nullptr; }
  std::byte* memory() const { return memory_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
};

/// What a NIC shows of its port to those who look for a way to it.
struct PortNotice {
  bool ethernet = false;
  bool active = false;
  uint64_t subnet = 0;  // InfiniBand
  std::vector<GidTableEntry> gids;
};

/// Another NIC's slot file.
struct Peer {
  Fd file;
  Mapping slot;
  uint64_t generation = 0;
  uint32_t stranger = 0;  // its kFabricFormat, of a NIC that lives and is not found for that
  int error = 0;          // why it could not be looked at; nothing is known of it then
  bool found() const { return generation != 0; }
};

class Fabric {
 public:
  /// Claims the first free slot and removes what dead processes left. Throws std::system_error
  /// naming the file.
  explicit Fabric(const Settings& settings);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  uint16_t lid() const { return static_cast<uint16_t>(slot_ + 1); }
  uint64_t generation() const { return generation_; }
  uint64_t guid() const;
  /// Where the files of the fabric lie.
  const std::string& directory() const { return directory_; }
  /// Which folder that is, whatever its name: the same for all NICs of the fabric, and for no
  /// others. One name leads to another folder in another container, or on another host.
  uint64_t identity() const { return identity_; }

  /// The living NIC at `lid`, if there is one that keeps its files as this one does.
  Peer find(uint16_t lid) const;
  /// Throws std::runtime_error, naming both formats, when the NIC at `lid` keeps its files
  /// otherwise.
  void refuse_stranger(uint16_t lid) const;
  /// Shows this NIC's port to the others. Call it once.
  void announce(const PortNotice& port) const;
  /// What `peer` has announced; nothing that is active before it has.
  static PortNotice notice_of(const Peer& peer);
  /// LIDs of the living NICs, in no order.
  std::vector<uint16_t> members() const;
  /// False once the NIC behind `peer` has closed or its process has died.
  bool alive(const Peer& peer) const;

  /// Creates the file of a link from this NIC to `lid` and maps it. Not valid where that fails, and
  /// errno tells.
  Mapping create_ring(uint16_t lid, uint64_t generation, size_t bytes) const;
  /// Opens the file that the NIC at `lid` created for a link to this one. Not valid when there is
  /// none or it does not look like one; errno tells.
  Mapping open_ring(uint16_t lid, uint64_t generation) const;
  /// Removes the name of either; missing is fine.
  void unlink_created_ring(uint16_t lid, uint64_t generation) const;
  void unlink_opened_ring(uint16_t lid, uint64_t generation) const;

  /// Tells `peer` that this NIC has created a link to it.
  void knock(const Peer& peer) const;
  /// LIDs that have knocked since the last call.
  std::vector<uint16_t> knocks();

  /// Tells the NIC at `lid` that this one cannot take its link, and the errno of it. Until it
  /// knocks again.
  void refuse(uint16_t lid, int error) const;
  /// What `peer` has told this NIC so; 0: nothing.
  int refused_by(const Peer& peer) const;

  /// What could not be done, why, and `more`: a line on standard error, unless the last one had the
  /// same errno, and for whoever asks trouble().
  void report(const std::string& what, int error, const std::string& more) const;
  /// The last one; "" while all is well.
  std::string trouble() const {
    const std::lock_guard lock(mutex_);
    return trouble_;
  }

 private:
  struct SlotPage;

  std::string slot_path(uint32_t slot) const;
  std::string ring_path(uint16_t from, uint64_t from_generation, uint16_t to,
                        uint64_t to_generation) const;
  void make_directories() const;
  void remove_stale() const;
  bool claim(uint32_t slot);
  [[noreturn]] void fail(const std::string& what) const;

  std::string root_;
  std::string directory_;
  uint32_t slot_ = 0;
  uint64_t generation_ = 0;
  uint64_t identity_ = 0;
  uint64_t knocks_seen_ = 0;
  Fd file_;  // locked
  Mapping page_;
  int owner_;

  mutable std::mutex mutex_;  // guards what follows
  mutable std::string trouble_;
  mutable int reported_ = 0;  // errno
};

}  // namespace peal::softnic

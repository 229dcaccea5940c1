// SPDX-License-Identifier: Apache-2.0
//
// A file that takes the place of another at once, or not at all.
//
//   PATH.partial  made, locked, written, fsync  ->  rename to PATH  ->  fsync of the folder
//
// Whoever opens PATH finds the old bytes or the new ones, also after a power cut. A writer that is
// killed leaves PATH.partial and no lock: the next one takes it over. A link there, or another
// user's file, is none that a writer has left: it is removed, and what it leads to is as it was.
#pragma once

#include <optional>
#include <string>

#include "host/storage/file.h"

namespace peal::storage {

/// PATH.partial, until commit() makes it PATH. The destructor removes what was not committed.
class Replacement {
 public:
  static std::string partial_of(const std::string& path) { return path + ".partial"; }

  /// What a killed writer has left in its .partial.
  enum class Left { kRemoved, kKept };

  /// Makes or takes over `path`.partial, empty or as it was left, with the rights of the file at
  /// `path` if there is one. Throws kInvalidArgument where `path` cannot be written or another
  /// process is writing its .partial at this moment, kSystem for other failures. A symbolic link at
  /// `path` would be replaced by the file, not followed. File systems without flock go without the
  /// lock.
  Replacement(const SystemCalls& calls, std::string path, bool direct, Left left = Left::kRemoved);
  ~Replacement();
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  File& file() { return *file_; }

  /// Puts it on the disk and in place of `path`. Throws kSystem; then the old file is as it was,
  /// unless the text says that only the folder could not be written to the disk.
  void commit();

 private:
  bool take(bool direct);
  bool is_there() const;
  void remove_other() const;
  void sync_folder() const;

  const SystemCalls& calls_;
  const std::string path_;
  const std::string partial_;
  std::optional<File> file_;
  bool committed_ = false;
};

}  // namespace peal::storage

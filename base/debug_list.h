// SPDX-License-Identifier: Apache-2.0
//
// Live objects of one kind, and where their fields are, for a debugger: programs are stripped, so
// the debugger's script (simt/gdb) knows these four structs and reads all else by them.
//
//   DebugList --first--> DebugItem --next--> DebugItem         each with its object
//       `---types--> DebugType, DebugType, ...                 name, size, fields
//
// Invariant: an object is in the list while its item lives. A debugger reads without the lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

namespace peal {

/// A field at `offset`, or a name of the number `offset`. A null name ends a table.
struct DebugField {
  const char* name;
  uint64_t offset;
  uint64_t bytes;
};

/// A null name ends a table.
struct DebugType {
  const char* name;
  uint64_t bytes;
  const DebugField* fields;
};

class DebugItem;

struct DebugList {
  const DebugType* types;
  DebugItem* first = nullptr;
  std::mutex mutex = {};
};

#define PEAL_DEBUG_FIELD(type, field) \
  { #field, offsetof(type, field), sizeof(type::field) }

/// Keeps `object` in `list`.
class DebugItem {
 public:
  DebugItem(DebugList& list, const void* object) : object_(object), list_(list) {
    const std::lock_guard lock(list.mutex);
    next_ = list.first;
    if (next_ != nullptr) next_->before_ = this;
    list.first = this;
  }
  ~DebugItem() {
    const std::lock_guard lock(list_.mutex);
    (before_ == nullptr ? list_.first : before_->next_) = next_;
    if (next_ != nullptr) next_->before_ = before_;
  }
  DebugItem(const DebugItem&) = delete;
  DebugItem& operator=(const DebugItem&) = delete;

 private:
  [[maybe_unused]] const void* object_;  // the first two are what the script reads
  DebugItem* next_ = nullptr;
  DebugItem* before_ = nullptr;
  DebugList& list_;
};

}  // namespace peal

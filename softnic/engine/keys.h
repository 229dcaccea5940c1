// SPDX-License-Identifier: Apache-2.0
//
// Keys at every access: may one, and where in memory is it.
//
//   direct     address - iova -> memory
//   indirect   address - iova -> entry, by its upper bits -> address of the entry + the lower bits
//              -> direct key of the entry, which must grant the same -> memory
//
// So an indirect key's bytes lie in runs, of which each is checked when it is touched: keys of
// entries may go at any time. The engine on a GPU has no indirect keys.
#pragma once

#include <cstddef>
#include <cstdint>

#include "softnic/engine/objects.h"
#include "softnic/engine/packet.h"

namespace peal::softnic {

// Of an entry of an indirect key. A card's may be smaller; no client of those known wants that.
inline constexpr uint32_t kLogLeastEntity = 12;
inline constexpr uint32_t kLogMostEntity = 31;

/// The key, or null. `number` is compared whole: a freed and reused index has another variant.
PEAL_HD const Key* find_key(const Key* keys, uint32_t count, uint32_t number) {
  const uint32_t index = number >> 8;
  if (index >= count) return nullptr;
  const Key& key = keys[index];
  return key.number == number && number != 0 ? &key : nullptr;
}
PEAL_HD const Key* find_key(const Port& port, uint32_t number) {
  return find_key(port.keys, port.key_count, number);
}

/// The key is of that domain and grants all of `access`; false for none.
PEAL_HD bool grants(const Key* key, uint32_t pd, uint32_t access) {
  return key != nullptr && key->pd == pd && !key->lost && (key->access & access) == access;
}

PEAL_HD bool is_indirect(const Key& key) { return kIndirectKeys && key.entries != nullptr; }

/// All of [address, address + bytes) is among the key's addresses.
PEAL_HD bool covers(const Key& key, uint64_t address, uint64_t bytes) {
  const uint64_t offset = address - key.iova;  // wraps to huge when below
  return offset <= key.bytes && bytes <= key.bytes - offset;
}

/// Where [address, address + bytes) of a direct key lies in memory; null when not all of it is
/// covered.
PEAL_HD std::byte* locate(const Key& key, uint64_t address, uint64_t bytes) {
  return covers(key, address, bytes) ? key.memory + (address - key.iova) : nullptr;
}

/// Bytes that lie side by side in memory; null where nothing is granted.
struct MemoryRun {
  std::byte* memory = nullptr;
  uint64_t bytes = 0;
};

/// What is asked of a key, which grants it: all of it must be covered, whatever part is touched.
struct KeySpan {
  uint64_t address;
  uint64_t bytes;
  uint32_t access;
};

/// The run of an indirect key that begins `inside` bytes into the span.
PEAL_HD MemoryRun run_of_entry(const Port& port, const Key& key, const KeySpan& span,
                               uint64_t inside) {
  if (!covers(key, span.address, span.bytes) || inside >= span.bytes) return {};
  const uint64_t entity = uint64_t{1} << key.log_entity;
  const uint64_t offset = span.address - key.iova + inside;
  const KeyEntry& entry = key.entries[offset >> key.log_entity];
  const uint64_t into = offset & (entity - 1);
  const uint64_t left = span.bytes - inside;
  const uint64_t bytes = left < entity - into ? left : entity - into;
  const Key* const below = find_key(port, entry.number);
  if (!grants(below, key.pd, span.access) || is_indirect(*below)) return {};
  std::byte* const memory = locate(*below, entry.address + into, bytes);
  return memory == nullptr ? MemoryRun{} : MemoryRun{memory, bytes};
}

/// The run that begins `inside` bytes into the span; of a direct key all the rest.
PEAL_HD MemoryRun run_of(const Port& port, const Key& key, const KeySpan& span, uint64_t inside) {
  if (is_indirect(key)) return run_of_entry(port, key, span, inside);
  std::byte* const memory = locate(key, span.address, span.bytes);
  return memory == nullptr ? MemoryRun{} : MemoryRun{memory + inside, span.bytes - inside};
}

/// Calls `visit` with each run of the span from `inside` bytes on, until it has had `bytes`; false
/// at the first that is not granted.
template <class Visit>
PEAL_HD bool each_run(const Port& port, const Key& key, const KeySpan& span, uint64_t inside,
                      uint64_t bytes, const Visit& visit) {
  while (bytes > 0) {
    MemoryRun run = run_of(port, key, span, inside);
    if (run.memory == nullptr || run.bytes == 0) return false;
    if (run.bytes > bytes) run.bytes = bytes;
    visit(run);
    inside += run.bytes;
    bytes -= run.bytes;
  }
  return true;
}

/// Every byte of the span is granted.
PEAL_HD bool reaches(const Port& port, const Key& key, const KeySpan& span) {
  if (!is_indirect(key)) return locate(key, span.address, span.bytes) != nullptr;
  return each_run(port, key, span, 0, span.bytes, [](const MemoryRun&) {});
}

}  // namespace peal::softnic

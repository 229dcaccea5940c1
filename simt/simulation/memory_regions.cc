// SPDX-License-Identifier: Apache-2.0
//
// Which memory is modelled, and what it is called.
#include <cstdlib>
#include <new>

#include "simt/lanes/launch.h"
#include "simt/simulation/memory.h"

namespace peal::simt {

void* WeakMemory::allocate(size_t bytes, const std::string& name, size_t align) {
  const auto at = static_cast<size_t>(free_ - base_);
  const size_t start = (at + align - 1) / align * align;
  if (start + bytes > static_cast<size_t>(end_ - base_)) {
    throw LaneError("simulation: no room for '" + name + "', " + std::to_string(bytes) +
                    " bytes; give the simulation more memory");
  }
  free_ = base_ + start + bytes;
  names_[base_ + start] = name;
  return base_ + start;
}

void WeakMemory::adopt(void* start, size_t bytes, const std::string& name) {
  auto* const begin = static_cast<std::byte*>(start);
  // calloc() takes pages of large tables when they are touched.
  void* const table = std::calloc(bytes / 8, sizeof(Granule*));
  if (table == nullptr) throw std::bad_alloc();
  regions_.insert_or_assign(
      reinterpret_cast<uintptr_t>(begin + bytes),
      Region{begin, begin + bytes, regions_bytes_, {static_cast<Granule**>(table), std::free}});
  regions_bytes_ += bytes;
  last_region_ = nullptr;
  names_[start] = name;
}

void WeakMemory::forget(const void* start) {
  const auto found = regions_.upper_bound(reinterpret_cast<uintptr_t>(start));
  if (found == regions_.end() || found->second.start != start) return;
  names_.erase(names_.lower_bound(start), names_.lower_bound(found->second.end));
  regions_.erase(found);
  last_region_ = nullptr;
}

const WeakMemory::Region* WeakMemory::region_of(const void* p) const {
  const auto inside = [p](const Region& region) { return p >= region.start && p < region.end; };
  if (last_region_ != nullptr && inside(*last_region_)) return last_region_;
  const auto found = regions_.upper_bound(reinterpret_cast<uintptr_t>(p));
  if (found == regions_.end() || !inside(found->second)) return nullptr;
  last_region_ = &found->second;
  return last_region_;
}

// Addresses differ from run to run: one in this memory counts as its place.
uint64_t WeakMemory::place_of(uint64_t address) const {
  const Region* const region = region_of(reinterpret_cast<const void*>(address));
  if (region == nullptr) return address;
  return region->place + (address - reinterpret_cast<uintptr_t>(region->start));
}

std::string WeakMemory::name_of(const void* p) const {
  auto after = names_.upper_bound(p);
  if (after == names_.begin()) return "memory without a name";
  --after;
  const auto offset =
      static_cast<const std::byte*>(p) - static_cast<const std::byte*>(after->first);
  return after->second + " + " + std::to_string(offset);
}

}  // namespace peal::simt

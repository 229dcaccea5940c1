// SPDX-License-Identifier: Apache-2.0
#include "simt/runtime/allocations.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>
#include <sstream>
#include <string>

#include "base/files.h"
#include "simt/runtime/stream.h"
#include "simt/simulation/simulation.h"

namespace peal::simt::cuda {
namespace {

constexpr size_t kAlign = 256;

bool is_host(const Piece& piece) { return piece.type == cudaMemoryTypeHost; }

}  // namespace

void* Allocations::allocate(size_t bytes, cudaMemoryType type) {
  // The filling takes every page, so what the system promises beyond its memory does not count.
  if (bytes > spare_bytes()) throw std::bad_alloc();
  void* start = nullptr;
  if (::posix_memalign(&start, kAlign, (bytes + 7) / 8 * 8) != 0) throw std::bad_alloc();
  std::memset(start, 0xa5, bytes);
  if (in_simulation()) model().adopt(start, (bytes + 7) / 8 * 8, name_in_model("cudaMalloc"));
  const std::lock_guard lock(mutex_);
  pieces_[reinterpret_cast<uintptr_t>(start)] = {start, bytes, type, device_in_use(), true};
  return start;
}

bool Allocations::add(void* start, size_t bytes) {
  const auto from = reinterpret_cast<uintptr_t>(start);
  const std::lock_guard lock(mutex_);
  const auto next = pieces_.lower_bound(from);
  if (next != pieces_.end() && next->first - from < bytes) return false;
  if (next != pieces_.begin()) {
    const auto before = std::prev(next);
    if (from - before->first < before->second.bytes) return false;
  }
  pieces_[from] = {start, bytes, cudaMemoryTypeHost, device_in_use(), false};
  return true;
}

std::optional<Piece> Allocations::take(void* start, bool owned, bool host) {
  const std::lock_guard lock(mutex_);
  const auto found = pieces_.find(reinterpret_cast<uintptr_t>(start));
  if (found == pieces_.end()) return std::nullopt;
  if (found->second.owned != owned || is_host(found->second) != host) return std::nullopt;
  const Piece piece = found->second;
  pieces_.erase(found);
  if (owned && in_simulation()) model().forget(start);
  return piece;
}

std::optional<Piece> Allocations::find(const void* address) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  const auto next = pieces_.upper_bound(at);
  if (next == pieces_.begin()) return std::nullopt;
  const auto before = std::prev(next);
  if (at - before->first >= before->second.bytes) return std::nullopt;
  return before->second;
}

void Allocations::free_all(unsigned device) {
  const std::lock_guard lock(mutex_);
  std::erase_if(pieces_, [device](const auto& one) {
    const Piece& piece = one.second;
    if (piece.device != device || is_host(piece)) return false;
    std::free(piece.start);
    return true;
  });
}

Allocations& allocations() {
  // CUDA's calls name no object that could own it. Its memory goes with the process.
  static Allocations the_allocations;
  return the_allocations;
}

size_t total_bytes() {
  return static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

size_t spare_bytes() {
  std::istringstream lines(bytes_of("/proc/meminfo"));
  std::string name;
  size_t kibibytes = 0;
  while (lines >> name >> kibibytes) {
    if (name == "MemAvailable:") return std::min(kibibytes * 1024, total_bytes());
    std::getline(lines, name);
  }
  return total_bytes();
}

}  // namespace peal::simt::cuda

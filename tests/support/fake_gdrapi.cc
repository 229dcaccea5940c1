// SPDX-License-Identifier: Apache-2.0
//
// See fake_gdrapi.h. Shares host/memory's declarations of the calls with what it stands in for, and
// asks the fake driver for the pages, as a dma-buf, which there is a memfd.
#include "tests/support/fake_gdrapi.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "host/base/cuda_driver.h"
#include "host/memory/gdrcopy.h"

namespace peal::gdrcopy {
struct State {};
}  // namespace peal::gdrcopy

namespace {

using peal::gdrcopy::Info;
using peal::gdrcopy::kPage;
using peal::gdrcopy::PinHandle;
using peal::gdrcopy::State;

struct Pinned {
  const State* session;
  uint64_t address;
  size_t bytes;
  int fd;           // of the allocation
  uint64_t offset;  // in it
  std::byte* mapped = nullptr;
};

FakeGdrapi state;
std::mutex mutex;
std::map<unsigned long, Pinned> pinned;

int mistake(int error = EINVAL) {
  ++state.mistakes;
  return error;
}

// The caller's fake driver, whose context is current.
const peal::cuda::Driver& driver() {
  static const peal::cuda::Loaded loaded = peal::cuda::load_driver();
  return *loaded.driver;
}

// ThreadSanitizer takes two mappings of a page for two pages: under it both are one.
#if defined(__SANITIZE_THREAD__)
constexpr bool kTwice = false;
#else
constexpr bool kTwice = true;
#endif

std::byte* map_again(const Pinned& buffer) {
  if (!kTwice && !state.elsewhere) return reinterpret_cast<std::byte*>(buffer.address);
  const int flags = state.elsewhere ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* const begin =
      ::mmap(nullptr, buffer.bytes, PROT_READ | PROT_WRITE, flags, state.elsewhere ? -1 : buffer.fd,
             state.elsewhere ? 0 : static_cast<off_t>(buffer.offset));
  return begin == MAP_FAILED ? nullptr : static_cast<std::byte*>(begin);
}

bool inside(const Pinned& buffer, const void* at, size_t bytes) {
  const auto offset = reinterpret_cast<uintptr_t>(at) - reinterpret_cast<uintptr_t>(buffer.mapped);
  return buffer.mapped != nullptr && offset < buffer.bytes && bytes <= buffer.bytes - offset;
}

// Bytes one by one where either end is unaligned, else words: what polls one sees it whole, and
// behind what the caller did before.
void transfer(std::byte* to, const std::byte* from, size_t bytes) {
  const auto both = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
  size_t at = 0;
  for (; both % 8 == 0 && at + 8 <= bytes; at += 8) {
    const auto* const word = reinterpret_cast<const uint64_t*>(from + at);
    __atomic_store_n(reinterpret_cast<uint64_t*>(to + at), __atomic_load_n(word, __ATOMIC_ACQUIRE),
                     __ATOMIC_RELEASE);
  }
  for (; both % 4 == 0 && at + 4 <= bytes; at += 4) {
    const auto* const word = reinterpret_cast<const uint32_t*>(from + at);
    __atomic_store_n(reinterpret_cast<uint32_t*>(to + at), __atomic_load_n(word, __ATOMIC_ACQUIRE),
                     __ATOMIC_RELEASE);
  }
  for (; at < bytes; ++at) {
    const auto* const byte = reinterpret_cast<const uint8_t*>(from + at);
    __atomic_store_n(reinterpret_cast<uint8_t*>(to + at), __atomic_load_n(byte, __ATOMIC_ACQUIRE),
                     __ATOMIC_RELEASE);
  }
}

}  // namespace

extern "C" {

FakeGdrapi* fake_gdrapi() { return &state; }

void gdr_runtime_get_version(int* major, int* minor) {
  *major = 2;
  *minor = 6;
}

State* gdr_open() {
  if (!state.driver) return nullptr;
  ++state.live;
  return new State;
}

int gdr_close(State* session) {
  const std::unique_ptr<State> owned(session);
  --state.live;
  // Each PE of a process has a session of its own.
  const std::lock_guard lock(mutex);
  const bool used =
      std::ranges::any_of(pinned, [&](const auto& one) { return one.second.session == session; });
  return used ? mistake() : 0;
}

int gdr_pin_buffer(State* session, unsigned long address, size_t bytes, uint64_t token,
                   uint32_t space, PinHandle* handle) {
  if (state.refuse_pin != 0) return state.refuse_pin;
  if (session == nullptr || token != 0 || space != 0) return mistake();
  if (address % kPage != 0 || bytes % kPage != 0 || bytes == 0) return mistake();
  peal::cuda::DeviceAddress base = 0;
  size_t all = 0;
  if (driver().address_range(&base, &all, address) != 0) return mistake();
  Pinned buffer{
      .session = session, .address = address, .bytes = bytes, .fd = -1, .offset = address - base};
  if (buffer.offset + bytes > all) return mistake();
  if (driver().range_handle(&buffer.fd, address, bytes, peal::cuda::kRangeHandleDmaBuf, 0) != 0) {
    return EIO;
  }
  const std::lock_guard lock(mutex);
  static unsigned long last = 0;
  handle->value = ++last;
  pinned[last] = buffer;
  ++state.live;
  ++state.pins;
  return 0;
}

int gdr_unpin_buffer(State*, PinHandle handle) {
  const std::lock_guard lock(mutex);
  const auto found = pinned.find(handle.value);
  if (found == pinned.end()) return mistake();
  if (found->second.mapped != nullptr) return mistake(EBUSY);
  if (::msync(reinterpret_cast<void*>(found->second.address), kPage, MS_ASYNC) != 0) {
    return mistake();  // its memory has ended
  }
  ::close(found->second.fd);
  pinned.erase(found);
  --state.live;
  return 0;
}

int gdr_map(State*, PinHandle handle, void** mapped, size_t bytes) {
  if (state.refuse_map != 0) return state.refuse_map;
  const std::lock_guard lock(mutex);
  const auto found = pinned.find(handle.value);
  if (found == pinned.end() || bytes != found->second.bytes) return mistake();
  if (found->second.mapped != nullptr) return mistake(EAGAIN);
  found->second.mapped = map_again(found->second);
  if (found->second.mapped == nullptr) return ENOMEM;
  *mapped = found->second.mapped;
  ++state.live;
  return 0;
}

int gdr_unmap(State*, PinHandle handle, void* mapped, size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto found = pinned.find(handle.value);
  if (found == pinned.end() || mapped == nullptr || mapped != found->second.mapped ||
      bytes != found->second.bytes) {
    return mistake();
  }
  if (mapped != reinterpret_cast<void*>(found->second.address)) ::munmap(mapped, bytes);
  found->second.mapped = nullptr;
  --state.live;
  return 0;
}

int gdr_get_info_v2(State*, PinHandle handle, Info* info) {
  if (state.refuse_info != 0) return state.refuse_info;
  const std::lock_guard lock(mutex);
  const auto found = pinned.find(handle.value);
  if (found == pinned.end()) return mistake();
  *info = {};
  info->address = found->second.address - state.early;
  info->bytes = found->second.bytes;
  info->page_bytes = kPage;
  const bool mapped = found->second.mapped != nullptr;
  info->kind = static_cast<peal::gdrcopy::Kind>(mapped ? state.kind.load() : 0);
  return 0;
}

int gdr_copy_to_mapping(PinHandle handle, void* to, const void* from, size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto found = pinned.find(handle.value);
  if (found == pinned.end() || !inside(found->second, to, bytes)) return mistake();
  ++state.copies_in;
  transfer(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
  return 0;
}

int gdr_copy_from_mapping(PinHandle handle, void* to, const void* from, size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto found = pinned.find(handle.value);
  if (found == pinned.end() || !inside(found->second, from, bytes)) return mistake();
  ++state.copies_out;
  transfer(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
  return 0;
}
}

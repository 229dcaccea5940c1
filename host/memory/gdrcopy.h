// SPDX-License-Identifier: Apache-2.0
//
// libgdrapi's functions that peal calls (GDRCopy), found by dlopen: they map pages of a GPU's
// memory for the CPU, by the kernel driver gdrdrv or, since version 2.6, by dma-bufs of a CUDA
// driver from 13.3 on. Declared here from gdrapi.h of GDRCopy 2.6.
//
//   open()     the library, its driver  ->  Session
//   GdrMapping    pinned and mapped pages; unmapped and unpinned when it ends, before its memory
//   does
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace peal::gdrcopy {

struct State;       // gdr_t points at one
struct PinHandle {  // gdr_mh_t
  unsigned long value = 0;
};

/// gdr_mapping_type_t: how the CPU has the pages mapped.
enum Kind : int { kNone = 0, kWriteCombining = 1, kCached = 2, kDevice = 3 };
const char* to_string(Kind kind);

/// gdr_info_v2_t.
struct Info {
  uint64_t address;
  uint64_t bytes;
  uint32_t page_bytes;
  uint64_t cycles;
  uint32_t cycles_per_ms;
  uint32_t flags;  // mapped, mapped write-combining
  Kind kind;
};

/// What is pinned begins and ends with a page of the GPU.
inline constexpr size_t kPage = 64u << 10;

// X(member, symbol, answer, parameters). Those that answer an int answer an errno, or 0.
#define PEAL_GDRCOPY_FUNCTIONS(X)                                                           \
  X(open, "gdr_open", State*, ())                                                           \
  X(close, "gdr_close", int, (State * state))                                               \
  X(pin, "gdr_pin_buffer", int,                                                             \
    (State * state, unsigned long address, size_t bytes, uint64_t token, uint32_t space,    \
     PinHandle* handle))                                                                    \
  X(unpin, "gdr_unpin_buffer", int, (State * state, PinHandle handle))                      \
  X(info, "gdr_get_info_v2", int, (State * state, PinHandle handle, Info * info))           \
  X(map, "gdr_map", int, (State * state, PinHandle handle, void** mapped, size_t bytes))    \
  X(unmap, "gdr_unmap", int, (State * state, PinHandle handle, void* mapped, size_t bytes)) \
  X(copy_in, "gdr_copy_to_mapping", int,                                                    \
    (PinHandle handle, void* mapped, const void* from, size_t bytes))                       \
  X(copy_out, "gdr_copy_from_mapping", int,                                                 \
    (PinHandle handle, void* to, const void* mapped, size_t bytes))                         \
  X(version, "gdr_runtime_get_version", void, (int* major, int* minor))

struct GdrLibrary {
#define PEAL_GDRCOPY_MEMBER(member, symbol, answer, parameters) answer(*member) parameters;
  PEAL_GDRCOPY_FUNCTIONS(PEAL_GDRCOPY_MEMBER)
#undef PEAL_GDRCOPY_MEMBER
};

/// The library with its driver opened, until it is destroyed. The library is not thread-safe where
/// it pins and maps: calls that do hold `mutex()`.
class Session {
 public:
  Session(const GdrLibrary& library, State* state) : library_(library), state_(state) {}
  ~Session() { library_.close(state_); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const GdrLibrary& library() const { return library_; }
  State* state() const { return state_; }
  std::mutex& mutex() { return mutex_; }
  /// "GDRCopy 2.6".
  std::string name() const;

  /// Remembers the first reason for which pages were not mapped.
  void refuse(const std::string& why);
  /// That; empty where all went well so far.
  std::string refusal() const;

 private:
  const GdrLibrary library_;
  State* const state_;
  std::mutex mutex_;
  mutable std::mutex refusal_mutex_;
  std::string refusal_;
};

inline constexpr const char* kLibraryName = "libgdrapi.so.2";

/// A session, or why there is none.
struct Opened {
  std::shared_ptr<Session> session;
  std::string why_not;
};

/// Loads the library, which stays until the process ends, and opens its driver. A machine without
/// either is no error.
Opened open(const std::string& path);

/// Pages of a GPU's memory in this process, until it is destroyed, which must be before that memory
/// is. Pages begin and end at multiples of kPage.
class GdrMapping {
 public:
  GdrMapping(std::shared_ptr<Session> session, std::byte* address, size_t bytes);
  ~GdrMapping();
  GdrMapping(const GdrMapping&) = delete;
  GdrMapping& operator=(const GdrMapping&) = delete;

  /// Where the CPU has them; null: Session::refusal() tells why nowhere.
  std::byte* begin() const { return begin_; }
  Kind kind() const { return kind_; }

  /// Bytes into and out of the mapped pages, in any pieces. False where the library refuses.
  bool copy_in(std::byte* mapped, const void* from, size_t bytes) const {
    return session_->library().copy_in(handle_, mapped, from, bytes) == 0;
  }
  bool copy_out(void* to, const std::byte* mapped, size_t bytes) const {
    return session_->library().copy_out(handle_, to, mapped, bytes) == 0;
  }

 private:
  void map(std::byte* address);
  bool refused(const char* call, int error);

  std::shared_ptr<Session> session_;
  const size_t bytes_;
  PinHandle handle_;
  bool pinned_ = false;
  void* mapped_ = nullptr;
  std::byte* begin_ = nullptr;  // in it
  Kind kind_ = kNone;
};

}  // namespace peal::gdrcopy

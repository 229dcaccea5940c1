// SPDX-License-Identifier: Apache-2.0
//
// What the files of libfake_cuda.so share.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>

#include "host/base/cuda_driver.h"
#include "tests/support/fake_cuda.h"

namespace fake_cuda_detail {

using namespace peal::cuda;

constexpr Result kInvalidValue = 1;
constexpr Result kAlreadyRegistered = 712;
constexpr Result kInvalidContext = 201;
constexpr Result kPeerAccessUnsupported = 217;

/// Addresses with memory behind them: of cuMemAlloc or a pool, or one mapping of cuMemMap.
struct Allocation {
  size_t bytes;
  int fd;
  int device;
  uint64_t id;  // never used twice
  bool piece = false;
  int handle_types = 0;        // of a piece, and of a pool
  bool foreign = false;        // another process made it
  PoolHandle pool = nullptr;   // that it is of
  std::set<int> allowed = {};  // of a piece: devices that may use it
  bool synchronous = false;    // calls wait until what they do to it is done
};
using Allocations = std::map<DeviceAddress, Allocation>;

extern FakeCuda state;
extern std::mutex mutex;  // of what follows
extern Allocations allocations;

/// The one that the address lies in, or none.
Allocations::iterator around(DeviceAddress address);

/// cuMemFree of what is of a pool.
void free_of_pool(Allocations::iterator found);

inline uint64_t next_id() {
  static uint64_t last = 0;
  return ++last;
}

Result refusal(const char* symbol);
inline void await_streams() {
  ++state.pinning;
  while (state.pins_wait && state.waiting > 0) ::sched_yield();
  --state.pinning;
}
Result mistake(Result result);
int current_device();  // -1: no context is current
/// A synchronous call on it may return before it is done.
bool calls_may_lag(const Allocation& allocation);

/// Another descriptor of the same file.
inline int copy_of(int fd) { return ::fcntl(fd, F_DUPFD_CLOEXEC, 0); }

/// The inode of the file; 0: there is none.
inline uint64_t inode_of(int fd) {
  struct stat file {};
  return ::fstat(fd, &file) == 0 ? file.st_ino : 0;
}

template <class T>
T* pointer(DeviceAddress address) {
  return reinterpret_cast<T*>(address);
}

}  // namespace fake_cuda_detail

// Refuses when the test says so, or when no context is current.
#define FAKE_ENTER(symbol)                              \
  if (const Result no = refusal(symbol); no) return no; \
  const std::lock_guard lock(mutex)
#define FAKE_ENTER_CONTEXT(symbol) \
  FAKE_ENTER(symbol);              \
  if (current_device() < 0) return mistake(kInvalidContext)

// SPDX-License-Identifier: Apache-2.0
//
// See fake_cufile.h. Shares host/storage's declarations of the calls with what it stands in for.
#include "tests/support/fake_cufile.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "host/storage/cufile.h"

namespace {

using peal::storage::cufile::CufileResult;
using peal::storage::cufile::Descriptor;
using peal::storage::cufile::Handle;

FakeCuFile state;

/// Counts what was taken.
CufileResult answer(int refused) {
  if (refused == 0) ++state.live;
  return {refused, 0};
}

/// The handle's file without O_DIRECT: the real library hides alignment too.
struct Plain {
  explicit Plain(Handle handle) {
    const auto known = static_cast<int>(reinterpret_cast<intptr_t>(handle));
    const int access = ::fcntl(known, F_GETFL) & O_ACCMODE;
    fd = ::open(("/proc/self/fd/" + std::to_string(known)).c_str(), access | O_CLOEXEC);
  }
  ~Plain() { ::close(fd); }
  int fd;
};

template <class Move>
ssize_t transfer(size_t bytes, const Move& move) {
  const bool first = state.transfers++ == 0;
  if (!first && state.refuse_transfer != 0) return -state.refuse_transfer;
  if (!first && state.transfer_errno != 0) {
    errno = state.transfer_errno;
    return -1;
  }
  return move(state.longest == 0 ? bytes : std::min(bytes, state.longest.load()));
}

}  // namespace

extern "C" {

FakeCuFile* fake_cufile() { return &state; }

CufileResult cuFileDriverOpen() { return {state.refuse_driver, 0}; }

CufileResult cuFileHandleRegister(Handle* handle, Descriptor* descriptor) {
  *handle = reinterpret_cast<Handle>(static_cast<intptr_t>(descriptor->fd));
  return answer(state.refuse_handle);
}
void cuFileHandleDeregister(Handle) { --state.live; }

CufileResult cuFileBufRegister(const void*, size_t, int) {
  ++state.buffers;
  return answer(state.refuse_buffer);
}
CufileResult cuFileBufDeregister(const void*) {
  --state.live;
  return {0, 0};
}

ssize_t cuFileRead(Handle handle, void* base, size_t bytes, off_t from, off_t at) {
  return transfer(bytes, [&](size_t n) {
    const Plain file(handle);
    return ::pread(file.fd, static_cast<char*>(base) + at, n, from);
  });
}
ssize_t cuFileWrite(Handle handle, const void* base, size_t bytes, off_t from, off_t at) {
  return transfer(bytes, [&](size_t n) {
    const Plain file(handle);
    return ::pwrite(file.fd, static_cast<const char*>(base) + at, n, from);
  });
}
}

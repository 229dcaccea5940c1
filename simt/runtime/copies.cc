// SPDX-License-Identifier: Apache-2.0
//
// Who copies and fills. Each copy is rows of bytes; one row is the common case.
#include <cstring>
#include <limits>
#include <memory>

#include "simt/runtime/allocations.h"
#include "simt/runtime/devices.h"
#include "simt/runtime/memory.h"
#include "simt/runtime/state.h"

namespace peal::simt::cuda {

cudaError_t check_symbol(size_t size, size_t bytes, size_t offset, cudaMemcpyKind kind,
                         cudaMemcpyKind other) {
  return call([&] {
    if (offset > size || bytes > size - offset) return cudaErrorInvalidValue;
    const bool known =
        kind == other || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
    return known ? cudaSuccess : cudaErrorInvalidMemcpyDirection;
  });
}

namespace calls {
namespace {

struct Rows {
  size_t width;
  size_t height = 1;
  size_t dst_pitch = 0;
  size_t src_pitch = 0;

  bool empty() const { return width == 0 || height == 0; }
  bool fit() const {
    if (height <= 1) return true;
    return fit(dst_pitch) && fit(src_pitch);
  }
  size_t span(size_t pitch) const { return (height - 1) * pitch + width; }

 private:
  bool fit(size_t pitch) const {
    return width <= pitch && height <= std::numeric_limits<size_t>::max() / pitch;
  }
};

// What is known of it does not end before `bytes` do; where CUDA wants host memory it is no
// device's.
bool usable(const void* pointer, size_t bytes, bool on_host) {
  if (pointer == nullptr) return false;
  const auto piece = allocations().find(pointer);
  if (!piece) return true;
  if (on_host && piece->type == cudaMemoryTypeDevice) return false;
  const size_t offset = static_cast<size_t>(static_cast<const char*>(pointer) -
                                            static_cast<const char*>(piece->start));
  return bytes <= piece->bytes - offset;
}

cudaError_t check(void* dst, const void* src, const Rows& rows, cudaMemcpyKind kind) {
  if (kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  if (!rows.fit()) return cudaErrorInvalidPitchValue;
  const bool from_host = kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice;
  const bool to_host = kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost;
  if (!usable(src, rows.span(rows.src_pitch), from_host) ||
      !usable(dst, rows.span(rows.dst_pitch), to_host)) {
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

void copy_rows(void* dst, const void* src, const Rows& rows) {
  for (size_t row = 0; row < rows.height; ++row) {
    std::memcpy(static_cast<char*>(dst) + row * rows.dst_pitch,
                static_cast<const char*>(src) + row * rows.src_pitch, rows.width);
  }
}

bool pageable(const void* pointer) { return !allocations().find(pointer); }

// The program may use pageable memory again once the call has returned: CUDA copies it before, or
// waits.
cudaError_t copy_later(void* dst, const void* src, const Rows& rows, cudaMemcpyKind kind,
                       WorkStream& stream) {
  const bool now = !stream.capturing();
  if (now && kind == cudaMemcpyHostToDevice && pageable(src)) {
    std::shared_ptr<char[]> staged(new char[rows.width * rows.height]);
    Rows packed = rows;
    packed.dst_pitch = rows.width;
    copy_rows(staged.get(), src, packed);
    packed = rows;
    packed.src_pitch = rows.width;
    stream.add([=] { copy_rows(dst, staged.get(), packed); });
    return cudaSuccess;
  }
  stream.add([=] { copy_rows(dst, src, rows); });
  if (now && kind == cudaMemcpyDeviceToHost && pageable(dst)) return wait_for(stream);
  return cudaSuccess;
}

cudaError_t copy(void* dst, const void* src, const Rows& rows, cudaMemcpyKind kind) {
  return call([&] {
    if (rows.empty()) return wait_for(default_stream());
    if (const cudaError_t error = check(dst, src, rows, kind); error != cudaSuccess) return error;
    default_stream().add([=] { copy_rows(dst, src, rows); });
    return wait_for(default_stream());
  });
}

cudaError_t copy_on(cudaStream_t stream, void* dst, const void* src, const Rows& rows,
                    cudaMemcpyKind kind) {
  return call_on(stream, [&](WorkStream& on) {
    if (rows.empty()) return cudaSuccess;
    if (const cudaError_t error = check(dst, src, rows, kind); error != cudaSuccess) return error;
    return copy_later(dst, src, rows, kind, on);
  });
}

cudaError_t fill_on(cudaStream_t stream, void* dst, const Rows& rows, int value) {
  return call_on(stream, [&](WorkStream& on) {
    if (rows.empty()) return cudaSuccess;
    if (!rows.fit()) return cudaErrorInvalidPitchValue;
    if (!usable(dst, rows.span(rows.dst_pitch), false)) return cudaErrorInvalidValue;
    on.add([=] {
      for (size_t row = 0; row < rows.height; ++row) {
        std::memset(static_cast<char*>(dst) + row * rows.dst_pitch, value, rows.width);
      }
    });
    return cudaSuccess;
  });
}

bool are_devices(int one, int other) { return is_device(one) && is_device(other); }

}  // namespace

cudaError_t cudaMemcpy(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind) {
  return copy(dst, src, {bytes}, kind);
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy_on(stream, dst, src, {bytes}, kind);
}

cudaError_t cudaMemcpyPeer(void* dst, int dst_device, const void* src, int src_device,
                           size_t bytes) {
  if (!are_devices(dst_device, src_device)) return remember(cudaErrorInvalidDevice);
  return cudaMemcpy(dst, src, bytes, cudaMemcpyDeviceToDevice);
}

cudaError_t cudaMemcpyPeerAsync(void* dst, int dst_device, const void* src, int src_device,
                                size_t bytes, cudaStream_t stream) {
  if (!are_devices(dst_device, src_device)) return remember(cudaErrorInvalidDevice);
  return cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, stream);
}

cudaError_t cudaMemcpy2D(void* dst, size_t dst_pitch, const void* src, size_t src_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
  return copy(dst, src, {width, height, dst_pitch, src_pitch}, kind);
}

cudaError_t cudaMemcpy2DAsync(void* dst, size_t dst_pitch, const void* src, size_t src_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return copy_on(stream, dst, src, {width, height, dst_pitch, src_pitch}, kind);
}

cudaError_t cudaMemset(void* dst, int value, size_t bytes) {
  return fill_on(nullptr, dst, {bytes}, value);
}

cudaError_t cudaMemsetAsync(void* dst, int value, size_t bytes, cudaStream_t stream) {
  return fill_on(stream, dst, {bytes}, value);
}

cudaError_t cudaMemset2D(void* dst, size_t pitch, int value, size_t width, size_t height) {
  return fill_on(nullptr, dst, {width, height, pitch, pitch}, value);
}

cudaError_t cudaMemset2DAsync(void* dst, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  return fill_on(stream, dst, {width, height, pitch, pitch}, value);
}

}  // namespace calls
}  // namespace peal::simt::cuda

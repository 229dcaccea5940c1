// SPDX-License-Identifier: Apache-2.0
//
// Texture objects of one and two dimensions: on linear memory, on rows with a pitch, on arrays.
// Coordinates, filters and address modes are CUDA's; linear filtering has weights of 8 bits, as a
// GPU's.
//
// Every CUDA program reads this file: what is sampled and how is in textures.cc.
#pragma once

#include <cstddef>
#include <type_traits>

#include "simt/runtime/errors.h"
#include "simt/runtime/texture_types.h"
#include "simt/runtime/types.h"
#include "simt/runtime/vectors.h"

namespace peal::simt::cuda {

/// The channels of what was read: as reals, or as whole numbers.
struct Texel {
  bool real;
  float reals[4];
  int numbers[4];

  template <class Channel>
  Channel channel(int i) const {
    return real ? static_cast<Channel>(reals[i]) : static_cast<Channel>(numbers[i]);
  }
};

/// The element `index` of linear memory; zero where there is none.
Texel fetch_texel(cudaTextureObject_t texture, int index);
Texel sample_texture(cudaTextureObject_t texture, float x);
Texel sample_texture(cudaTextureObject_t texture, float x, float y);

/// float, or float4 and the like: as many channels as the type has.
template <class T>
T to_texel_type(const Texel& texel) {
  if constexpr (std::is_arithmetic_v<T>) {
    return texel.channel<T>(0);
  } else {
    using Channel = decltype(T::x);
    constexpr size_t kChannels = sizeof(T) / sizeof(Channel);
    T result{};
    result.x = texel.channel<Channel>(0);
    if constexpr (kChannels > 1) result.y = texel.channel<Channel>(1);
    if constexpr (kChannels > 2) {
      result.z = texel.channel<Channel>(2);
      result.w = texel.channel<Channel>(3);
    }
    return result;
  }
}

/// What a T is as an element of a texture.
template <class T>
cudaChannelFormatDesc channels_of() {
  using Channel = typename decltype([] {
    if constexpr (std::is_arithmetic_v<T>) {
      return std::type_identity<T>();
    } else {
      return std::type_identity<decltype(T::x)>();
    }
  }())::type;
  constexpr int kBits = 8 * sizeof(Channel);
  constexpr size_t kChannels = sizeof(T) / sizeof(Channel);
  constexpr auto kKind = std::is_floating_point_v<Channel> ? cudaChannelFormatKindFloat
                         : std::is_signed_v<Channel>       ? cudaChannelFormatKindSigned
                                                           : cudaChannelFormatKindUnsigned;
  return {kBits, kChannels > 1 ? kBits : 0, kChannels > 2 ? kBits : 0, kChannels > 3 ? kBits : 0,
          kKind};
}

}  // namespace peal::simt::cuda

namespace peal::simt::cuda::calls {

cudaError_t cudaCreateTextureObject(cudaTextureObject_t* texture, const cudaResourceDesc* resource,
                                    const cudaTextureDesc* how, const cudaResourceViewDesc* view);
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t texture);
cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* resource,
                                             cudaTextureObject_t texture);
cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc* how, cudaTextureObject_t texture);

inline cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                   cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}
template <class T>
cudaChannelFormatDesc cudaCreateChannelDesc() {
  return channels_of<T>();
}

/// The array has one row where `height` is 0.
cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* channels, size_t width,
                            size_t height = 0, unsigned flags = 0);
cudaError_t cudaFreeArray(cudaArray_t array);
cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t dst, size_t x_bytes, size_t y, const void* src,
                                     size_t src_pitch, size_t width, size_t height,
                                     cudaMemcpyKind kind, cudaStream_t stream = nullptr);
cudaError_t cudaMemcpy2DFromArrayAsync(void* dst, size_t dst_pitch, cudaArray_const_t src,
                                       size_t x_bytes, size_t y, size_t width, size_t height,
                                       cudaMemcpyKind kind, cudaStream_t stream = nullptr);
cudaError_t cudaMemcpy2DToArray(cudaArray_t dst, size_t x_bytes, size_t y, const void* src,
                                size_t src_pitch, size_t width, size_t height, cudaMemcpyKind kind);
cudaError_t cudaMemcpy2DFromArray(void* dst, size_t dst_pitch, cudaArray_const_t src,
                                  size_t x_bytes, size_t y, size_t width, size_t height,
                                  cudaMemcpyKind kind);
/// `bytes` that follow each other in the array's rows.
cudaError_t cudaMemcpyToArray(cudaArray_t dst, size_t x_bytes, size_t y, const void* src,
                              size_t bytes, cudaMemcpyKind kind);

}  // namespace peal::simt::cuda::calls

// ---- in kernels

template <class T>
T tex1Dfetch(cudaTextureObject_t texture, int index) {
  return peal::simt::cuda::to_texel_type<T>(peal::simt::cuda::fetch_texel(texture, index));
}
template <class T>
T tex1D(cudaTextureObject_t texture, float x) {
  return peal::simt::cuda::to_texel_type<T>(peal::simt::cuda::sample_texture(texture, x));
}
template <class T>
T tex2D(cudaTextureObject_t texture, float x, float y) {
  return peal::simt::cuda::to_texel_type<T>(peal::simt::cuda::sample_texture(texture, x, y));
}
// There is one level.
template <class T>
T tex1DLod(cudaTextureObject_t texture, float x, float) {
  return tex1D<T>(texture, x);
}
template <class T>
T tex2DLod(cudaTextureObject_t texture, float x, float y, float) {
  return tex2D<T>(texture, x, y);
}
template <class T>
void tex1Dfetch(T* value, cudaTextureObject_t texture, int index) {
  *value = tex1Dfetch<T>(texture, index);
}
template <class T>
void tex1D(T* value, cudaTextureObject_t texture, float x) {
  *value = tex1D<T>(texture, x);
}
template <class T>
void tex2D(T* value, cudaTextureObject_t texture, float x, float y) {
  *value = tex2D<T>(texture, x, y);
}

// SPDX-License-Identifier: Apache-2.0
//
// Sampling follows "Texture Fetching" in CUDA's programming guide. Texels are rows in memory,
// whatever a texture was made of.
#include "simt/runtime/textures.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "simt/runtime/memory.h"
#include "simt/runtime/real16.h"
#include "simt/runtime/state.h"

// An array: rows with a pitch, which nobody sees.
struct cudaArray {
  cudaChannelFormatDesc channels;
  size_t width;
  size_t height;
  size_t pitch;
  char* data;
};

namespace peal::simt::cuda {
namespace {

int count_channels(const cudaChannelFormatDesc& channels) {
  return (channels.x != 0) + (channels.y != 0) + (channels.z != 0) + (channels.w != 0);
}

bool is_format(const cudaChannelFormatDesc& channels) {
  const int bits = channels.x, count = count_channels(channels);
  const bool same = (channels.y == 0 || channels.y == bits) &&
                    (channels.z == 0 || channels.z == bits) &&
                    (channels.w == 0 || channels.w == bits);
  const bool real = channels.f == cudaChannelFormatKindFloat;
  const bool sized = bits == 16 || bits == 32 || (bits == 8 && !real);
  return same && sized && count != 3 && channels.f <= cudaChannelFormatKindFloat;
}

size_t bytes_of(const cudaChannelFormatDesc& channels) {
  return static_cast<size_t>(channels.x / 8 * count_channels(channels));
}

struct Texels {
  const char* data = nullptr;
  cudaChannelFormatDesc channels{};
  int64_t width = 0;
  int64_t height = 1;
  size_t pitch = 0;
};

struct Texture {
  Texels texels;
  cudaResourceDesc resource;
  cudaTextureDesc how;

  bool reads_reals() const {
    return texels.channels.f == cudaChannelFormatKindFloat ||
           how.readMode == cudaReadModeNormalizedFloat;
  }
};

// CUDA's calls name no object that could own these.
Handles<Texture>& textures() {
  static Handles<Texture> made;
  return made;
}
Handles<cudaArray>& arrays() {
  static Handles<cudaArray> made;
  return made;
}

const Texture& at(cudaTextureObject_t texture) { return *reinterpret_cast<Texture*>(texture); }

Texel zero(const Texture& texture) { return {texture.reads_reals(), {}, {}}; }

Texel border_of(const Texture& texture) {
  Texel texel = zero(texture);
  for (int i = 0; i < 4; ++i) {
    texel.reals[i] = texture.how.borderColor[i];
    std::memcpy(&texel.numbers[i], &texture.how.borderColor[i], sizeof(int));
  }
  return texel;
}

template <class Number>
int number_at(const char* address) {
  Number number;
  std::memcpy(&number, address, sizeof number);
  return static_cast<int>(number);
}

float real_at(const char* address, int bits) {
  if (bits == 16) return Binary16::to_float(static_cast<uint16_t>(number_at<uint16_t>(address)));
  float value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

int number_at(const char* address, int bits, bool is_signed) {
  if (bits == 8) return is_signed ? number_at<int8_t>(address) : number_at<uint8_t>(address);
  if (bits == 16) return is_signed ? number_at<int16_t>(address) : number_at<uint16_t>(address);
  return number_at<int>(address);
}

// The texel in this column and row, which exist.
Texel read(const Texture& texture, int64_t column, int64_t row) {
  const cudaChannelFormatDesc& channels = texture.texels.channels;
  const bool is_signed = channels.f == cudaChannelFormatKindSigned;
  const char* address = texture.texels.data + static_cast<size_t>(row) * texture.texels.pitch +
                        static_cast<size_t>(column) * bytes_of(channels);
  Texel texel = zero(texture);
  for (int i = 0; i < count_channels(channels); ++i, address += channels.x / 8) {
    if (channels.f == cudaChannelFormatKindFloat) {
      texel.reals[i] = real_at(address, channels.x);
      continue;
    }
    texel.numbers[i] = number_at(address, channels.x, is_signed);
    if (!texel.real) continue;
    const auto most = static_cast<float>((int64_t{1} << (channels.x - (is_signed ? 1 : 0))) - 1);
    texel.reals[i] = std::max(static_cast<float>(texel.numbers[i]) / most, -1.0F);
  }
  return texel;
}

// One axis: where a coordinate lies among the texels.
class Axis {
 public:
  Axis(const Texture& texture, int axis, int64_t count)
      : count_(count),
        mode_(texture.how.addressMode[axis]),
        normalized_(texture.how.normalizedCoords != 0) {
    const bool repeats = mode_ == cudaAddressModeWrap || mode_ == cudaAddressModeMirror;
    if (repeats && !normalized_) mode_ = cudaAddressModeClamp;
  }

  /// In texels. Modes that repeat leave the first repetition, or two mirrored ones.
  float scaled(float x) const {
    if (!normalized_) return x;
    if (mode_ == cudaAddressModeWrap) x -= std::floor(x);
    if (mode_ == cudaAddressModeMirror) {
      const float whole = std::floor(x);
      x -= whole;
      if (std::fmod(whole, 2.0F) != 0) x = 1 - x;
    }
    return x * static_cast<float>(count_);
  }

  /// The texel that stands for this one; -1: the border.
  int64_t resolve(float place) const {
    const auto last = static_cast<float>(count_ - 1);
    if (place >= 0 && place <= last) return static_cast<int64_t>(place);
    if (mode_ == cudaAddressModeBorder || std::isnan(place)) return -1;
    if (mode_ == cudaAddressModeWrap) return place < 0 ? count_ - 1 : 0;
    return place < 0 ? 0 : count_ - 1;
  }

 private:
  int64_t count_;
  cudaTextureAddressMode mode_;
  bool normalized_;
};

Texel read_or_border(const Texture& texture, int64_t column, int64_t row) {
  return column < 0 || row < 0 ? border_of(texture) : read(texture, column, row);
}

// Between two texels; a weight has 8 bits behind the point.
struct Between {
  float first;
  float weight;
  explicit Between(float place) : first(std::floor(place - 0.5F)) {
    weight = std::floor((place - 0.5F - first) * 256 + 0.5F) / 256;
  }
};

Texel mix(const Texel& a, const Texel& b, float weight) {
  Texel result = a;
  for (int i = 0; i < 4; ++i) {
    result.reals[i] = (1 - weight) * a.reals[i] + weight * b.reals[i];
  }
  return result;
}

Texel sample(const Texture& texture, float x, float y) {
  const Axis across(texture, 0, texture.texels.width), down(texture, 1, texture.texels.height);
  x = across.scaled(x);
  y = down.scaled(y);
  if (texture.how.filterMode == cudaFilterModePoint) {
    return read_or_border(texture, across.resolve(std::floor(x)), down.resolve(std::floor(y)));
  }
  const Between columns(x), rows(y);
  const auto row_at = [&](float row) {
    const int64_t resolved = down.resolve(row);
    return mix(read_or_border(texture, across.resolve(columns.first), resolved),
               read_or_border(texture, across.resolve(columns.first + 1), resolved),
               columns.weight);
  };
  return mix(row_at(rows.first), row_at(rows.first + 1), rows.weight);
}

cudaError_t describe(const cudaResourceDesc& resource, Texels* texels) {
  if (resource.resType == cudaResourceTypeLinear) {
    const auto& linear = resource.res.linear;
    if (!is_format(linear.desc)) return cudaErrorInvalidChannelDescriptor;
    const size_t count = linear.sizeInBytes / bytes_of(linear.desc);
    *texels = {static_cast<const char*>(linear.devPtr), linear.desc, static_cast<int64_t>(count), 1,
               linear.sizeInBytes};
  } else if (resource.resType == cudaResourceTypePitch2D) {
    const auto& rows = resource.res.pitch2D;
    if (!is_format(rows.desc)) return cudaErrorInvalidChannelDescriptor;
    if (rows.pitchInBytes < rows.width * bytes_of(rows.desc)) return cudaErrorInvalidValue;
    *texels = {static_cast<const char*>(rows.devPtr), rows.desc, static_cast<int64_t>(rows.width),
               static_cast<int64_t>(rows.height), rows.pitchInBytes};
  } else if (resource.resType == cudaResourceTypeArray) {
    const auto array = arrays().find(resource.res.array.array);
    if (!array) return cudaErrorInvalidResourceHandle;
    *texels = {array->data, array->channels, static_cast<int64_t>(array->width),
               static_cast<int64_t>(array->height), array->pitch};
  } else {
    return cudaErrorNotSupported;
  }
  const bool some = texels->data != nullptr && texels->width > 0 && texels->height > 0;
  return some ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace

Texel fetch_texel(cudaTextureObject_t texture, int index) {
  const Texture& of = at(texture);
  return index < 0 || index >= of.texels.width ? zero(of) : read(of, index, 0);
}
Texel sample_texture(cudaTextureObject_t texture, float x) {
  return sample(at(texture), x, at(texture).how.normalizedCoords != 0 ? 0.0F : 0.5F);
}
Texel sample_texture(cudaTextureObject_t texture, float x, float y) {
  return sample(at(texture), x, y);
}

namespace calls {

cudaError_t cudaCreateTextureObject(cudaTextureObject_t* texture, const cudaResourceDesc* resource,
                                    const cudaTextureDesc* how, const cudaResourceViewDesc* view) {
  return call([&] {
    if (texture == nullptr || resource == nullptr || how == nullptr) return cudaErrorInvalidValue;
    if (view != nullptr) return cudaErrorNotSupported;
    Texture made{{}, *resource, *how};
    const cudaError_t error = describe(*resource, &made.texels);
    if (error != cudaSuccess) return error;
    const bool wide = made.texels.channels.x == 32;
    const bool whole = made.texels.channels.f != cudaChannelFormatKindFloat;
    if (how->readMode == cudaReadModeNormalizedFloat && whole && wide) {
      return cudaErrorInvalidNormSetting;
    }
    if (how->filterMode == cudaFilterModeLinear && !made.reads_reals()) {
      return cudaErrorInvalidFilterSetting;
    }
    Texture* const kept = textures().add(std::make_shared<Texture>(made));
    *texture = reinterpret_cast<cudaTextureObject_t>(kept);
    return cudaSuccess;
  });
}

cudaError_t cudaDestroyTextureObject(cudaTextureObject_t texture) {
  return call([&] {
    if (texture == 0) return cudaSuccess;
    const bool was = textures().take(reinterpret_cast<const void*>(texture)) != nullptr;
    return was ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* resource,
                                             cudaTextureObject_t texture) {
  return call([&] {
    const auto found = textures().find(reinterpret_cast<const void*>(texture));
    if (resource == nullptr || !found) return cudaErrorInvalidValue;
    *resource = found->resource;
    return cudaSuccess;
  });
}

cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc* how, cudaTextureObject_t texture) {
  return call([&] {
    const auto found = textures().find(reinterpret_cast<const void*>(texture));
    if (how == nullptr || !found) return cudaErrorInvalidValue;
    *how = found->how;
    return cudaSuccess;
  });
}

cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* channels, size_t width,
                            size_t height, unsigned flags) {
  constexpr unsigned kKnown = cudaArraySurfaceLoadStore | cudaArrayTextureGather;
  if (array == nullptr || channels == nullptr || width == 0 || (flags & ~kKnown) != 0) {
    return remember(cudaErrorInvalidValue);
  }
  if (!is_format(*channels)) return remember(cudaErrorInvalidChannelDescriptor);
  cudaArray made{*channels, width, std::max<size_t>(height, 1), 0, nullptr};
  const cudaError_t error =
      cudaMallocPitch(&made.data, &made.pitch, width * bytes_of(*channels), made.height);
  if (error != cudaSuccess) return error;
  *array = arrays().add(std::make_shared<cudaArray>(made));
  return cudaSuccess;
}

cudaError_t cudaFreeArray(cudaArray_t array) {
  if (array == nullptr) return cudaSuccess;
  const auto taken = arrays().take(array);
  return taken ? cudaFree(taken->data) : remember(cudaErrorInvalidResourceHandle);
}

namespace {

// Where a rectangle of an array begins; null where it does not lie in it.
char* inside(const std::shared_ptr<cudaArray>& array, size_t x_bytes, size_t y, size_t width,
             size_t height) {
  const size_t row = array->width * bytes_of(array->channels);
  const bool fits =
      x_bytes <= row && width <= row - x_bytes && y <= array->height && height <= array->height - y;
  return fits ? array->data + y * array->pitch + x_bytes : nullptr;
}

}  // namespace

cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t dst, size_t x_bytes, size_t y, const void* src,
                                     size_t src_pitch, size_t width, size_t height,
                                     cudaMemcpyKind kind, cudaStream_t stream) {
  const auto array = arrays().find(dst);
  if (!array) return remember(cudaErrorInvalidResourceHandle);
  char* const begin = inside(array, x_bytes, y, width, height);
  if (begin == nullptr) return remember(cudaErrorInvalidValue);
  return cudaMemcpy2DAsync(begin, array->pitch, src, src_pitch, width, height, kind, stream);
}

cudaError_t cudaMemcpy2DFromArrayAsync(void* dst, size_t dst_pitch, cudaArray_const_t src,
                                       size_t x_bytes, size_t y, size_t width, size_t height,
                                       cudaMemcpyKind kind, cudaStream_t stream) {
  const auto array = arrays().find(src);
  if (!array) return remember(cudaErrorInvalidResourceHandle);
  const char* const begin = inside(array, x_bytes, y, width, height);
  if (begin == nullptr) return remember(cudaErrorInvalidValue);
  return cudaMemcpy2DAsync(dst, dst_pitch, begin, array->pitch, width, height, kind, stream);
}

cudaError_t cudaMemcpy2DToArray(cudaArray_t dst, size_t x_bytes, size_t y, const void* src,
                                size_t src_pitch, size_t width, size_t height,
                                cudaMemcpyKind kind) {
  const cudaError_t error =
      cudaMemcpy2DToArrayAsync(dst, x_bytes, y, src, src_pitch, width, height, kind);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}

cudaError_t cudaMemcpy2DFromArray(void* dst, size_t dst_pitch, cudaArray_const_t src,
                                  size_t x_bytes, size_t y, size_t width, size_t height,
                                  cudaMemcpyKind kind) {
  const cudaError_t error =
      cudaMemcpy2DFromArrayAsync(dst, dst_pitch, src, x_bytes, y, width, height, kind);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}

cudaError_t cudaMemcpyToArray(cudaArray_t dst, size_t x_bytes, size_t y, const void* src,
                              size_t bytes, cudaMemcpyKind kind) {
  const auto array = arrays().find(dst);
  if (!array) return remember(cudaErrorInvalidResourceHandle);
  const size_t row = array->width * bytes_of(array->channels);
  const char* from = static_cast<const char*>(src);
  while (bytes != 0) {
    const size_t part = std::min(bytes, x_bytes < row ? row - x_bytes : bytes);
    const cudaError_t error = cudaMemcpy2DToArray(dst, x_bytes, y, from, part, part, 1, kind);
    if (error != cudaSuccess) return error;
    from += part;
    bytes -= part;
    x_bytes = 0;
    ++y;
  }
  return cudaSuccess;
}

}  // namespace calls
}  // namespace peal::simt::cuda

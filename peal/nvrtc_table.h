// SPDX-License-Identifier: Apache-2.0
//
// Kernels that a program of another language compiles by NVRTC and launches by CUDA's driver. The
// source has this behind it:
//
//   #include "peal/nvrtc_table.h"
//   PEAL_NVRTC_ENTRY(0, ::scale)      a variable peal_kernel_0, a FlatEntry, whose bytes lie in the
//   code's .nv.global.init
//
// There is no host code that could tell what the parameters are, and no pointer in the bytes that
// would have to be resolved first: who compiles reads them out of the file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "peal/kernel_parameter.h"

namespace peal::table {

inline constexpr uint32_t kFlatVersion = 1;  // of what follows
inline constexpr size_t kTypeRoom = 240;

/// A Parameter; a longer text of its type is cut.
struct FlatParameter {
  ParameterKind kind;
  Passing passing;
  uint32_t bytes;
  uint32_t alignment;
  char type[kTypeRoom];
};

template <size_t kCount>
struct FlatEntry {
  uint32_t version;
  uint32_t context_version;  // for peal_context()
  uint64_t count;
  FlatParameter parameters[kCount == 0 ? 1 : kCount];
};

template <class T>
constexpr FlatParameter flat_parameter() {
  constexpr Parameter kOf = parameter_of<T>();
  FlatParameter made{kOf.kind, kOf.passing, kOf.bytes, kOf.alignment, {}};
  for (size_t i = 0; i + 1 < kTypeRoom && kOf.type[i] != 0; ++i) made.type[i] = kOf.type[i];
  return made;
}

/// The FlatEntry of a kernel, by its type.
template <class... Parameters>
constexpr FlatEntry<sizeof...(Parameters)> flat_entry(void (*)(Parameters...)) {
  return {kFlatVersion, kContextVersion, sizeof...(Parameters), {flat_parameter<Parameters>()...}};
}

}  // namespace peal::table

/// Defines peal_kernel_NUMBER. KERNEL may have commas, as a template's arguments.
#define PEAL_NVRTC_ENTRY(NUMBER, ...)                     \
  extern "C" __device__ const auto peal_kernel_##NUMBER = \
      peal::table::flat_entry(static_cast<decltype(&__VA_ARGS__)>(nullptr));

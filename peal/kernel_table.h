// SPDX-License-Identifier: Apache-2.0
//
// Kernels that a program of another language launches, by a list of pointers to arguments. The
// source is compiled as a shared library, with this behind it, and the library loaded:
//
//   #include "peal/kernel_table.h"
//   PEAL_KERNEL_TABLE(peal::table::entry<&::scale>("scale"), peal::table::entry<&::add>("add"))
//
//   peal_kernel_table() -> KernelTable -> Entry: name, parameters, launch(LaunchRequest)
//
// A process may load several such libraries. Each exports peal_kernel_table and peal::simt's
// threadIdx, blockIdx, blockDim and gridDim alone, by a version script of the linker's. Without
// that all libraries of g++'s would share one inline variable of a name, the first loaded
// library's, and so one table.
//
// The layout is that of C, for ctypes and the like. Arguments are plain values: what
// peal_context() and peal_team_value() fill in, addresses, numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iterator>
#include <utility>

#include "device/base/launch.h"
#include "device/context.h"
#include "peal/kernel_parameter.h"

namespace peal::table {

inline constexpr uint32_t kVersion = 2;  // of what follows

/// A launch. `stream`: where it is started, a cudaStream_t (cudaStreamLegacy is the default one)
/// or, on a CPU, a Stream; nullptr: one of its own. `error` has room for a sentence of
/// `error_bytes`.
struct LaunchRequest {
  uint32_t blocks[3];
  uint32_t threads[3];
  size_t shared_bytes;
  void* const* arguments;
  void* stream;
  char* error;
  size_t error_bytes;
};

struct Entry {
  const char* name;
  const Parameter* parameters;
  size_t parameter_count;
  /// Launches, and without a stream returns when the kernel has ended. 0; or 1 where it could not
  /// start or failed, with the reason in `error`. Failures of peal's calls are told by
  /// peal_check().
  int (*launch)(const LaunchRequest*);
};

struct KernelTable {
  uint32_t version;
  uint32_t context_version;  // for peal_context()
  const Entry* entries;
  size_t entry_count;
};

template <auto kKernel>
struct Launcher;

template <class... Parameters, void (*kKernel)(Parameters...)>
struct Launcher<kKernel> {
  static constexpr std::array<Parameter, sizeof...(Parameters)> kParameters{
      parameter_of<Parameters>()...};

  static int launch(const LaunchRequest* start) noexcept {
    return launch(*start, std::index_sequence_for<Parameters...>{});
  }

 private:
  template <size_t... kAt>
  static int launch(const LaunchRequest& start, std::index_sequence<kAt...>) noexcept {
    const auto& [bx, by, bz] = start.blocks;
    const auto& [tx, ty, tz] = start.threads;
    try {
      const Grid grid{.blocks = {bx, by, bz},
                      .threads = {tx, ty, tz},
                      .shared_bytes = start.shared_bytes,
                      .stream = start.stream};
      auto run = peal::launch(grid, kKernel, *static_cast<Parameters*>(start.arguments[kAt])...);
      if (start.stream == nullptr) run.wait();
      return 0;
    } catch (const std::exception& error) {
      std::snprintf(start.error, start.error_bytes, "%s", error.what());
    } catch (...) {
      std::snprintf(start.error, start.error_bytes, "it threw what is no std::exception");
    }
    return 1;
  }
};

/// The Entry of a kernel; `name` is a literal.
template <auto kKernel>
constexpr Entry entry(const char* name) {
  using Of = Launcher<kKernel>;
  return {name, Of::kParameters.data(), Of::kParameters.size(), &Of::launch};
}

}  // namespace peal::table

/// Defines peal_kernel_table(), of the Entries given: once in a library.
#define PEAL_KERNEL_TABLE(...)                                                                     \
  extern "C" const peal::table::KernelTable* peal_kernel_table() {                                 \
    static constexpr peal::table::Entry kEntries[] = {__VA_ARGS__};                                \
    static constexpr peal::table::KernelTable kTable{peal::table::kVersion, peal::kContextVersion, \
                                                     kEntries, std::size(kEntries)};               \
    return &kTable;                                                                                \
  }

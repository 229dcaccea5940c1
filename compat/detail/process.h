// SPDX-License-Identifier: Apache-2.0
//
// What the library does for the calls of a host: joining and leaving, and operations as the plain
// data that peal's own calls from the host are made of (device/shared/kernel_arguments.h). Nothing
// here is a template: of thousands of names only those that a program calls cost its compiler
// anything.
//
// The guide's calls answer nothing or a number. What fails is told once, in one line on stderr, and
// the first failure stays for nvshmemx_peal_status().
#pragma once

#include <optional>
#include <string>

#include "compat/detail/state.h"
#include "device/shared/kernel_arguments.h"
#include "host/calls.h"

// The last parameter of what a call of the guide makes of itself: its name, for errors.
#define PEAL_COMPAT_CALLER const char* call = __builtin_FUNCTION()

namespace peal {
class Runtime;
}

namespace peal::compat {

/// How a PE finds the others; by neither of both: by the environment.
struct Joining {
  const void* mpi_comm = nullptr;  // a const MPI_Comm*
  std::optional<std::string> unique_id;
  int rank = 0;
  int size = 0;
};

/// Begins, or counts one more nvshmem_init(). 0, or not 0 once it has told why not: where the
/// process is in another job, too.
int begin(const Joining& joining, PEAL_COMPAT_CALLER);
/// Counts one nvshmem_finalize(); the last one ends the PE.
void end(PEAL_COMPAT_CALLER);
bool begun();
/// Fills 45 bytes: digits and a zero, of a job whose PE 0 the caller becomes. 0, or not 0.
int make_unique_id(char* text);
/// Ends the waits of all PEs, and this process.
[[noreturn]] void abort_job(int status, PEAL_COMPAT_CALLER);

Runtime* runtime_or_null();

/// The first failure so far: its Status, or -1 for what has none; and a sentence.
struct FirstFailure {
  int code;
  const char* text;
};
FirstFailure failure();

/// How the host makes a call: done when it returns, or when nvshmem_quiet() does, or in the order
/// of a stream.
struct HostCallSite {
  enum class When { kNow, kLater, kInOrder };
  const char* call;  // as errors name it
  When when;
  cudaStream_t stream;
};
inline HostCallSite now(const char* call) { return {call, HostCallSite::When::kNow, nullptr}; }
inline HostCallSite later(const char* call) { return {call, HostCallSite::When::kLater, nullptr}; }
inline HostCallSite in_order(const char* call, cudaStream_t stream) {
  return {call, HostCallSite::When::kInOrder, stream};
}

// All answer 0, or not 0 once they have told why not.

int make(const HostCallSite& site, const kernels::TransferArguments& call);
/// A meeting of all PEs that is called at once (`now`) also reports what kernels met with.
int make(const HostCallSite& site, const kernels::Word& call);
int make(const HostCallSite& site, nvshmem_team_t team, const kernels::Collective& call);
/// `count` transfers like the first one, each so many times its bytes behind the one before.
int make(const HostCallSite& site, const kernels::TransferArguments& first, const Strides& strides,
         size_t count);
/// Waits for `count` words, one behind the other. `status` must be null: it may be memory that only
/// kernels read.
int make(const HostCallSite& site, const kernels::Word& first, size_t count, const int* status);
/// What a call answers; 0 where it fails. In a stream's order: what the stream did is done.
uint64_t fetch(const HostCallSite& site, const kernels::Word& call);
/// The memory of `pe` as an address of this PE, or null.
void* address_at(const char* call, const void* symmetric, int pe);

template <class T>
kernels::Word wait_word(const T* at, int cmp, T value) {
  return detail::wait_call(at, sizeof(T), std::is_signed_v<T>, static_cast<Compare>(cmp),
                           detail::bits_of(value));
}

inline kernels::Collective reduction(kernels::Collective made, kernels::DataType type,
                                     kernels::Operation operation) {
  made.type = type;
  made.operation = operation;
  return made;
}

}  // namespace peal::compat

// The forms that calls have. KERNEL is what lanes do, those of `scope` together; HOST is, in
// parentheses, what make() takes behind the site of the call. RESULT is void, or int for 0 or not
// 0. Parameters come last.

#define PEAL_COMPAT_CTX ::peal::compat::context()
#define PEAL_COMPAT_UNORDERED ::peal::compat::unordered()
#define PEAL_COMPAT_PASS(...) __VA_ARGS__

// Defines a call that a lane of a kernel makes.
#define PEAL_COMPAT_LANE(RESULT, NAME, KERNEL, ...) \
  PEAL_COMPAT_LAZY PEAL_DEVICE RESULT NAME(__VA_ARGS__) { return KERNEL; }
// Defines a call that a warp or a block of a kernel makes.
#define PEAL_COMPAT_LANES(RESULT, STEM, SCOPE, KERNEL, ...)                    \
  PEAL_COMPAT_LAZY PEAL_DEVICE RESULT nvshmemx_##STEM##_##SCOPE(__VA_ARGS__) { \
    constexpr auto scope = ::peal::SCOPE;                                      \
    return KERNEL;                                                             \
  }
// Defines a call that a lane or the host makes; the host does it `now` or `later`.
#define PEAL_COMPAT_ONE(RESULT, STEM, WHEN, KERNEL, HOST, ...)                                   \
  PEAL_COMPAT_LAZY PEAL_HD RESULT nvshmem_##STEM(__VA_ARGS__) {                                  \
    [[maybe_unused]] constexpr auto scope = ::peal::thread;                                      \
    PEAL_COMPAT_BY_PLACE(                                                                        \
        KERNEL, static_cast<RESULT>(::peal::compat::make(::peal::compat::WHEN("nvshmem_" #STEM), \
                                                         PEAL_COMPAT_PASS HOST)));               \
  }
// Defines a call that the host makes in a stream's order.
#define PEAL_COMPAT_ON_STREAM(STEM, HOST, ...)                                                    \
  PEAL_COMPAT_LAZY inline int nvshmemx_##STEM##_on_stream(__VA_ARGS__ __VA_OPT__(, )              \
                                                              cudaStream_t stream) {              \
    return ::peal::compat::make(::peal::compat::in_order("nvshmemx_" #STEM "_on_stream", stream), \
                                PEAL_COMPAT_PASS HOST);                                           \
  }
// Defines a call in all of these forms.
#define PEAL_COMPAT_ALL(RESULT, STEM, WHEN, KERNEL, HOST, ...)   \
  PEAL_COMPAT_ONE(RESULT, STEM, WHEN, KERNEL, HOST, __VA_ARGS__) \
  PEAL_COMPAT_LANES(RESULT, STEM, warp, KERNEL, __VA_ARGS__)     \
  PEAL_COMPAT_LANES(RESULT, STEM, block, KERNEL, __VA_ARGS__)    \
  PEAL_COMPAT_ON_STREAM(STEM, HOST, __VA_ARGS__)

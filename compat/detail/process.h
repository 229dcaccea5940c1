// SPDX-License-Identifier: Apache-2.0
//
// The PE of the process: what nvshmem_init() begins and nvshmem_finalize() ends, and the one way by
// which calls from the host reach it.
//
// The guide's calls answer nothing or a number. What fails is told once, in one line on stderr, and
// the first failure stays for nvshmemx_peal_status().
#pragma once

#include <exception>
#include <type_traits>

#include "compat/detail/state.h"
#include "peal/peal.h"

namespace peal::compat {

/// How a PE finds the others; null and none: by the environment.
struct Joining {
  const void* mpi_comm = nullptr;  // a const MPI_Comm*
  const char* unique_id = nullptr;
  int rank = 0;
  int size = 0;
};

/// Begins, or counts one more nvshmem_init(). 0, or not 0 once it has told why not.
int begin(const char* call, const Joining& joining);
/// Counts one nvshmem_finalize(); the last one ends the PE.
void end(const char* call);
bool begun();
/// 44 digits and a zero, of a job that the caller's process begins as PE 0.
int make_unique_id(char* text);

/// The PE. Throws Error kInvalidArgument, naming `call`, before nvshmem_init().
Runtime& runtime(const char* call);
Runtime* runtime_or_null();
/// A cudaStream_t as the runtime takes it: on a CPU null is the stream of simt that has no name.
void* stream_of(cudaStream_t stream);

/// Prints "peal: <call>: <what>" and keeps the failure.
void tell(const char* call, const std::exception& error);
/// One line for the first failure of kernels, if there is one that was not told yet.
void tell_of_kernels(const char* call);
/// The first failure so far: its Status, -1 for what has none, and a sentence.
struct FirstFailure {
  int code;
  const char* text;
};
FirstFailure failure();

/// Runs `body` with the PE; what it throws is told, and answered as T{} (false).
template <class Body>
auto on_host(const char* call, const Body& body) -> decltype(body(runtime(call))) {
  using Answer = decltype(body(runtime(call)));
  try {
    return body(runtime(call));
  } catch (const std::exception& error) {
    tell(call, error);
  }
  if constexpr (!std::is_void_v<Answer>) return Answer{};
}

/// The same; 0 or not 0.
template <class Body>
int code_of(const char* call, const Body& body) {
  return on_host(call,
                 [&](Runtime& pe) {
                   body(pe);
                   return true;
                 })
             ? 0
             : 1;
}

/// Operations that are done when they return.
template <class Body>
auto at_once(const char* call, const Body& body) {
  return on_host(call, [&](Runtime& pe) { return body(pe.host()); });
}
/// The same for meetings of all PEs, which also tell of what kernels met with.
template <class Body>
void meet(const char* call, const Body& body) {
  at_once(call, body);
  tell_of_kernels(call);
}
/// Operations that host().quiet() completes.
template <class Body>
void later(const char* call, const Body& body) {
  on_host(call, [&](Runtime& pe) { (void)body(pe.host_nbi()); });
}
/// Operations in the order of a stream.
template <class Body>
int in_order(const char* call, cudaStream_t stream, const Body& body) {
  return code_of(call, [&](Runtime& pe) { body(pe.on(stream_of(stream))); });
}

/// Single elements, so many apart.
template <class T>
struct Strided {
  T* dst;
  const T* src;
  Strides strides;
  size_t count;
  int pe;
};
enum class Way { k_put, k_get };

/// One by one: what the host calls has no strides.
template <class T, class Calls>
void copy_strided(const Calls& calls, Way way, const Strided<T>& what) {
  for (size_t i = 0; i < what.count; ++i) {
    T* const dst = what.dst + static_cast<ptrdiff_t>(i) * what.strides.dst;
    const T* const src = what.src + static_cast<ptrdiff_t>(i) * what.strides.src;
    if (way == Way::k_put) (void)calls.put(dst, src, 1, what.pe);
    if (way == Way::k_get) (void)calls.get(dst, src, 1, what.pe);
  }
}
template <class T>
void strided_at_once(const char* call, Way way, const Strided<T>& what) {
  at_once(call, [&](const auto& host) { copy_strided(host, way, what); });
}
template <class T>
int strided_in_order(const char* call, cudaStream_t stream, Way way, const Strided<T>& what) {
  return in_order(call, stream, [&](const auto& on) { copy_strided(on, way, what); });
}

/// A value that a stream's order brings.
template <class T>
T value_in_order(const char* call, const T* source, int pe, cudaStream_t stream) {
  static_assert(sizeof(T) <= 8);
  return on_host(call, [&](Runtime& runtime) {
    CallTicket(runtime.on(stream_of(stream)).site()).wait();
    return runtime.host().template g<T>(source, pe);
  });
}

/// The team of a handle. Throws Error kInvalidArgument where it is none.
const Team& host_team(const char* call, nvshmem_team_t handle);

/// Collective calls of a team.
template <class Body>
int with_team(const char* call, nvshmem_team_t team, const Body& body) {
  return code_of(call, [&](Runtime& pe) { body(pe.host(), host_team(call, team)); });
}
template <class Body>
int with_team_in_order(const char* call, nvshmem_team_t team, cudaStream_t stream,
                       const Body& body) {
  return code_of(call, [&](Runtime& pe) { body(pe.on(stream_of(stream)), host_team(call, team)); });
}

}  // namespace peal::compat

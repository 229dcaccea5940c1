// SPDX-License-Identifier: Apache-2.0
//
// Order, meetings and collective calls: by a thread, a warp or a block of a kernel, from the host,
// and in a stream's order.
//
//   nvshmem_float_sum_reduce   nvshmemx_float_sum_reduce_block nvshmemx_float_sum_reduce_on_stream
#pragma once

#include "compat/detail/process.h"

namespace peal::compat {

// peal's types of the same bits, and all others as they are.
template <class T>
struct Element {
  using Type = T;
};
#if PEAL_CUDA
template <>
struct Element<__half> {
  using Type = Half;
};
template <>
struct Element<__nv_bfloat16> {
  using Type = BFloat16;
};
#endif
template <class T>
PEAL_HD typename Element<T>::Type* elements(T* data) {
  return reinterpret_cast<typename Element<T>::Type*>(data);
}
template <class T>
PEAL_HD const typename Element<T>::Type* elements(const T* data) {
  return reinterpret_cast<const typename Element<T>::Type*>(data);
}
/// Of bytes.
PEAL_HD std::byte* elements(void* data) { return static_cast<std::byte*>(data); }
PEAL_HD const std::byte* elements(const void* data) { return static_cast<const std::byte*>(data); }

}  // namespace peal::compat

#define PEAL_COMPAT_CTX ::peal::compat::context()

PEAL_HD void nvshmem_fence() {
  PEAL_COMPAT_BY_PLACE(
      (::peal::compat::keep(::peal::fence(PEAL_COMPAT_CTX))),
      (::peal::compat::at_once("nvshmem_fence", [](const auto& host) { host.fence(); })));
}
PEAL_HD void nvshmem_quiet() {
  PEAL_COMPAT_BY_PLACE(
      (::peal::compat::keep(::peal::quiet(PEAL_COMPAT_CTX))),
      (::peal::compat::at_once("nvshmem_quiet", [](const auto& host) { host.quiet(); })));
}
inline int nvshmemx_quiet_on_stream(cudaStream_t stream) {
  return ::peal::compat::in_order("nvshmemx_quiet_on_stream", stream,
                                  [](const auto& on) { on.quiet(); });
}

// All PEs: NAME is barrier_all or sync_all.
#define PEAL_COMPAT_MEET_ALL(NAME)                                                        \
  PEAL_HD void nvshmem_##NAME() {                                                         \
    PEAL_COMPAT_BY_PLACE(                                                                 \
        (::peal::compat::keep(::peal::NAME(PEAL_COMPAT_CTX))),                            \
        (::peal::compat::meet("nvshmem_" #NAME, [](const auto& host) { host.NAME(); }))); \
  }                                                                                       \
  PEAL_DEVICE void nvshmemx_##NAME##_warp() {                                             \
    ::peal::compat::keep(::peal::NAME(PEAL_COMPAT_CTX, ::peal::warp));                    \
  }                                                                                       \
  PEAL_DEVICE void nvshmemx_##NAME##_block() {                                            \
    ::peal::compat::keep(::peal::NAME(PEAL_COMPAT_CTX, ::peal::block));                   \
  }                                                                                       \
  inline int nvshmemx_##NAME##_on_stream(cudaStream_t stream) {                           \
    return ::peal::compat::in_order("nvshmemx_" #NAME "_on_stream", stream,               \
                                    [](const auto& on) { on.NAME(); });                   \
  }
PEAL_COMPAT_MEET_ALL(barrier_all)
PEAL_COMPAT_MEET_ALL(sync_all)

// A team's members: CALL is peal's name for it.
#define PEAL_COMPAT_MEET(NAME, CALL)                                                        \
  PEAL_HD int nvshmem_##NAME(nvshmem_team_t team) {                                         \
    PEAL_COMPAT_BY_PLACE(                                                                   \
        (::peal::compat::code(                                                              \
            ::peal::CALL(PEAL_COMPAT_CTX, ::peal::thread, ::peal::compat::team_of(team)))), \
        (::peal::compat::with_team("nvshmem_" #NAME, team,                                  \
                                   [](const auto& on, const auto& of) { on.CALL(of); })));  \
  }                                                                                         \
  PEAL_DEVICE int nvshmemx_##NAME##_warp(nvshmem_team_t team) {                             \
    return ::peal::compat::code(                                                            \
        ::peal::CALL(PEAL_COMPAT_CTX, ::peal::warp, ::peal::compat::team_of(team)));        \
  }                                                                                         \
  PEAL_DEVICE int nvshmemx_##NAME##_block(nvshmem_team_t team) {                            \
    return ::peal::compat::code(                                                            \
        ::peal::CALL(PEAL_COMPAT_CTX, ::peal::block, ::peal::compat::team_of(team)));       \
  }                                                                                         \
  inline int nvshmemx_##NAME##_on_stream(nvshmem_team_t team, cudaStream_t stream) {        \
    return ::peal::compat::with_team_in_order(                                              \
        "nvshmemx_" #NAME "_on_stream", team, stream,                                       \
        [](const auto& on, const auto& of) { on.CALL(of); });                               \
  }
PEAL_COMPAT_MEET(barrier, barrier)
PEAL_COMPAT_MEET(sync, sync)
PEAL_COMPAT_MEET(team_sync, sync)

#define PEAL_COMPAT_PASS(...) __VA_ARGS__

// PARAMETERS and the ARGUMENTS that peal takes behind the team, both in parentheses.
#define PEAL_COMPAT_COLLECTIVE(STEM, CALL, PARAMETERS, ARGUMENTS)                                \
  PEAL_HD int nvshmem_##STEM(PEAL_COMPAT_PASS PARAMETERS) {                                      \
    PEAL_COMPAT_BY_PLACE(                                                                        \
        (::peal::compat::code(::peal::CALL(PEAL_COMPAT_CTX, ::peal::thread,                      \
                                           ::peal::compat::team_of(team),                        \
                                           PEAL_COMPAT_PASS ARGUMENTS))),                        \
        (::peal::compat::with_team("nvshmem_" #STEM, team, [&](const auto& on, const auto& of) { \
          on.CALL(of, PEAL_COMPAT_PASS ARGUMENTS);                                               \
        })));                                                                                    \
  }                                                                                              \
  PEAL_COMPAT_COLLECTIVE_BY(STEM, CALL, PARAMETERS, ARGUMENTS, warp)                             \
  PEAL_COMPAT_COLLECTIVE_BY(STEM, CALL, PARAMETERS, ARGUMENTS, block)                            \
  inline int nvshmemx_##STEM##_on_stream(PEAL_COMPAT_PASS PARAMETERS, cudaStream_t stream) {     \
    return ::peal::compat::with_team_in_order(                                                   \
        "nvshmemx_" #STEM "_on_stream", team, stream,                                            \
        [&](const auto& on, const auto& of) { on.CALL(of, PEAL_COMPAT_PASS ARGUMENTS); });       \
  }
#define PEAL_COMPAT_COLLECTIVE_BY(STEM, CALL, PARAMETERS, ARGUMENTS, SCOPE)  \
  PEAL_DEVICE int nvshmemx_##STEM##_##SCOPE(PEAL_COMPAT_PASS PARAMETERS) {   \
    return ::peal::compat::code(::peal::CALL(PEAL_COMPAT_CTX, ::peal::SCOPE, \
                                             ::peal::compat::team_of(team),  \
                                             PEAL_COMPAT_PASS ARGUMENTS));   \
  }

#define PEAL_COMPAT_BUFFERS(T) nvshmem_team_t team, T *dest, const T *source
#define PEAL_COMPAT_DATA ::peal::compat::elements(dest), ::peal::compat::elements(source)

#define PEAL_COMPAT_MOVES(PREFIX, SUFFIX, T)                                                  \
  PEAL_COMPAT_COLLECTIVE(PREFIX##broadcast##SUFFIX, broadcast,                                \
                         (PEAL_COMPAT_BUFFERS(T), size_t nelems, int PE_root),                \
                         (PEAL_COMPAT_DATA, nelems, PE_root))                                 \
  PEAL_COMPAT_COLLECTIVE(PREFIX##fcollect##SUFFIX, all_gather,                                \
                         (PEAL_COMPAT_BUFFERS(T), size_t nelems), (PEAL_COMPAT_DATA, nelems)) \
  PEAL_COMPAT_COLLECTIVE(PREFIX##alltoall##SUFFIX, all_to_all,                                \
                         (PEAL_COMPAT_BUFFERS(T), size_t nelems), (PEAL_COMPAT_DATA, nelems))
#define PEAL_COMPAT_TYPED_MOVES(NAME, T) PEAL_COMPAT_MOVES(NAME##_, , T)
PEAL_COMPAT_RMA_TYPES(PEAL_COMPAT_TYPED_MOVES)
PEAL_COMPAT_MOVES(, mem, void)

#define PEAL_COMPAT_REDUCTION(NAME, T, OP, PEAL_OP)                        \
  PEAL_COMPAT_COLLECTIVE(NAME##_##OP##_reduce, all_reduce,                 \
                         (PEAL_COMPAT_BUFFERS(T), size_t nreduce),         \
                         (PEAL_COMPAT_DATA, nreduce, ::peal::op::PEAL_OP)) \
  PEAL_COMPAT_COLLECTIVE(NAME##_##OP##_reducescatter, reduce_scatter,      \
                         (PEAL_COMPAT_BUFFERS(T), size_t nreduce),         \
                         (PEAL_COMPAT_DATA, nreduce, ::peal::op::PEAL_OP))
#define PEAL_COMPAT_ARITHMETIC(NAME, T)         \
  PEAL_COMPAT_REDUCTION(NAME, T, sum, sum)      \
  PEAL_COMPAT_REDUCTION(NAME, T, prod, product) \
  PEAL_COMPAT_REDUCTION(NAME, T, min, min)      \
  PEAL_COMPAT_REDUCTION(NAME, T, max, max)
#define PEAL_COMPAT_LOGIC(NAME, T)             \
  PEAL_COMPAT_REDUCTION(NAME, T, and, bit_and) \
  PEAL_COMPAT_REDUCTION(NAME, T, or, bit_or)   \
  PEAL_COMPAT_REDUCTION(NAME, T, xor, bit_xor)
PEAL_COMPAT_RMA_TYPES(PEAL_COMPAT_ARITHMETIC)
PEAL_COMPAT_INTEGER_TYPES(PEAL_COMPAT_LOGIC)

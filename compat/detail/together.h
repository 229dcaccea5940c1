// SPDX-License-Identifier: Apache-2.0
//
// Order, meetings and collective calls: by a thread, a warp or a block of a kernel, from the host,
// and in a stream's order.
//
//   nvshmem_float_sum_reduce   nvshmemx_float_sum_reduce_block nvshmemx_float_sum_reduce_on_stream
#pragma once

#include <limits>

#include "compat/detail/process.h"

namespace peal::compat {

// peal's types of the same bits, and all others as they are.
template <class T>
struct Element {
  using Type = T;
};
#define PEAL_COMPAT_ELEMENT(T, OURS) \
  template <>                        \
  struct Element<T> {                \
    using Type = OURS;               \
  };
PEAL_COMPAT_HALF_ELEMENTS(PEAL_COMPAT_ELEMENT)
template <class T>
PEAL_HD typename Element<T>::Type* elements(T* data) {
  return reinterpret_cast<typename Element<T>::Type*>(data);
}
template <class T>
PEAL_HD const typename Element<T>::Type* elements(const T* data) {
  return reinterpret_cast<const typename Element<T>::Type*>(data);
}
/// Untyped memory is an array of bytes.
PEAL_HD std::byte* elements(void* data) { return static_cast<std::byte*>(data); }
PEAL_HD const std::byte* elements(const void* data) { return static_cast<const std::byte*>(data); }

}  // namespace peal::compat

#define PEAL_COMPAT_TEAM ::peal::compat::team_of(team)

// Defines a call of all PEs. NAME is the call's name in peal as well, CALL its number in the
// library's list.
#define PEAL_COMPAT_OF_ALL(FORMS, NAME, CALL)                                        \
  FORMS(void, NAME, now, ::peal::compat::keep(::peal::NAME(PEAL_COMPAT_CTX, scope)), \
        (::peal::detail::word_call(::peal::Call::CALL)))
PEAL_COMPAT_OF_ALL(PEAL_COMPAT_ONE, fence, kFence)
PEAL_COMPAT_OF_ALL(PEAL_COMPAT_ONE, quiet, kQuiet)
PEAL_COMPAT_ON_STREAM(quiet, (::peal::detail::word_call(::peal::Call::kQuiet)))
PEAL_COMPAT_OF_ALL(PEAL_COMPAT_ALL, barrier_all, kBarrierAll)
PEAL_COMPAT_OF_ALL(PEAL_COMPAT_ALL, sync_all, kSyncAll)

// PARAMETERS are those behind the team, ARGUMENTS what peal's OP takes behind it, both in
// parentheses. HOST is an expression, the call of the library.
#define PEAL_COMPAT_COLLECTIVE(STEM, PARAMETERS, OP, ARGUMENTS, HOST)                            \
  PEAL_COMPAT_ALL(int, STEM, now,                                                                \
                  ::peal::compat::code(::peal::OP(PEAL_COMPAT_CTX, scope,                        \
                                                  PEAL_COMPAT_TEAM PEAL_COMPAT_PASS ARGUMENTS)), \
                  (team, HOST), nvshmem_team_t team PEAL_COMPAT_PASS PARAMETERS)

#define PEAL_COMPAT_MEET(NAME, OP, CALL) \
  PEAL_COMPAT_COLLECTIVE(NAME, (), OP, (), ::peal::detail::collective_call(::peal::Call::CALL))
PEAL_COMPAT_MEET(barrier, barrier, kBarrier)
PEAL_COMPAT_MEET(sync, sync, kSync)
PEAL_COMPAT_MEET(team_sync, sync, kSync)

#define PEAL_COMPAT_BUFFERS(T) , T *dest, const T *source
#define PEAL_COMPAT_DATA , ::peal::compat::elements(dest), ::peal::compat::elements(source)
#define PEAL_COMPAT_HOST(CALL, T, COUNT, ROOT)                             \
  ::peal::detail::collective_call(::peal::Call::CALL, dest, source, COUNT, \
                                  ::peal::detail::size_of<T>(), ROOT)

#define PEAL_COMPAT_MOVES(PREFIX, SUFFIX, T)                                                      \
  PEAL_COMPAT_COLLECTIVE(                                                                         \
      PREFIX##broadcast##SUFFIX, (PEAL_COMPAT_BUFFERS(T), size_t nelems, int PE_root), broadcast, \
      (PEAL_COMPAT_DATA, nelems, PE_root), (PEAL_COMPAT_HOST(kBroadcast, T, nelems, PE_root)))    \
  PEAL_COMPAT_COLLECTIVE(PREFIX##fcollect##SUFFIX, (PEAL_COMPAT_BUFFERS(T), size_t nelems),       \
                         all_gather, (PEAL_COMPAT_DATA, nelems),                                  \
                         (PEAL_COMPAT_HOST(kAllGather, T, nelems, -1)))                           \
  PEAL_COMPAT_COLLECTIVE(PREFIX##alltoall##SUFFIX, (PEAL_COMPAT_BUFFERS(T), size_t nelems),       \
                         all_to_all, (PEAL_COMPAT_DATA, nelems),                                  \
                         (PEAL_COMPAT_HOST(kAllToAll, T, nelems, -1)))
#define PEAL_COMPAT_TYPED_MOVES(NAME, T) PEAL_COMPAT_MOVES(NAME##_, , T)
PEAL_COMPAT_RMA_TYPES(PEAL_COMPAT_TYPED_MOVES)
PEAL_COMPAT_MOVES(, mem, void)

// `which` of op:: has its name in Operation, too.
#define PEAL_COMPAT_HOST_REDUCTION(CALL, T, WHICH)                            \
  ::peal::compat::reduction(                                                  \
      PEAL_COMPAT_HOST(CALL, T, nreduce, -1),                                 \
      ::peal::detail::data_type<typename ::peal::compat::Element<T>::Type>(), \
      ::peal::kernels::Operation::WHICH)
#define PEAL_COMPAT_REDUCTION(NAME, T, WORD, WHICH)                                               \
  PEAL_COMPAT_COLLECTIVE(NAME##_##WORD##_reduce, (PEAL_COMPAT_BUFFERS(T), size_t nreduce),        \
                         all_reduce, (PEAL_COMPAT_DATA, nreduce, ::peal::op::WHICH),              \
                         (PEAL_COMPAT_HOST_REDUCTION(kAllReduce, T, WHICH)))                      \
  PEAL_COMPAT_COLLECTIVE(NAME##_##WORD##_reducescatter, (PEAL_COMPAT_BUFFERS(T), size_t nreduce), \
                         reduce_scatter, (PEAL_COMPAT_DATA, nreduce, ::peal::op::WHICH),          \
                         (PEAL_COMPAT_HOST_REDUCTION(kReduceScatter, T, WHICH)))
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

namespace peal::compat {

/// The largest x of the members' source[i] and its y; of several the smallest y.
template <class S, class Pair>
PEAL_DEVICE int reduce_to_largest(S scope, nvshmem_team_t team, Pair* dest, const Pair* source,
                                  size_t count) {
  Status status = Status::kOk;
  for (size_t i = 0; i < count && status == Status::kOk; ++i) {
    const double mine = source[i].x, place = source[i].y;
    scope.sync();  // dest may be source
    status =
        peal::all_reduce(context(), scope, team_of(team), &dest[i].x, &source[i].x, 1, op::max);
    if (status != Status::kOk) break;
    constexpr double kNowhere = std::numeric_limits<double>::infinity();
    if (scope.leader()) dest[i].y = mine == dest[i].x ? place : kNowhere;
    scope.sync();
    status = peal::all_reduce(context(), scope, team_of(team), &dest[i].y, &dest[i].y, 1, op::min);
  }
  return code(status);
}

}  // namespace peal::compat

// `Pair` is double2, which plain C++ does not know.
#define PEAL_COMPAT_MAXLOC(SCOPE)                                                              \
  template <class Pair>                                                                        \
  PEAL_DEVICE int nvshmemx_double2_maxloc_reduce_##SCOPE(nvshmem_team_t team, Pair* dest,      \
                                                         const Pair* source, size_t nreduce) { \
    return ::peal::compat::reduce_to_largest(::peal::SCOPE, team, dest, source, nreduce);      \
  }
PEAL_COMPAT_MAXLOC(warp)
PEAL_COMPAT_MAXLOC(block)

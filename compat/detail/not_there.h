// SPDX-License-Identifier: Apache-2.0
//
// Calls of the guide, or of its older editions, that peal does not have. A program that makes one
// does not compile, and the compiler's message says what to do instead.
#pragma once

#include "compat/detail/types.h"

namespace peal::compat {

/// False, but not before somebody asks.
template <class... Asked>
inline constexpr bool kThere = sizeof...(Asked) == ~size_t{0};

}  // namespace peal::compat

#define PEAL_COMPAT_NOT_THERE(name, instead)                                              \
  template <class... Arguments>                                                           \
  PEAL_HD int name(Arguments&&...) {                                                      \
    static_assert(::peal::compat::kThere<Arguments...>, #name ": not in peal. " instead); \
    return -1;                                                                            \
  }

#define PEAL_COMPAT_USE_TEAMS "Use the call that takes an nvshmem_team_t."

// Memory, contexts, teams.
PEAL_COMPAT_NOT_THERE(nvshmem_realloc, "Use nvshmem_malloc and copy.")
PEAL_COMPAT_NOT_THERE(nvshmem_ctx_create, "Use the default context; peal's own are in peal.h.")
PEAL_COMPAT_NOT_THERE(nvshmem_team_create_ctx, "Use the default context; peal's are in peal.h.")
PEAL_COMPAT_NOT_THERE(nvshmemx_team_init, "Use nvshmem_team_split_strided.")
PEAL_COMPAT_NOT_THERE(nvshmemx_team_get_uniqueid, "Use nvshmem_team_split_strided.")

// Queue pairs of the program's own.
#define PEAL_COMPAT_USE_QUEUES "peal has PEAL_QUEUES, and Runtime::make_context in peal.h."
PEAL_COMPAT_NOT_THERE(nvshmemx_qp_create, PEAL_COMPAT_USE_QUEUES)
PEAL_COMPAT_NOT_THERE(nvshmemx_qp_destroy, PEAL_COMPAT_USE_QUEUES)
PEAL_COMPAT_NOT_THERE(nvshmemx_qp_quiet, PEAL_COMPAT_USE_QUEUES)
PEAL_COMPAT_NOT_THERE(nvshmemx_qp_putmem_nbi, PEAL_COMPAT_USE_QUEUES)
PEAL_COMPAT_NOT_THERE(nvshmemx_qp_putmem_signal_nbi, PEAL_COMPAT_USE_QUEUES)

// Editions before teams.
PEAL_COMPAT_NOT_THERE(nvshmem_broadcast32, PEAL_COMPAT_USE_TEAMS)
PEAL_COMPAT_NOT_THERE(nvshmem_broadcast64, PEAL_COMPAT_USE_TEAMS)
PEAL_COMPAT_NOT_THERE(nvshmem_collect32, PEAL_COMPAT_USE_TEAMS)
PEAL_COMPAT_NOT_THERE(nvshmem_collect64, PEAL_COMPAT_USE_TEAMS)
PEAL_COMPAT_NOT_THERE(nvshmem_fcollect32, PEAL_COMPAT_USE_TEAMS)
PEAL_COMPAT_NOT_THERE(nvshmem_fcollect64, PEAL_COMPAT_USE_TEAMS)
PEAL_COMPAT_NOT_THERE(nvshmem_alltoall32, PEAL_COMPAT_USE_TEAMS)
PEAL_COMPAT_NOT_THERE(nvshmem_alltoall64, PEAL_COMPAT_USE_TEAMS)

#define PEAL_COMPAT_NOT_THERE_TYPED(NAME, T)                                         \
  PEAL_COMPAT_NOT_THERE(nvshmem_##NAME##_and_to_all, PEAL_COMPAT_USE_TEAMS)          \
  PEAL_COMPAT_NOT_THERE(nvshmem_##NAME##_or_to_all, PEAL_COMPAT_USE_TEAMS)           \
  PEAL_COMPAT_NOT_THERE(nvshmem_##NAME##_xor_to_all, PEAL_COMPAT_USE_TEAMS)          \
  PEAL_COMPAT_NOT_THERE(nvshmem_##NAME##_min_to_all, PEAL_COMPAT_USE_TEAMS)          \
  PEAL_COMPAT_NOT_THERE(nvshmem_##NAME##_max_to_all, PEAL_COMPAT_USE_TEAMS)          \
  PEAL_COMPAT_NOT_THERE(nvshmem_##NAME##_sum_to_all, PEAL_COMPAT_USE_TEAMS)          \
  PEAL_COMPAT_NOT_THERE(nvshmem_##NAME##_prod_to_all, PEAL_COMPAT_USE_TEAMS)         \
  PEAL_COMPAT_NOT_THERE(nvshmem_##NAME##_collect, "Use fcollect: blocks are alike.") \
  PEAL_COMPAT_NOT_THERE(nvshmem_##NAME##_wait, "Use wait_until.")
PEAL_COMPAT_RMA_TYPES(PEAL_COMPAT_NOT_THERE_TYPED)

// What a word that is set and waited for may be.
#define PEAL_COMPAT_WORD_OF_4_OR_8 "A word that is set or waited for has 4 or 8 bytes."
#define PEAL_COMPAT_NOT_A_WORD(NAME, T)                                          \
  PEAL_COMPAT_NOT_THERE(nvshmem_##NAME##_wait_until, PEAL_COMPAT_WORD_OF_4_OR_8) \
  PEAL_COMPAT_NOT_THERE(nvshmem_##NAME##_test, PEAL_COMPAT_WORD_OF_4_OR_8)       \
  PEAL_COMPAT_NOT_THERE(nvshmemx_##NAME##_signal, PEAL_COMPAT_WORD_OF_4_OR_8)
PEAL_COMPAT_NOT_A_WORD(short, short)
PEAL_COMPAT_NOT_A_WORD(ushort, unsigned short)

#define PEAL_COMPAT_NOT_IN_ORDER(NAME, T)                                  \
  PEAL_COMPAT_NOT_THERE(nvshmemx_##NAME##_wait_until_all_vector_on_stream, \
                        "Give a stream one wait_until_on_stream for each word.")
PEAL_COMPAT_AMO_TYPES(PEAL_COMPAT_NOT_IN_ORDER)

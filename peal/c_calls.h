/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations for C programs, as host/calls.h has them for C++. Each is there at once, and in the
 * order of a stream: a cudaStream_t, or on a CPU what peal_stream_create() answers.
 *
 *   peal_put(inbox, outbox, bytes, peer);                    returns when it is done
 *   peal_put_on_stream(inbox, outbox, bytes, peer, stream);  returns
 *   peal_barrier_all_on_stream(stream);
 *
 * All answer 0, or -1 and leave the reason for peal_error(). A wrong argument is refused before
 * anything is done. What goes wrong later in a stream peal_check() tells.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "peal/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  PEAL_INT8,
  PEAL_INT16,
  PEAL_INT32,
  PEAL_INT64,
  PEAL_UINT8,
  PEAL_UINT16,
  PEAL_UINT32,
  PEAL_UINT64,
  PEAL_HALF,
  PEAL_BFLOAT16,
  PEAL_FLOAT,
  PEAL_DOUBLE
} peal_type_t;

/** The last three are of integers. */
typedef enum { PEAL_SUM, PEAL_PRODUCT, PEAL_MIN, PEAL_MAX, PEAL_AND, PEAL_OR, PEAL_XOR } peal_op_t;

typedef enum { PEAL_EQ, PEAL_NE, PEAL_GT, PEAL_GE, PEAL_LT, PEAL_LE } peal_compare_t;
typedef enum { PEAL_SIGNAL_SET, PEAL_SIGNAL_ADD } peal_signal_kind_t;

typedef enum {
  PEAL_ATOMIC_FETCH,
  PEAL_ATOMIC_SET,
  PEAL_ATOMIC_SWAP,
  PEAL_ATOMIC_COMPARE_SWAP,
  PEAL_ATOMIC_ADD,
  PEAL_ATOMIC_AND,
  PEAL_ATOMIC_OR,
  PEAL_ATOMIC_XOR
} peal_atomic_t;

/** What to do to which 8-byte symmetric word of which PE. */
typedef struct {
  uint64_t* word;
  uint64_t value;
  int pe;
  peal_signal_kind_t kind;
} peal_signal_t;

/** Blocks of a buffer, one for each member, in elements; the lists lie in memory of kernels. */
typedef struct {
  const int64_t* counts;
  const int64_t* displacements;
} peal_blocks_t;

/** The elements of a collective call: dst and src are symmetric, `count` is for one member. */
typedef struct {
  void* dst;
  const void* src;
  size_t count;
  peal_type_t type;
} peal_buffers_t;

typedef void* peal_stream_t;
typedef struct peal_team* peal_team_t;

/** A stream of a CPU. NULL, with a reason, where kernels run on a GPU: cudaStreamCreate is there.
 */
peal_stream_t peal_stream_create(void);
/** Returns when its work is done. */
int peal_stream_synchronize(peal_stream_t stream);
/** Waits for its work, too. NULL is no stream, and no error. */
int peal_stream_destroy(peal_stream_t stream);
/** The stream in which calls without one are made, one behind the other. It is not destroyed; NULL
 * before peal_init. */
peal_stream_t peal_own_stream(void);

/** A place in a stream. */
typedef struct peal_ticket* peal_ticket_t;
/** Behind all that `stream` was given so far. NULL, with a reason, where it captures a graph. To be
 * freed before peal_finalize(). */
peal_ticket_t peal_ticket_create(peal_stream_t stream);
/** 1 where the stream has come there, else 0. */
int peal_ticket_test(peal_ticket_t ticket);
/** Returns when it has; -1 also for what has gone wrong on this PE by then, as peal_check(). */
int peal_ticket_wait(peal_ticket_t ticket);
/** Waits for nothing. NULL is no ticket, and no error. */
int peal_ticket_free(peal_ticket_t ticket);

/** The team of all PEs; it is not freed. NULL before peal_init. */
peal_team_t peal_team_world(void);
/** Collective among the members of `parent`: teams of those with one color, by key. *team is NULL
 * for a negative color. */
int peal_team_split(peal_team_t parent, int color, int key, peal_team_t* team);
/** Collective among the members. */
int peal_team_free(peal_team_t team);
/** This PE's number in the team; how many members it has; the PE that is a member. -1 and an error
 * for a team of NULL, and a member that is none. */
int peal_team_my_pe(peal_team_t team);
int peal_team_n_pes(peal_team_t team);
int peal_team_world_pe(peal_team_t team, int member);
/** Fills in the team as kernels take it, a peal::Team, as peal_context() does a context. `bytes`:
 * sizeof(peal::Team) of the headers that the kernel was compiled with. */
int peal_team_value(peal_team_t team, void* value, size_t bytes);

/** Memory of this PE for transfers at home; collective: a window of all PEs, of one size. What
 * began at the address is ended by the calls behind them. As Runtime has them. */
int peal_register_local(void* address, size_t bytes);
int peal_register_window(void* address, size_t bytes);
int peal_unregister_local(const void* address);
int peal_unregister_window(const void* address);
/** The same, found again where the same memory was registered so before; it ends by itself after
 * its owner has freed the memory: WindowOptions::cached. Memory of a GPU, or pinned by CUDA. */
int peal_register_local_cached(void* address, size_t bytes);
int peal_register_window_cached(void* address, size_t bytes);

/** One value of 1, 2, 4 or 8 bytes from a peer, and the value that a word of 4 or 8 bytes had
 * before; `expected` is for PEAL_ATOMIC_COMPARE_SWAP. At once only: they answer something. */
int peal_g(void* value, const void* src, size_t bytes, int pe);
int peal_atomic_fetching(peal_atomic_t what, void* dst, uint64_t value, uint64_t expected, int pe,
                         uint64_t* old);
int peal_atomic_fetching32(peal_atomic_t what, void* dst, uint32_t value, uint32_t expected, int pe,
                           uint32_t* old);

/* Both forms: peal_put(parameters) and peal_put_on_stream(parameters, stream). */
#define PEAL_C_FORMS(name, ...) \
  int name(__VA_ARGS__);        \
  int name##_on_stream(__VA_ARGS__, peal_stream_t stream);

PEAL_C_FORMS(peal_put, void* dst, const void* src, size_t bytes, int pe)
PEAL_C_FORMS(peal_get, void* dst, const void* src, size_t bytes, int pe)

/** Whoever sees the signal sees the data. */
PEAL_C_FORMS(peal_put_signal, void* dst, const void* src, size_t bytes, peal_signal_t signal)

/** Whoever sees it sees what this stream had put to that PE before. */
PEAL_C_FORMS(peal_signal, peal_signal_t signal)

/** One value of 1, 2, 4 or 8 bytes. */
PEAL_C_FORMS(peal_p, void* dst, uint64_t value, size_t bytes, int pe)

/** Nothing comes back; of 4 or 8 bytes. */
PEAL_C_FORMS(peal_atomic, peal_atomic_t what, void* dst, uint64_t value, size_t bytes, int pe)

/** Until a word of this PE, an integer of 4 or 8 bytes, compares so. */
PEAL_C_FORMS(peal_wait_until, const void* word, peal_type_t type, peal_compare_t compare,
             uint64_t value)

int peal_fence(void);
int peal_fence_on_stream(peal_stream_t stream);
int peal_quiet(void);
int peal_quiet_on_stream(peal_stream_t stream);
int peal_sync_all(void);
int peal_sync_all_on_stream(peal_stream_t stream);
int peal_barrier_all(void);
int peal_barrier_all_on_stream(peal_stream_t stream);

/** Meetings of a team's members; a barrier also completes what was put. */
PEAL_C_FORMS(peal_team_sync, peal_team_t team)
PEAL_C_FORMS(peal_team_barrier, peal_team_t team)

/** Collective among the members, with the same arguments. */
PEAL_C_FORMS(peal_broadcast, peal_team_t team, peal_buffers_t buffers, int root)
PEAL_C_FORMS(peal_all_gather, peal_team_t team, peal_buffers_t buffers)
PEAL_C_FORMS(peal_all_to_all, peal_team_t team, peal_buffers_t buffers)

/** The count of `buffers` is not looked at; the lists of what is received are symmetric. */
PEAL_C_FORMS(peal_all_to_all_v, peal_team_t team, peal_buffers_t buffers, peal_blocks_t received,
             peal_blocks_t sent)
PEAL_C_FORMS(peal_all_reduce, peal_team_t team, peal_buffers_t buffers, peal_op_t op)
PEAL_C_FORMS(peal_reduce, peal_team_t team, peal_buffers_t buffers, peal_op_t op, int root)
PEAL_C_FORMS(peal_reduce_scatter, peal_team_t team, peal_buffers_t buffers, peal_op_t op)
PEAL_C_FORMS(peal_scan, peal_team_t team, peal_buffers_t buffers, peal_op_t op)
PEAL_C_FORMS(peal_exclusive_scan, peal_team_t team, peal_buffers_t buffers, peal_op_t op)

#undef PEAL_C_FORMS

#ifdef __cplusplus
}
#endif

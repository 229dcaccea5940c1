/* SPDX-License-Identifier: Apache-2.0
 *
 * peal for C programs: one PE per process, the calls an OpenSHMEM programmer expects. Transfers,
 * signals, atomics, teams and collective calls are in peal/c_calls.h, files in peal/c_storage.h.
 *
 *   if (peal_init() != 0) { fprintf(stderr, "%s\n", peal_error()); return 1; }
 *   double* x = peal_malloc(1024 * sizeof *x);
 *   ...
 *   peal_finalize();
 *
 * Calls that can fail answer 0 or a pointer on success, -1 or NULL otherwise; peal_error() then
 * says why, in one sentence with the remedy. In a child of fork() all calls fail. Kernels are C++
 * (peal/peal.h); peal_runtime() leads there.
 */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
namespace peal {
class Runtime;
}
/** The runtime behind the C functions, or null before peal_init: for kernels and contexts. */
peal::Runtime* peal_runtime();
extern "C" {
#endif

/** Joins the job that the environment describes (mpirun, PEAL_TCP_ID, or alone). Collective.
 * Symmetric memory lies where kernels run: PEAL_TARGET=gpu or cpu; auto is a GPU where the machine
 * has one. -1 when already initialised. */
int peal_init(void);

/** Ends this PE's part in the job: once streams have done what they were given, and the other PEs
 * have come to their end, for which it waits as long as they run. Collective. Symmetric memory is
 * gone afterwards. -1 when not initialised; and where a PE died, left before or is stopped, or
 * kernels ran into a failure that nobody has asked for (docs/errors.md): this PE has ended then,
 * too. Where it is not called, exit() and the return of main() do the same. */
int peal_finalize(void);

/** Ends this PE's part in the job at once, as an exception in C++ does: it waits for nobody, and
 * waits of the other PEs end with "lost PE", who are told `reason` (NULL: none). Calls of other
 * threads have to be over. -1 when not initialised. */
int peal_leave(const char* reason);

/** Ends every wait of kernels and of calls of peal/c_calls.h, on all PEs, with "aborted", the
 * number of this PE and `reason` (NULL: none). Not collective, never waits, and other threads may
 * be in calls. Contexts stay aborted until Runtime::recover(). */
int peal_abort(const char* reason);

/** This PE's number, 0 .. peal_n_pes() - 1; -1 before peal_init. */
int peal_my_pe(void);

/** Number of PEs; -1 before peal_init. */
int peal_n_pes(void);

/** Collective: `bytes` of symmetric memory, aligned to 128. NULL for 0 bytes (no error) or on
 * error. */
void* peal_malloc(size_t bytes);

/** Collective: zeroed symmetric memory for `count` objects of `bytes`. */
void* peal_calloc(size_t count, size_t bytes);

/** Collective: symmetric memory at a multiple of `alignment`, a power of two up to 2 MiB. */
void* peal_align(size_t alignment, size_t bytes);

/** Collective: zeroed symmetric memory of the host beside a GPU's (docs/heap.md); where kernels run
 * on a CPU like peal_calloc. */
void* peal_calloc_host(size_t count, size_t bytes);

/** Collective: gives symmetric memory back. NULL is no block, and no error, if all PEs give it. */
int peal_free(void* pointer);

/** Begins anew after the end of a PE, with a process in its place (peal-run --restart N).
 * Collective among the PEs that live; each new process calls peal_init(). What there was is gone,
 * as after peal_finalize(): symmetric memory, windows, teams, tickets, peal_own_stream(). No kernel
 * may be running on this PE. -1 and PEAL_ERROR_INVALID_ARGUMENT where all PEs live,
 * PEAL_ERROR_UNSUPPORTED in a job of another launcher: then nothing has changed. After any other
 * error, such as PEAL_ERROR_PEER_LOST where one more PE ended meanwhile, it may be called again,
 * and until it succeeds all other calls fail. */
int peal_rejoin(void);

/** The same, but symmetric memory stays, with what it holds, at the same addresses: for all PEs
 * that live, or for none. A new process has the same blocks, of zeros: peal_block(). Transfers that
 * were under way when the PE ended may have arrived, in part too. PEAL_ERROR_UNSUPPORTED in checked
 * mode (PEAL_CHECK), and PEAL_ERROR_CONFIGURATION where another PE has not called this, but
 * peal_rejoin(), in a job that needs a NIC only now, or where one PE alone has made or freed a
 * block, as the other ended: then peal_rejoin() can be called. */
int peal_rejoin_keeping_heap(void);

/** The block of symmetric memory with that number, and its bytes, if `bytes` is not NULL: blocks
 * count from 0 in the order of their allocation, which is that of all PEs; one that is freed counts
 * no more. NULL, and no error, where there are not so many. */
void* peal_block(size_t number, size_t* bytes);

/** How often the job was rejoined, the same on all PEs: 0 from its start on, more after each
 * peal_rejoin(); a new process learns it from the others. -1 before peal_init. */
long long peal_epoch(void);

/** What this PE's address of symmetric memory stands for at `pe`, for loads and stores of this PE;
 * NULL, and no error, where only the NIC reaches it, and for what is not symmetric. */
void* peal_ptr(const void* symmetric, int pe);

/** Fills in the default context as kernels take it, a peal::Context: for programs that launch
 * kernels by a list of pointers to arguments. `bytes` and `version`: sizeof(peal::Context) and
 * peal::kContextVersion of the headers that the kernel was compiled with; -1 where the library is
 * of others. Valid until peal_finalize(). */
int peal_context(void* context, size_t bytes, unsigned version);

/** Collective: returns once every PE has called it. Says nothing of transfers; kernels have quiet
 * and barrier_all. */
int peal_barrier(void);

/** 0 if no kernel of this PE ran into an error so far, else -1. */
int peal_check(void);

/** For a person who asks why nothing moves, while other threads wait: Runtime::dump(). Valid until
 * the thread's next call of this function; NULL before peal_init. */
const char* peal_dump(void);

/** The kind of an error, as peal::ErrorCode has it. Numbers stay; later versions may have more. */
typedef enum {
  PEAL_ERROR_NONE = 0,             /**< no call of this thread has failed yet */
  PEAL_ERROR_INVALID_ARGUMENT = 1, /**< a value that cannot be right, or a call at the wrong time,
                                as before peal_init; nothing was done */
  PEAL_ERROR_OUT_OF_MEMORY = 2,    /**< heap, host or device memory is used up */
  PEAL_ERROR_UNSUPPORTED = 3,      /**< this machine, NIC or library cannot do it */
  PEAL_ERROR_CONFIGURATION = 4,    /**< a PEAL_* variable is unknown or malformed */
  PEAL_ERROR_SYSTEM = 5,           /**< a system or verbs call failed, or a kernel did */
  PEAL_ERROR_TIMEOUT = 6,          /**< a deadline of the start, the end or a host's call passed;
                                of a wait or a kernel it is PEAL_ERROR_SYSTEM */
  PEAL_ERROR_PEER_LOST = 7,        /**< another PE died or left */
  PEAL_ERROR_INTERNAL = 8          /**< a defect of peal */
} peal_error_code_t;

/** The kind of what peal_error() tells, for programs: texts are for people, and change. */
peal_error_code_t peal_error_code(void);

/** Why the last call of this thread that failed did so; "" before the first. As errno it stays when
 * later calls succeed: look at what a call answers, and here for the reason. Valid until the
 * thread's next call that fails. */
const char* peal_error(void);

#ifdef __cplusplus
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What went wrong first on this PE, and what its kernels have done, for C programs, as Runtime has
 * them for C++ (host/failures, docs/errors.md). Both may be asked while kernels run and other
 * threads wait; peal_dump() of peal/c_api.h has the same as a text.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "peal/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/** As peal::Failure has it: what a failure does not have is -1, 0 or "". */
typedef struct {
  int status;              /**< as peal::Status counts; 0: nothing has failed */
  const char* status_name; /**< "ok", "peer lost" */
  int pe;                  /**< the peer concerned; of an abort the PE that called it */
  int context;             /**< by its slot */
  int queue;               /**< to that peer */
  uint64_t wqe_index;      /**< of a queue's error, as the three that follow */
  uint8_t opcode;
  uint8_t syndrome;
  uint8_t vendor_syndrome;
  uint64_t time_ns; /**< on the clock of the kernels */
  const char* nic;  /**< by which the queue goes */
  const char* text; /**< one sentence with all of it */
} peal_failure_t;

/** Fills in the first failure of this PE. Texts are valid until the thread's next call of this
 * function. -1 before peal_init. */
int peal_failure(peal_failure_t* failure);

/** Calls of one name that have ended. */
typedef struct {
  const char* call; /**< "put" */
  uint64_t calls;
  uint64_t bytes;
  uint64_t time_ns; /**< from begin to end, added up over lanes */
  uint64_t timeouts;
  uint64_t failed; /**< otherwise than by a timeout */
} peal_call_count_t;

/** What the kernels of one context have done, as peal::Counters has it. */
typedef struct {
  unsigned context; /**< its slot */
  int ran;          /**< 0: no kernel that was compiled with the recorder has called */
  uint64_t looks;
  uint64_t posted_blocks;
  uint64_t rung_blocks;
  uint64_t completed_blocks;
  const peal_call_count_t* by_call; /**< of those that were made */
  size_t call_count;
} peal_counters_t;

/** Answers how many contexts are counted, none without PEAL_RECORD, and in *contexts where they
 * are: valid until the thread's next call of this function. -1 before peal_init. */
int peal_counters(const peal_counters_t** contexts);

#ifdef __cplusplus
}
#endif

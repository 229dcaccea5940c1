/* SPDX-License-Identifier: Apache-2.0
 *
 * A C program of a user: every PE puts a word at the next one.
 */
#include <stdint.h>
#include <stdio.h>

#include "peal/c_api.h"
#include "peal/c_calls.h"
#include "peal/c_failures.h"
#include "peal/c_storage.h"

int main(void) {
  if (peal_init() != 0) {
    fprintf(stderr, "%s\n", peal_error());
    return 1;
  }
  const int n = peal_n_pes();
  const int me = peal_my_pe();
  uint64_t* const box = peal_calloc(1, sizeof *box);
  if (box == NULL || peal_p(box, (uint64_t)me + 1, sizeof *box, (me + 1) % n) != 0 || peal_barrier_all() != 0) {
    fprintf(stderr, "%s\n", peal_error());
    return 1;
  }
  const uint64_t want = (uint64_t)((me + n - 1) % n) + 1;
  printf("C: PE %d of %d has %llu\n", me, n, (unsigned long long)*box);
  double* const sum = peal_calloc(2, sizeof *sum);
  double* const mine = sum + 1;
  const size_t count = 1;
  *mine = me + 1;
  peal_buffers_t buffers = {sum, mine, count, PEAL_DOUBLE};
  if (peal_all_reduce(peal_team_world(), buffers, PEAL_SUM) != 0) fprintf(stderr, "%s\n", peal_error());
  const int good = *box == want && *sum == n * (n + 1) / 2.0;
  return peal_finalize() == 0 && good ? 0 : 1;
}

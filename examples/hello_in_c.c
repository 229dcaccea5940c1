/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include "peal/c_calls.h"

int main(void) {
  if (peal_init() != 0) return fprintf(stderr, "%s\n", peal_error()), 1;
  int* inbox = peal_calloc(1, sizeof *inbox);
  int me = peal_my_pe();
  peal_p(inbox, (uint64_t)me, sizeof me, (me + 1) % peal_n_pes());  /* into the next PE's inbox */
  peal_barrier_all();                                               /* every value has arrived */
  printf("PE %d: hello from PE %d\n", me, *inbox);
  return peal_finalize() != 0;
}

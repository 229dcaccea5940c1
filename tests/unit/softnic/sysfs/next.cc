// SPDX-License-Identifier: Apache-2.0
//
// One of two libraries for sysfs_test: the first one asks for the next `peal_order`.
#include <dlfcn.h>

extern "C" {

int peal_order() { return PEAL_ORDER; }

#if PEAL_ORDER == 0
// No tail call, which would make its own caller the one that asks.
void peal_next_order(void** answer) { *answer = dlsym(RTLD_NEXT, "peal_order"); }
#endif
}

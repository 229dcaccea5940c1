// SPDX-License-Identifier: Apache-2.0
#include "simt/lanes/plain_access.h"

#include "simt/lanes/block.h"
#include "simt/lanes/suspend.h"

namespace peal::simt {

constinit AccessObserver access_observer = nullptr;
constinit bool accesses_are_told = false;

void observe_accesses(AccessObserver observer) {
  __atomic_store_n(&access_observer, observer, __ATOMIC_RELEASE);
}

void tell_access(const PlainAccess& access) {
  Lane* const lane = current_lane();
  const AccessObserver observer = __atomic_load_n(&access_observer, __ATOMIC_ACQUIRE);
  // An observer may use an inline function that the linker took from a kernel's translation unit.
  if (lane == nullptr || observer == nullptr || lane->observed) return;
  lane->observed = true;
  observer(access);
  lane->observed = false;
}

}  // namespace peal::simt

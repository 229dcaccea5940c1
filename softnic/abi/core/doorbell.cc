// SPDX-License-Identifier: Apache-2.0
//
// What libpeal_softnic.so tells the preload (softnic/sysfs/doorbell.cc) about its doorbell pages.
#include "softnic/abi/core/context.h"
#include "softnic/abi/core/guard.h"
#include "softnic/abi/core/memory.h"

using namespace peal::softnic::abi;

extern "C" {

/// 1 for an address within a doorbell page of a device that this process has open, else 0.
int peal_softnic_is_doorbell(const void* address) {
  bool found = false;
  answer_error([&] {
    for (const auto& [known, context] : process().contexts) {
      found = found || context->has_doorbell(address);
    }
  });
  return found ? 1 : 0;
}
}

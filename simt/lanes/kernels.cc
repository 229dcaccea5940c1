// SPDX-License-Identifier: Apache-2.0
#include "simt/lanes/kernels.h"

#include <map>
#include <mutex>

#include "base/immortal.h"
#include "simt/lanes/launch.h"

namespace peal::simt {
namespace {

struct Offered {
  std::mutex mutex;
  std::map<const void*, BindKernel> by_address;
};

// Files add to it before main() begins, and no object of main() could have it.
Offered& offered() {
  static Immortal<Offered> the_kernels;
  return *the_kernels;
}

}  // namespace

void offer_kernel(const void* kernel, BindKernel bind) {
  const std::lock_guard lock(offered().mutex);
  offered().by_address[kernel] = bind;
}

std::function<void()> bind_kernel(const void* kernel, void* const* arguments) {
  BindKernel bind = nullptr;
  {
    const std::lock_guard lock(offered().mutex);
    const auto found = offered().by_address.find(kernel);
    if (found != offered().by_address.end()) bind = found->second;
  }
  if (bind == nullptr) {
    throw LaneError(
        "kernel started by its address: no OfferedKernel<&kernel> in the file that has it");
  }
  return bind(arguments);
}

}  // namespace peal::simt

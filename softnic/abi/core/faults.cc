// SPDX-License-Identifier: Apache-2.0
//
// Functions that libpeal_softnic.so has beside rdma-core's, which whoever wants them finds by
// dlsym: faults on demand, for the NICs that this process has open; what the preload
// (softnic/sysfs/doorbell.cc) asks about doorbell pages; what errno and a syndrome have no room
// for.
#include <cstdio>
#include <stdexcept>

#include "softnic/abi/core/context.h"
#include "softnic/abi/core/guard.h"
#include "softnic/engine/fault_plan.h"

namespace peal::softnic::abi {
namespace {

void explain(const char* why, char* error, size_t bytes) {
  if (error != nullptr && bytes > 0) std::snprintf(error, bytes, "%s", why);
}

/// 0, or errno with the reason in `error`.
int set_faults(const char* plan, char* error, size_t bytes) {
  return answer_error([&] {
    std::vector<std::shared_ptr<SoftwareNic>> open;
    for (const auto& device : process().known) {
      if (auto nic = device->nic.lock()) open.push_back(std::move(nic));
    }
    if (open.empty()) {
      explain("this process has no NIC open", error, bytes);
      refuse(ENODEV);
    }
    FaultPlan faults;
    try {
      faults = parse_fault_plan(plan == nullptr ? "" : plan);
    } catch (const std::invalid_argument& wrong) {
      explain(wrong.what(), error, bytes);
      refuse(EINVAL);
    }
    for (const auto& nic : open) {
      const Refusal refusal = nic->set_faults(faults);
      if (!refusal.refused()) continue;
      explain(refusal.reason, error, bytes);
      refuse(EOPNOTSUPP);
    }
  });
}

}  // namespace

extern "C" {

/// Replaces the fault plan of this process's open NICs. Answers 0, or an errno value with one line
/// that says why in `error` (of `bytes`, may be null): EINVAL for a plan that is not one, ENODEV
/// while no device is open, EOPNOTSUPP on the GPU engine. The old plan then stays.
int peal_softnic_inject(const char* plan, char* error, size_t bytes) {
  return set_faults(plan, error, bytes);
}

/// Ends all faults: what was held up goes on, a stopped NIC too. Answers as peal_softnic_inject.
int peal_softnic_clear_faults() { return set_faults(nullptr, nullptr, 0); }

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

/// Which fabric the device's NIC is on: a number that NICs share if they can reach each other, or 0
/// for one with an address (PEAL_SOFTNIC_UDP), which reaches other NICs as hardware does; and in
/// `place` (of `bytes`) the folder of its files. Answers 0 or an errno value.
int peal_softnic_fabric(ibv_context* context, uint64_t* number, char* place, size_t bytes) {
  return answer_error([&] {
    const SoftwareNic& nic = VerbsContext::of(context).nic();
    *number = nic.fabric();
    explain(nic.directory().c_str(), place, bytes);
  });
}

/// The queues of this device will be in host memory: its engine stays on the CPU, whatever memory
/// is registered (PEAL_SOFTNIC_ENGINE=auto). Answers 0 or an errno value.
int peal_softnic_keep_on_cpu(ibv_context* context) {
  return answer_error([&] { VerbsContext::of(context).nic().keep_on_cpu(); });
}

/// Why things fail, in `text` (of `bytes`), "" where there is nothing to say: without a context
/// what this thread's last call that failed had to say beside its errno, with one the last trouble
/// of the device's NIC with its fabric.
void peal_softnic_why(ibv_context* context, char* text, size_t bytes) {
  explain(why_refused(), text, bytes);
  if (context == nullptr) return;
  answer_error([&] { explain(VerbsContext::of(context).nic().trouble().c_str(), text, bytes); });
}

}  // extern "C"
}  // namespace peal::softnic::abi

// SPDX-License-Identifier: Apache-2.0
//
// Fault plans for the software NIC of this process, through the two functions its library exports.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <stdexcept>
#include <string>

namespace peal::fault_test {

/// The software NIC's own door. A device must be open.
class Injector {
 public:
  Injector() {
    void* const library = dlopen("libpeal_softnic.so", RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) throw std::runtime_error("the software NIC is not loaded");
    inject_ = reinterpret_cast<decltype(inject_)>(dlsym(library, "peal_softnic_inject"));
    clear_ = reinterpret_cast<decltype(clear_)>(dlsym(library, "peal_softnic_clear_faults"));
  }

  /// Replaces the plan. Throws what is wrong with it.
  void inject(const std::string& plan) const {
    char why[256] = "";
    if (inject_(plan.c_str(), why, sizeof(why)) != 0) throw std::runtime_error(why);
  }
  void clear() const {
    if (clear_() != 0) throw std::runtime_error("the faults cannot be cleared");
  }

 private:
  int (*inject_)(const char*, char*, size_t);
  int (*clear_)();
};

}  // namespace peal::fault_test

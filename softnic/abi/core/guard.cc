// SPDX-License-Identifier: Apache-2.0
//
// Refusals, exceptions and firmware statuses as errno values.
#include "softnic/abi/core/guard.h"

#include <cstdio>
#include <new>
#include <stdexcept>
#include <system_error>

#include "softnic/abi/core/table.h"

namespace peal::softnic::abi {

void refuse(int error) { throw Errno(error); }

int errno_of(CommandStatus status) {
  constexpr Row<CommandStatus, int> kErrors[] = {
      {CommandStatus::kOk, 0},
      {CommandStatus::kBadOperation, EINVAL},
      {CommandStatus::kBadParameter, EINVAL},
      {CommandStatus::kBadResource, EINVAL},
      {CommandStatus::kBadQpState, EINVAL},
      {CommandStatus::kBadSize, EINVAL},
      {CommandStatus::kBusy, EBUSY},
      {CommandStatus::kNoResources, EAGAIN},
  };
  return right_of(kErrors, status, EIO);
}

void require(const Refusal& refusal) {
  if (refusal.refused()) refuse(errno_of(refusal.status));
}

uint32_t require(const Created& created) {
  require(created.refusal);
  return created.number;
}

std::recursive_mutex& control_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

int errno_of_current_exception() noexcept {
  try {
    throw;
  } catch (const Errno& failure) {
    return failure.value();
  } catch (const std::system_error& failure) {
    return failure.code().value() > 0 ? failure.code().value() : EIO;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  } catch (const std::invalid_argument& failure) {
    // A PEAL_SOFTNIC_* variable: errno has no room for which one, nor for what it should be.
    std::fprintf(stderr, "softnic: %s\n", failure.what());
    return EINVAL;
  } catch (const std::runtime_error& failure) {
    // The GPU engine's: what to do about it is in the text.
    std::fprintf(stderr, "softnic: %s\n", failure.what());
    return EFAULT;
  } catch (...) {
    return EIO;
  }
}

}  // namespace peal::softnic::abi

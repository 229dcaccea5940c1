// SPDX-License-Identifier: Apache-2.0
//
// Refusals, exceptions and firmware statuses as errno values.
#include "softnic/abi/core/guard.h"

#include <cstdio>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "base/of_thread.h"

namespace peal::softnic::abi {
namespace {

struct Refused;
std::string& why() { return of_thread<std::string, Refused>(); }

/// errno has no room for which file or variable, nor for what it should be.
int explained(int error, std::string_view text, const char* remedy = "") noexcept {
  constexpr std::string_view kWho = "softnic: ";
  if (text.starts_with(kWho)) text.remove_prefix(kWho.size());
  std::fprintf(stderr, "softnic: %.*s%s\n", static_cast<int>(text.size()), text.data(), remedy);
  try {
    why().assign(text).append(remedy);
  } catch (const std::bad_alloc&) {
    why().clear();
  }
  return error;
}

}  // namespace

const char* why_refused() noexcept { return why().c_str(); }

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
  why().clear();
  try {
    throw;
  } catch (const Errno& failure) {
    return failure.value;
  } catch (const std::system_error& failure) {
    const int error = failure.code().value();
    const std::string_view said = failure.what();
    const bool bare = error == EMFILE && said.find("ulimit") == std::string_view::npos;
    return explained(error > 0 ? error : EIO, said, bare ? "; raise ulimit -n" : "");
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  } catch (const std::invalid_argument& failure) {
    // A PEAL_SOFTNIC_* variable.
    return explained(EINVAL, failure.what());
  } catch (const std::runtime_error& failure) {
    // The GPU engine's: what to do about it is in the text.
    return explained(EFAULT, failure.what());
  } catch (...) {
    return EIO;
  }
}

}  // namespace peal::softnic::abi

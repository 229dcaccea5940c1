// SPDX-License-Identifier: Apache-2.0
#include "host/memory/gdrcopy.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/library.h"

namespace peal::gdrcopy {

static_assert(sizeof(PinHandle) == 8 && sizeof(Info) == 48 && offsetof(Info, kind) == 40,
              "as gdrapi.h has them");

const char* to_string(Kind kind) {
  switch (kind) {
    case kWriteCombining:
      return "write-combining";
    case kCached:
      return "coherent";
    case kDevice:
      return "uncached";
    default:
      return "not mapped";
  }
}

std::string Session::name() const {
  int major = 0;
  int minor = 0;
  library_.version(&major, &minor);
  return fmt::format("GDRCopy {}.{}", major, minor);
}

void Session::refuse(const std::string& why) {
  const std::lock_guard lock(refusal_mutex_);
  if (refusal_.empty()) refusal_ = why;
}

std::string Session::refusal() const {
  const std::lock_guard lock(refusal_mutex_);
  return refusal_;
}

Opened open(const std::string& path) {
  void* const found = load_library(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (found == nullptr) return {nullptr, fmt::format("dlopen({}): {}", path, ::dlerror())};
  GdrLibrary library{};
  LibraryFunctions functions(found);
#define PEAL_GDRCOPY_RESOLVE(member, symbol, answer, parameters) \
  functions.find(library.member, symbol);
  PEAL_GDRCOPY_FUNCTIONS(PEAL_GDRCOPY_RESOLVE)
#undef PEAL_GDRCOPY_RESOLVE
  if (const char* const missing = functions.missing()) {
    return {nullptr,
            fmt::format("{} has no function {}: GDRCopy 2.4 or newer is needed", path, missing)};
  }
  // It tells no reason, and prints one only where its own variables want it.
  State* const state = library.open();
  if (state == nullptr) {
    return {nullptr, fmt::format("gdr_open of {}: is its driver loaded (/dev/gdrdrv)?", path)};
  }
  return {std::make_shared<Session>(library, state), ""};
}

GdrMapping::GdrMapping(std::shared_ptr<Session> session, std::byte* address, size_t bytes)
    : session_(std::move(session)), bytes_(bytes) {
  const std::lock_guard lock(session_->mutex());
  const int error = session_->library().pin(session_->state(), reinterpret_cast<uintptr_t>(address),
                                            bytes_, 0, 0, &handle_);
  if (refused("gdr_pin_buffer", error)) return;
  pinned_ = true;
  map(address);
}

// What was begun and fails the destructor ends.
void GdrMapping::map(std::byte* address) {
  const GdrLibrary& library = session_->library();
  void* mapped = nullptr;
  if (refused("gdr_map", library.map(session_->state(), handle_, &mapped, bytes_))) return;
  mapped_ = mapped;
  Info info{};
  if (refused("gdr_get_info_v2", library.info(session_->state(), handle_, &info))) return;
  // It may have mapped from the beginning of a page before.
  const uint64_t inside = reinterpret_cast<uintptr_t>(address) - info.address;
  if (inside + bytes_ > info.bytes || info.kind == kNone) {
    return session_->refuse(
        fmt::format("gdr_get_info_v2: {} bytes at {:#x}, {}, for {} bytes at {}", info.bytes,
                    info.address, to_string(info.kind), bytes_, fmt::ptr(address)));
  }
  begin_ = static_cast<std::byte*>(mapped) + inside;
  kind_ = info.kind;
}

bool GdrMapping::refused(const char* call, int error) {
  if (error == 0) return false;
  session_->refuse(fmt::format("{}({} bytes): {}", call, bytes_, std::strerror(error)));
  return true;
}

GdrMapping::~GdrMapping() {
  const std::lock_guard lock(session_->mutex());
  const GdrLibrary& library = session_->library();
  if (mapped_ != nullptr) library.unmap(session_->state(), handle_, mapped_, bytes_);
  if (pinned_) library.unpin(session_->state(), handle_);
}

}  // namespace peal::gdrcopy

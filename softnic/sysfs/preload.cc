// SPDX-License-Identifier: Apache-2.0
//
// libpeal_sysfs.so, for LD_PRELOAD: calls that name a file find the made-up tree where Linux would
// show the devices, and every other path as it is.
//
//   open("/sys/class/infiniband/...") -> open("<tree>/sys/class/infiniband/...")
//   realpath's answer below <tree> loses <tree>: a client that joins paths finds them again
//
// The tree is made when the first such path is asked for.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include "softnic/presentation/settings.h"
#include "softnic/sysfs/tree.h"

namespace peal::softnic::sysfs {
namespace {

/// What the tree stands for: whole folders, and in those of the PCI bus one domain.
constexpr std::string_view kFolders[] = {"/sys/class/infiniband", "/sys/class/infiniband_verbs",
                                         "/dev/infiniband", "/sys/devices/pci5ea1:00",
                                         "/sys/module/nvidia_peermem"};
constexpr std::string_view kPrefixes[] = {"/sys/bus/pci/devices/5ea1:", "/sys/class/pci_bus/5ea1:"};

bool is_shown(std::string_view path) {
  for (const std::string_view folder : kFolders) {
    if (path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/')) {
      return true;
    }
  }
  for (const std::string_view prefix : kPrefixes) {
    if (path.starts_with(prefix)) return true;
  }
  return false;
}

/// The tree's path; empty when it cannot be made, which is said once.
const std::string& tree() {
  // A preloaded library has nobody to hold its state; never destroyed, as destructors open files.
  static const std::string& path = *new std::string([]() -> std::string {
    try {
      const Settings settings = Settings::from_environment();
      const auto pins = [](const PresentedDevice& device) {
        return !device.refuses_any(kRefusePeermem);
      };
      return make_tree(settings.present, std::ranges::any_of(settings.present, pins),
                       settings.directory);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return {};
    }
  }());
  return path;
}

/// A path as the C library is to see it. While the tree is being made paths are as they are.
class Shown {
 public:
  explicit Shown(const char* path) : path_(path) {
    static thread_local bool making = false;
    if (path == nullptr || making || !is_shown(path)) return;
    making = true;
    if (const std::string& root = tree(); !root.empty()) {
      moved_ = root + path;
      path_ = moved_.c_str();
    }
    making = false;
  }
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;
  const char* get() const { return path_; }
  bool moved() const { return !moved_.empty(); }

 private:
  std::string moved_;
  const char* path_;
};

/// The next definition of `name`, which is the C library's.
template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

/// What realpath answered, as if the tree were the root.
void strip(char* answer) {
  const std::string& root = tree();
  if (std::strncmp(answer, root.c_str(), root.size()) != 0 || answer[root.size()] != '/') return;
  std::memmove(answer, answer + root.size(), std::strlen(answer + root.size()) + 1);
}

}  // namespace
}  // namespace peal::softnic::sysfs

using peal::softnic::sysfs::next;
using peal::softnic::sysfs::Shown;
using peal::softnic::sysfs::strip;

extern "C" {

// A call `name` whose argument `path` names a file: declared parameters, then those handed on.
#define PEAL_SHOWS(result, name, parameters, ...)             \
  result name parameters {                                    \
    static auto* const real = next<result parameters>(#name); \
    const Shown shown(path);                                  \
    return real(__VA_ARGS__);                                 \
  }

// A mode follows only flags that create; reading it always would be reading past the arguments.
#define PEAL_SHOWS_OPEN(name, parameters, ...)                                   \
  int name parameters {                                                          \
    static auto* const real = next<int parameters>(#name);                       \
    const Shown shown(path);                                                     \
    if ((flags & (O_CREAT | __O_TMPFILE)) == 0) return real(__VA_ARGS__, flags); \
    va_list rest;                                                                \
    va_start(rest, flags);                                                       \
    const mode_t mode = va_arg(rest, mode_t);                                    \
    va_end(rest);                                                                \
    return real(__VA_ARGS__, flags, mode);                                       \
  }

PEAL_SHOWS_OPEN(open, (const char* path, int flags, ...), shown.get())
PEAL_SHOWS_OPEN(open64, (const char* path, int flags, ...), shown.get())
PEAL_SHOWS_OPEN(openat, (int folder, const char* path, int flags, ...), folder, shown.get())
PEAL_SHOWS_OPEN(openat64, (int folder, const char* path, int flags, ...), folder, shown.get())
PEAL_SHOWS(int, __open_2, (const char* path, int flags), shown.get(), flags)
PEAL_SHOWS(int, __open64_2, (const char* path, int flags), shown.get(), flags)
PEAL_SHOWS(FILE*, fopen, (const char* path, const char* mode), shown.get(), mode)
PEAL_SHOWS(FILE*, fopen64, (const char* path, const char* mode), shown.get(), mode)
PEAL_SHOWS(DIR*, opendir, (const char* path), shown.get())
PEAL_SHOWS(int, access, (const char* path, int mode) noexcept, shown.get(), mode)
PEAL_SHOWS(int, stat, (const char* path, struct stat* found) noexcept, shown.get(), found)
PEAL_SHOWS(int, lstat, (const char* path, struct stat* found) noexcept, shown.get(), found)
PEAL_SHOWS(int, stat64, (const char* path, struct stat64* found) noexcept, shown.get(), found)
PEAL_SHOWS(int, lstat64, (const char* path, struct stat64* found) noexcept, shown.get(), found)
PEAL_SHOWS(int, fstatat, (int folder, const char* path, struct stat* found, int flags) noexcept,
           folder, shown.get(), found, flags)
PEAL_SHOWS(int, fstatat64, (int folder, const char* path, struct stat64* found, int flags) noexcept,
           folder, shown.get(), found, flags)
// What programs call that were linked before glibc 2.33.
PEAL_SHOWS(int, __xstat, (int version, const char* path, struct stat* found) noexcept, version,
           shown.get(), found)
PEAL_SHOWS(int, __lxstat, (int version, const char* path, struct stat* found) noexcept, version,
           shown.get(), found)
PEAL_SHOWS(int, __xstat64, (int version, const char* path, struct stat64* found) noexcept, version,
           shown.get(), found)
PEAL_SHOWS(int, __lxstat64, (int version, const char* path, struct stat64* found) noexcept, version,
           shown.get(), found)
PEAL_SHOWS(int, statx,
           (int folder, const char* path, int flags, unsigned mask, struct statx* found) noexcept,
           folder, shown.get(), flags, mask, found)
PEAL_SHOWS(ssize_t, readlink, (const char* path, char* text, size_t bytes) noexcept, shown.get(),
           text, bytes)
PEAL_SHOWS(ssize_t, readlinkat, (int folder, const char* path, char* text, size_t bytes) noexcept,
           folder, shown.get(), text, bytes)

char* realpath(const char* path, char* answer) noexcept {
  static auto* const real = next<char*(const char*, char*)>("realpath");
  const Shown shown(path);
  char* const found = real(shown.get(), answer);
  if (found != nullptr && shown.moved()) strip(found);
  return found;
}

char* __realpath_chk(const char* path, char* answer, size_t bytes) noexcept {
  if (bytes < PATH_MAX) std::abort();  // as glibc does
  return realpath(path, answer);
}

char* canonicalize_file_name(const char* path) noexcept { return realpath(path, nullptr); }

}  // extern "C"

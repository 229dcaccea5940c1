// SPDX-License-Identifier: Apache-2.0
//
// Memory that a program has mapped MAP_SHARED itself, of files of any kind: what other processes
// may map. Its file has no name any more, or never had one.
#pragma once

#include <fcntl.h>
#include <linux/memfd.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <utility>

#include "base/fd.h"
#include "host/base/error.h"

namespace peal {

class SharedMapping {
 public:
  static Fd memfd() { return Fd(::memfd_create("peal-shared", MFD_CLOEXEC | MFD_ALLOW_SEALING)); }
  /// A file of pages of kHugePage bytes, of which the machine must have some left
  /// (vm.nr_hugepages).
  static Fd huge() {
    return Fd(::memfd_create("peal-huge", MFD_CLOEXEC | MFD_HUGETLB | MFD_HUGE_2MB));
  }
  static constexpr size_t kHugePage = 2u << 20;
  static Fd file_in(const std::string& folder) {
    std::string path = folder + "/peal-shared-XXXXXX";
    Fd file(::mkostemp(path.data(), O_CLOEXEC));
    ::unlink(path.c_str());
    return file;
  }

  /// Zeroed, of all of `file`, which gets that size.
  SharedMapping(size_t bytes, Fd file) : file_(std::move(file)), bytes_(bytes) {
    if (::ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0) fail_errno(errno, "ftruncate");
    void* const begin = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    if (begin == MAP_FAILED) fail_errno(errno, "mmap");
    begin_ = static_cast<std::byte*>(begin);
  }
  ~SharedMapping() { ::munmap(begin_, bytes_); }
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  std::byte* begin() const { return begin_; }
  const Fd& file() const { return file_; }

 private:
  Fd file_;
  size_t bytes_;
  std::byte* begin_ = nullptr;
};

}  // namespace peal

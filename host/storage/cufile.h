// SPDX-License-Identifier: Apache-2.0
//
// libcufile's functions that peal calls (GPUDirect Storage), found by dlopen: a file's bytes go
// between disk and GPU without the host's memory. Declared here from NVIDIA's cuFile API reference
// guide and cufile.h of CUDA 12.9 (libcufile 1.14); tests/gpu compares them with cufile.h.
//
// The library's driver is opened once and not closed: other users of this process share it, and
// the library ends it at exit by itself.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>

namespace peal::storage::cufile {

/// CUfileError_t: CUfileOpError, and CUresult where that is CU_FILE_CUDA_DRIVER_ERROR.
struct CufileResult {
  int code;
  int cuda;
};
inline constexpr int kSuccess = 0;               // CU_FILE_SUCCESS
inline constexpr int kCudaError = 5011;          // CU_FILE_CUDA_DRIVER_ERROR
inline constexpr int kDriverAlreadyOpen = 5026;  // CU_FILE_DRIVER_ALREADY_OPEN
inline constexpr int kHandleFd = 1;              // CU_FILE_HANDLE_TYPE_OPAQUE_FD

using Handle = void*;  // CUfileHandle_t

/// CUfileDescr_t.
struct Descriptor {
  int type;
  union {
    int fd;
    void* handle;
  };
  const void* operations;  // of file systems in user space
};

// X(member, symbol, answer, parameters)
#define PEAL_CUFILE_FUNCTIONS(X)                                                       \
  X(driver_open, "cuFileDriverOpen", CufileResult, ())                                 \
  X(register_handle, "cuFileHandleRegister", CufileResult,                             \
    (Handle * handle, Descriptor * descriptor))                                        \
  X(release_handle, "cuFileHandleDeregister", void, (Handle handle))                   \
  X(register_buffer, "cuFileBufRegister", CufileResult,                                \
    (const void* base, size_t bytes, int flags))                                       \
  X(release_buffer, "cuFileBufDeregister", CufileResult, (const void* base))           \
  X(read, "cuFileRead", ssize_t,                                                       \
    (Handle handle, void* base, size_t bytes, off_t file_offset, off_t memory_offset)) \
  X(write, "cuFileWrite", ssize_t,                                                     \
    (Handle handle, const void* base, size_t bytes, off_t file_offset, off_t memory_offset))

struct CufileLibrary {
#define PEAL_CUFILE_MEMBER(member, symbol, answer, parameters) answer(*member) parameters;
  PEAL_CUFILE_FUNCTIONS(PEAL_CUFILE_MEMBER)
#undef PEAL_CUFILE_MEMBER
};

/// The library, or why there is none.
struct LoadedCufile {
  std::shared_ptr<const CufileLibrary> library;
  std::string why_not;
};

/// Loads it as PEAL_CUFILE says ("auto", "off", or what dlopen takes) and opens its driver, with a
/// GPU current.
LoadedCufile load(const std::string& setting);

/// What a call answered, for people; `error` is its errno.
std::string text(CufileResult result);
std::string text(ssize_t answer, int error);

/// A file that the library knows, until it is destroyed.
class FileHandle {
 public:
  FileHandle(std::shared_ptr<const CufileLibrary> library, int fd);
  ~FileHandle();
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;

  Handle get() const { return handle_; }
  /// Empty where the library took the file.
  const std::string& why_not() const { return why_not_; }

 private:
  std::shared_ptr<const CufileLibrary> library_;
  Handle handle_ = nullptr;
  std::string why_not_;
};

}  // namespace peal::storage::cufile

// SPDX-License-Identifier: Apache-2.0
//
// peal's own declarations of libcufile, held against cufile.h where the toolkit has one: that this
// compiles is the test. Toolkits without GPUDirect Storage have none, and nothing is compared.
#if __has_include(<cufile.h>)
#include <cufile.h>

#include <cstddef>
#include <type_traits>

#include "host/storage/cufile.h"

namespace peal::storage::cufile {
namespace {

/// A type of ours may stand for one of cufile.h: both void, both pointers, or of one size.
template <class Ours, class Theirs>
constexpr bool kStandsFor = std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
                            sizeof(Ours) == sizeof(Theirs);
template <>
constexpr bool kStandsFor<void, void> = true;
template <class Ours, class Theirs>
constexpr bool kMatches = false;
template <class Mine, class... Ours, class Its, class... Theirs>
constexpr bool kMatches<Mine (*)(Ours...), Its (*)(Theirs...)> =
    sizeof...(Ours) == sizeof...(Theirs) && kStandsFor<Mine, Its> &&
    (kStandsFor<Ours, Theirs> && ...);

#define PEAL_CHECK(member, function) \
  static_assert(kMatches<decltype(CufileLibrary::member), decltype(&function)>)
PEAL_CHECK(driver_open, cuFileDriverOpen);
PEAL_CHECK(register_handle, cuFileHandleRegister);
PEAL_CHECK(release_handle, cuFileHandleDeregister);
PEAL_CHECK(register_buffer, cuFileBufRegister);
PEAL_CHECK(release_buffer, cuFileBufDeregister);
PEAL_CHECK(read, cuFileRead);
PEAL_CHECK(write, cuFileWrite);

static_assert(sizeof(CufileResult) == sizeof(CUfileError_t) &&
              offsetof(CufileResult, code) == offsetof(CUfileError_t, err) &&
              offsetof(CufileResult, cuda) == offsetof(CUfileError_t, cu_err));
static_assert(sizeof(Descriptor) == sizeof(CUfileDescr_t) &&
              offsetof(Descriptor, type) == offsetof(CUfileDescr_t, type) &&
              offsetof(Descriptor, fd) == offsetof(CUfileDescr_t, handle) &&
              offsetof(Descriptor, operations) == offsetof(CUfileDescr_t, fs_ops));
static_assert(sizeof(Handle) == sizeof(CUfileHandle_t));
static_assert(kSuccess == CU_FILE_SUCCESS && kCudaError == CU_FILE_CUDA_DRIVER_ERROR &&
              kDriverAlreadyOpen == CU_FILE_DRIVER_ALREADY_OPEN &&
              kHandleFd == CU_FILE_HANDLE_TYPE_OPAQUE_FD);

}  // namespace
}  // namespace peal::storage::cufile
#endif

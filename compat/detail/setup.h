// SPDX-License-Identifier: Apache-2.0
//
// Beginning and end, who this PE is, memory, teams, and starting kernels that meet.
#pragma once

#include <cstdlib>

#include "compat/detail/process.h"

#define NVSHMEMX_INIT_THREAD_PES (1u << 0)
#define NVSHMEMX_INIT_WITH_MPI_COMM (1u << 1)
#define NVSHMEMX_INIT_WITH_SHMEM (1u << 2)
#define NVSHMEMX_INIT_WITH_UNIQUEID (1u << 3)
#define NVSHMEMX_INIT_MAX (1u << 31)

#define NVSHMEMX_UNIQUEID_BYTES 128

/// The id of a job: where its PE 0 listens, and the secret that admits to the job. PE 0 makes it
/// and tells the others.
typedef struct {
  int version;
  char internal[NVSHMEMX_UNIQUEID_BYTES - sizeof(int)];
} nvshmemx_uniqueid_t;
typedef nvshmemx_uniqueid_t nvshmemx_uniqueid_v1;
#define NVSHMEMX_UNIQUEID_INITIALIZER \
  {                                   \
    1, {}                             \
  }

typedef struct {
  int version;
  nvshmemx_uniqueid_t* id;
  int myrank;
  int nranks;
} nvshmemx_uniqueid_args_t;

typedef struct {
  int version;
  nvshmemx_uniqueid_args_t uid_args;
} nvshmemx_init_args_t;

/// `mpi_comm` points at an MPI_Comm.
typedef struct {
  int version;
  void* mpi_comm;
  nvshmemx_init_args_t args;
} nvshmemx_init_attr_t;
#define NVSHMEMX_INIT_ATTR_INITIALIZER \
  {                                    \
    1, nullptr, {                      \
      1, { 1, nullptr, 0, 0 }          \
    }                                  \
  }

namespace peal::compat {

int begin_by_attributes(unsigned flags, const nvshmemx_init_attr_t* attributes, PEAL_COMPAT_CALLER);

void* allocate(size_t count, size_t bytes, size_t alignment, PEAL_COMPAT_CALLER);
void deallocate(void* pointer, PEAL_COMPAT_CALLER);
int register_buffer(void* address, size_t bytes, bool symmetric, PEAL_COMPAT_CALLER);
int unregister_buffer(void* address, bool symmetric, PEAL_COMPAT_CALLER);

int team_member(nvshmem_team_t team, PEAL_COMPAT_CALLER);
int team_size(nvshmem_team_t team, PEAL_COMPAT_CALLER);
int team_translate(nvshmem_team_t from, int member, nvshmem_team_t to, PEAL_COMPAT_CALLER);

/// Members first, first + stride, ... of the parent.
struct Members {
  int first;
  int stride;
  int count;
};
int split_team(nvshmem_team_t parent, const Members& members, nvshmem_team_t* made,
               PEAL_COMPAT_CALLER);
int split_team_2d(nvshmem_team_t parent, int columns, nvshmem_team_t* row, nvshmem_team_t* column,
                  PEAL_COMPAT_CALLER);
void destroy_team(nvshmem_team_t team, PEAL_COMPAT_CALLER);

int launch(const KernelStart& start, PEAL_COMPAT_CALLER);
int most_blocks(const KernelStart& start, int* blocks, PEAL_COMPAT_CALLER);
int fill_module(CUmod_st* module, PEAL_COMPAT_CALLER);
int fill_library(CUlib_st* library, PEAL_COMPAT_CALLER);

}  // namespace peal::compat

// ---- beginning and end

/// A PE that cannot begin ends the program, having told why.
inline void nvshmem_init() {
  if (::peal::compat::begin({}) != 0) exit(1);
}
inline int nvshmem_init_thread(int, int* provided) {
  *provided = NVSHMEM_THREAD_SERIALIZED;
  return ::peal::compat::begin({});
}
inline void nvshmem_query_thread(int* provided) { *provided = NVSHMEM_THREAD_SERIALIZED; }
inline void nvshmem_finalize() { ::peal::compat::end(); }
[[noreturn]] inline void nvshmem_global_exit(int status) { ::peal::compat::abort_job(status); }

inline int nvshmemx_init_attr(unsigned int flags, nvshmemx_init_attr_t* attributes) {
  return ::peal::compat::begin_by_attributes(flags, attributes);
}
inline int nvshmemx_hostlib_init_attr(unsigned int flags, nvshmemx_init_attr_t* attributes) {
  return ::peal::compat::begin_by_attributes(flags, attributes);
}
inline void nvshmemx_hostlib_finalize() { ::peal::compat::end(); }
inline int nvshmemx_init_status() {
  return ::peal::compat::begun() ? NVSHMEM_STATUS_IS_INITIALIZED : NVSHMEM_STATUS_NOT_INITIALIZED;
}

/// Called by who becomes PE 0.
inline int nvshmemx_get_uniqueid(nvshmemx_uniqueid_t* uniqueid) {
  *uniqueid = NVSHMEMX_UNIQUEID_INITIALIZER;
  return ::peal::compat::make_unique_id(uniqueid->internal);
}
inline int nvshmemx_set_attr_uniqueid_args(const int myrank, const int nranks,
                                           const nvshmemx_uniqueid_t* uniqueid,
                                           nvshmemx_init_attr_t* attr) {
  attr->args.uid_args = {1, const_cast<nvshmemx_uniqueid_t*>(uniqueid), myrank, nranks};
  return 0;
}
inline int nvshmemx_set_attr_mpi_comm_args(void* mpi_comm, nvshmemx_init_attr_t* attr) {
  attr->mpi_comm = mpi_comm;
  return 0;
}

// ---- who this is

PEAL_HD int nvshmem_my_pe() {
  PEAL_COMPAT_BY_PLACE(::peal::compat::context().pe,
                       (::peal::compat::team_member(NVSHMEM_TEAM_WORLD)));
}
PEAL_HD int nvshmem_n_pes() {
  PEAL_COMPAT_BY_PLACE(::peal::compat::context().n_pes,
                       (::peal::compat::team_size(NVSHMEM_TEAM_WORLD)));
}
PEAL_HD void nvshmem_info_get_version(int* major, int* minor) {
  *major = NVSHMEM_MAJOR_VERSION;
  *minor = NVSHMEM_MINOR_VERSION;
}
PEAL_HD void nvshmem_info_get_name(char* name) {
  constexpr char kName[] = NVSHMEM_VENDOR_STRING;
  for (size_t i = 0; i < sizeof(kName); ++i) name[i] = kName[i];
}
inline void nvshmemx_vendor_get_version_info(int* major, int* minor, int* patch) {
  *major = NVSHMEM_VENDOR_MAJOR_VERSION;
  *minor = NVSHMEM_VENDOR_MINOR_VERSION;
  *patch = NVSHMEM_VENDOR_PATCH_VERSION;
}

/// peal's own: 0 while all is well, else the first failure of this PE: a peal::Status, or -1 for a
/// call of the host that was refused. In a kernel: of this PE's kernels, of calls that bring
/// something or wait; what a put was refused for the next quiet or barrier tells.
PEAL_HD int nvshmemx_peal_status() {
  PEAL_COMPAT_BY_PLACE(::peal::compat::kept(), ::peal::compat::failure().code);
}
/// The same as a sentence; empty while all is well. Valid until the next call.
inline const char* nvshmemx_peal_failure() { return ::peal::compat::failure().text; }
/// peal's own: the PE behind these calls, for what only peal.h has. Null before nvshmem_init().
inline ::peal::Runtime* nvshmemx_peal_runtime() { return ::peal::compat::runtime_or_null(); }

// ---- memory

inline void* nvshmem_malloc(size_t size) { return ::peal::compat::allocate(0, size, 0); }
inline void* nvshmem_calloc(size_t count, size_t size) {
  return ::peal::compat::allocate(count, size, 0);
}
inline void* nvshmem_align(size_t alignment, size_t size) {
  return ::peal::compat::allocate(0, size, alignment);
}
inline void nvshmem_free(void* ptr) { ::peal::compat::deallocate(ptr); }

/// Memory of this PE as source or destination at home.
inline int nvshmemx_buffer_register(void* addr, size_t length) {
  return ::peal::compat::register_buffer(addr, length, false);
}
/// The newest registration of that address.
inline int nvshmemx_buffer_unregister(void* addr) {
  return ::peal::compat::unregister_buffer(addr, false);
}
/// Nothing: what is registered still stays so until nvshmem_finalize().
inline void nvshmemx_buffer_unregister_all() {}
/// Collective: memory of every PE, used by its own address. Null where that failed.
inline void* nvshmemx_buffer_register_symmetric(void* buf_ptr, size_t size, int /*flags*/) {
  const int failed = ::peal::compat::register_buffer(buf_ptr, size, true);
  return failed == 0 ? buf_ptr : nullptr;
}
/// Collective.
inline int nvshmemx_buffer_unregister_symmetric(void* mmap_ptr, size_t /*size*/) {
  return ::peal::compat::unregister_buffer(mmap_ptr, true);
}

/// Null, as where there is no multicast: peal uses none.
PEAL_HD void* nvshmemx_mc_ptr(nvshmem_team_t, const void*) { return nullptr; }

// ---- teams

PEAL_HD int nvshmem_team_my_pe(nvshmem_team_t team) {
  PEAL_COMPAT_BY_PLACE((::peal::my_pe(::peal::compat::team_of(team))),
                       (::peal::compat::team_member(team)));
}
PEAL_HD int nvshmem_team_n_pes(nvshmem_team_t team) {
  PEAL_COMPAT_BY_PLACE((::peal::compat::size_or_none(::peal::compat::team_of(team))),
                       (::peal::compat::team_size(team)));
}
PEAL_HD int nvshmem_team_translate_pe(nvshmem_team_t src_team, int src_pe,
                                      nvshmem_team_t dest_team) {
  PEAL_COMPAT_BY_PLACE((::peal::translate(::peal::compat::team_of(src_team), src_pe,
                                          ::peal::compat::team_of(dest_team))),
                       (::peal::compat::team_translate(src_team, src_pe, dest_team)));
}
/// Contexts of programs are not there: 0 of them.
inline int nvshmem_team_get_config(nvshmem_team_t team, nvshmem_team_config_t* config) {
  config->num_contexts = 0;
  return ::peal::compat::team_size(team) > 0 ? 0 : 1;
}
inline int nvshmem_team_split_strided(nvshmem_team_t parent_team, int start, int stride, int size,
                                      const nvshmem_team_config_t*, long,
                                      nvshmem_team_t* new_team) {
  return ::peal::compat::split_team(parent_team, {start, stride, size}, new_team);
}
inline int nvshmem_team_split_2d(nvshmem_team_t parent_team, int xrange,
                                 const nvshmem_team_config_t*, long, nvshmem_team_t* xaxis_team,
                                 const nvshmem_team_config_t*, long, nvshmem_team_t* yaxis_team) {
  return ::peal::compat::split_team_2d(parent_team, xrange, xaxis_team, yaxis_team);
}
inline void nvshmem_team_destroy(nvshmem_team_t team) { ::peal::compat::destroy_team(team); }

// ---- kernels that meet, and modules

/// To be called by all PEs. They meet in the stream's order, then their kernels begin. All blocks
/// of a kernel run at the same time; 0 blocks means as many as can.
inline int nvshmemx_collective_launch(const void* func, ::peal::compat::LaunchExtent gridDims,
                                      ::peal::compat::LaunchExtent blockDims, void** args,
                                      size_t sharedMem, cudaStream_t stream) {
  return ::peal::compat::launch({func, gridDims, blockDims, args, sharedMem, stream});
}
inline int nvshmemx_collective_launch_query_gridsize(const void* func,
                                                     ::peal::compat::LaunchExtent blockDims,
                                                     void** args, size_t sharedMem, int* gridsize) {
  return ::peal::compat::most_blocks({func, 1, blockDims, args, sharedMem, nullptr}, gridsize);
}

/// A module, or library, that the program loaded by the driver and compiled without -rdc. The
/// kernels of the program's own files need no such call.
inline int nvshmemx_cumodule_init(CUmod_st* module) { return ::peal::compat::fill_module(module); }
inline int nvshmemx_cumodule_finalize(CUmod_st*) { return 0; }
inline int nvshmemx_culibrary_init(CUlib_st* library) {
  return ::peal::compat::fill_library(library);
}
inline int nvshmemx_culibrary_finalize(CUlib_st*) { return 0; }

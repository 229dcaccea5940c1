// SPDX-License-Identifier: Apache-2.0
//
// Every exported name without an implementation, from the list in exports.txt, and the old version
// of a name that has one. Linked into the shared library only: old versions need its version
// script.
//
// All stubs of one convention are one function under many names; a caller's arguments are ignored,
// which the C calling convention allows.
#include <cerrno>
#include <cstdint>

extern "C" {

int peal_softnic_ERROR() { return errno = EOPNOTSUPP; }
long peal_softnic_NEGATIVE() {
  errno = EOPNOTSUPP;
  return -1;
}
void* peal_softnic_NULL() {
  errno = EOPNOTSUPP;
  return nullptr;
}
void peal_softnic_NOTHING() { errno = EOPNOTSUPP; }

}  // extern "C"

#define PEAL_RETURN_ERROR int
#define PEAL_RETURN_NEGATIVE long
#define PEAL_RETURN_NULL void*
#define PEAL_RETURN_NOTHING void

#define PEAL_UNSUPPORTED(kind, name) \
  extern "C" PEAL_RETURN_##kind name() __attribute__((alias("peal_softnic_" #kind)));

#include "softnic/abi/stubs.inc"

extern "C" {

/// Part of the private interface that providers such as libefa read.
bool verbs_allow_disassociate_destroy = false;

struct mlx5dv_obj;
int peal_softnic_init_obj_1_0(mlx5dv_obj* obj, uint64_t types);
int init_obj_old(mlx5dv_obj* obj, uint64_t types) { return peal_softnic_init_obj_1_0(obj, types); }

}  // extern "C"

asm(".symver init_obj_old, mlx5dv_init_obj@MLX5_1.0");

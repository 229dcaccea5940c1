// SPDX-License-Identifier: Apache-2.0
//
// Every exported name without an implementation, from the list in exports.txt, and the old versions
// of names that have one. Linked into the shared library only: old versions need its version
// script.
//
// All stubs of one convention are one function under many names; a caller's arguments are ignored,
// which the C calling convention allows.
#include <cerrno>
#include <cstdint>

// Old versions get bodies of their own: the linker drops a default name that is defined at the same
// place as an old version of itself.
#define PEAL_CONVENTIONS(age)                                                \
  extern "C" int peal_softnic_##age##_ERROR() { return errno = EOPNOTSUPP; } \
  extern "C" long peal_softnic_##age##_NEGATIVE() {                          \
    errno = EOPNOTSUPP;                                                      \
    return -1;                                                               \
  }                                                                          \
  extern "C" void* peal_softnic_##age##_NULL() {                             \
    errno = EOPNOTSUPP;                                                      \
    return nullptr;                                                          \
  }                                                                          \
  extern "C" void peal_softnic_##age##_NOTHING() { errno = EOPNOTSUPP; }

PEAL_CONVENTIONS(now)
PEAL_CONVENTIONS(old)

#define PEAL_RETURN_ERROR int
#define PEAL_RETURN_NEGATIVE long
#define PEAL_RETURN_NULL void*
#define PEAL_RETURN_NOTHING void

#define PEAL_UNSUPPORTED(kind, name) \
  extern "C" PEAL_RETURN_##kind name() __attribute__((alias("peal_softnic_now_" #kind)));
#define PEAL_UNSUPPORTED_OLD(kind, name, node)                                                  \
  extern "C" PEAL_RETURN_##kind name##_old() __attribute__((alias("peal_softnic_old_" #kind))); \
  asm(".symver " #name "_old, " #name "@" #node);

#include "softnic/abi/stubs.inc"

extern "C" {

/// Part of the private interface that providers such as libefa read.
bool verbs_allow_disassociate_destroy = false;

struct mlx5dv_obj;
int peal_softnic_init_obj_1_0(mlx5dv_obj* obj, uint64_t types);
int init_obj_old(mlx5dv_obj* obj, uint64_t types) { return peal_softnic_init_obj_1_0(obj, types); }

}  // extern "C"

asm(".symver init_obj_old, mlx5dv_init_obj@MLX5_1.0");

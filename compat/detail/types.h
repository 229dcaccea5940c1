// SPDX-License-Identifier: Apache-2.0
//
// The constants of the guide, and its tables of types: X(name in calls, type).
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "compat/detail/place.h"
#include "device/types.h"

// What the guide says that this is. Programs that ask at compile time.
#define NVSHMEM_MAJOR_VERSION 1
#define NVSHMEM_MINOR_VERSION 3
#define NVSHMEM_VENDOR_MAJOR_VERSION 3
#define NVSHMEM_VENDOR_MINOR_VERSION 4
#define NVSHMEM_VENDOR_PATCH_VERSION 0
#define NVSHMEM_VENDOR_STRING "peal, calls of NVSHMEM 3.4"
#define NVSHMEM_MAX_NAME_LEN 256

enum nvshmem_cmp_type {
  NVSHMEM_CMP_EQ = static_cast<int>(peal::Compare::kEq),
  NVSHMEM_CMP_NE = static_cast<int>(peal::Compare::kNe),
  NVSHMEM_CMP_GT = static_cast<int>(peal::Compare::kGt),
  NVSHMEM_CMP_GE = static_cast<int>(peal::Compare::kGe),
  NVSHMEM_CMP_LT = static_cast<int>(peal::Compare::kLt),
  NVSHMEM_CMP_LE = static_cast<int>(peal::Compare::kLe),
  NVSHMEM_CMP_SENTINEL = 0x7fffffff
};

enum nvshmemx_signal_op_type {
  NVSHMEM_SIGNAL_SET = static_cast<int>(peal::Signal::Kind::kSet),
  NVSHMEM_SIGNAL_ADD = static_cast<int>(peal::Signal::Kind::kAdd)
};

enum nvshmem_thread_level {
  NVSHMEM_THREAD_SINGLE,
  NVSHMEM_THREAD_FUNNELED,
  NVSHMEM_THREAD_SERIALIZED,
  NVSHMEM_THREAD_MULTIPLE
};

enum nvshmemx_status {
  NVSHMEMX_SUCCESS = 0,
  NVSHMEMX_ERROR_INVALID_VALUE,
  NVSHMEMX_ERROR_OUT_OF_MEMORY,
  NVSHMEMX_ERROR_NOT_SUPPORTED,
  NVSHMEMX_ERROR_SYMMETRY,
  NVSHMEMX_ERROR_GPU_NOT_SELECTED,
  NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED,
  NVSHMEMX_ERROR_INTERNAL
};

/// What nvshmemx_init_status() answers; the last two of NVSHMEM are never the case here.
enum {
  NVSHMEM_STATUS_NOT_INITIALIZED,
  NVSHMEM_STATUS_IS_BOOTSTRAPPED,
  NVSHMEM_STATUS_IS_INITIALIZED,
  NVSHMEM_STATUS_LIMITED_MPG,
  NVSHMEM_STATUS_FULL_MPG
};

typedef int32_t nvshmem_team_t;
enum : nvshmem_team_t {
  NVSHMEM_TEAM_INVALID = -1,
  NVSHMEM_TEAM_WORLD,
  NVSHMEM_TEAM_SHARED,          // those whose memory all of them load and store
  NVSHMEMX_TEAM_NODE,           // those of this host
  NVSHMEMX_TEAM_SAME_MYPE_NODE  // one of each host: those with this PE's number in their node's
                                // team
};

typedef struct {
  int num_contexts;
} nvshmem_team_config_t;
#define NVSHMEM_TEAM_NUM_CONTEXTS (1L << 0)
#define NVSHMEM_TEAM_CONFIG_MASK_NUM_CONTEXTS NVSHMEM_TEAM_NUM_CONTEXTS

// Standard types: of atomics on bits; of all atomics and of words that are waited for; of
// transfers.
#define PEAL_COMPAT_BIT_TYPES(X)   \
  X(uint, unsigned int)            \
  X(ulong, unsigned long)          \
  X(ulonglong, unsigned long long) \
  X(int32, int32_t)                \
  X(int64, int64_t)                \
  X(uint32, uint32_t)              \
  X(uint64, uint64_t)              \
  X(size, size_t)
#define PEAL_COMPAT_AMO_TYPES(X) \
  PEAL_COMPAT_BIT_TYPES(X)       \
  X(int, int)                    \
  X(long, long)                  \
  X(longlong, long long)         \
  X(ptrdiff, ptrdiff_t)
#define PEAL_COMPAT_INTEGER_TYPES(X) \
  PEAL_COMPAT_AMO_TYPES(X)           \
  X(char, char)                      \
  X(schar, signed char)              \
  X(short, short)                    \
  X(uchar, unsigned char)            \
  X(ushort, unsigned short)          \
  X(int8, int8_t)                    \
  X(int16, int16_t)                  \
  X(uint8, uint8_t)                  \
  X(uint16, uint16_t)
#define PEAL_COMPAT_REAL_TYPES(X) X(float, float) X(double, double)
#define PEAL_COMPAT_RMA_TYPES(X) \
  PEAL_COMPAT_REAL_TYPES(X)      \
  PEAL_COMPAT_INTEGER_TYPES(X)   \
  PEAL_COMPAT_HALF_TYPES(X)

namespace peal::compat {

/// An element of so many bits, for calls that name sizes instead of types.
struct alignas(16) Bits128 {
  uint64_t word[2];
};

}  // namespace peal::compat

// X(bits, type)
#define PEAL_COMPAT_SIZES(X) \
  X(8, uint8_t)              \
  X(16, uint16_t)            \
  X(32, uint32_t)            \
  X(64, uint64_t)            \
  X(128, ::peal::compat::Bits128)

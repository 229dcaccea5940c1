// SPDX-License-Identifier: Apache-2.0
//
// The names of the library's kernels: peal_kernel_word, ... Those that reduce where all members are
// mapped are call_type_operation, such as peal_kernel_all_reduce_f32_sum. Sums, products and bits
// of signed integers are those of unsigned ones.
#pragma once

#include <cstdint>

#include "device/reduce_op.h"

// X(name, the file it is in)
#define PEAL_PLAIN_KERNELS(X) \
  X(transfer, transfer)       \
  X(word, word)               \
  X(sync, collective)         \
  X(barrier, collective)      \
  X(broadcast, collective)    \
  X(all_gather, collective)   \
  X(all_to_all, collective)   \
  X(all_to_all_v, collective) \
  X(reduce_by_nic, reduce_by_nic)

// X(type, operation), for the operations that a type has kernels of.
#define PEAL_ORDER_KERNELS(X, type) X(type, min) X(type, max)
#define PEAL_NUMBER_KERNELS(X, type) X(type, sum) X(type, product) PEAL_ORDER_KERNELS(X, type)
#define PEAL_BITS_KERNELS(X, type) \
  PEAL_NUMBER_KERNELS(X, type) X(type, bit_and) X(type, bit_or) X(type, bit_xor)

// Y(type, its operations)
#define PEAL_REDUCE_TYPES(Y)   \
  Y(i8, PEAL_ORDER_KERNELS)    \
  Y(i16, PEAL_ORDER_KERNELS)   \
  Y(i32, PEAL_ORDER_KERNELS)   \
  Y(i64, PEAL_ORDER_KERNELS)   \
  Y(u8, PEAL_BITS_KERNELS)     \
  Y(u16, PEAL_BITS_KERNELS)    \
  Y(u32, PEAL_BITS_KERNELS)    \
  Y(u64, PEAL_BITS_KERNELS)    \
  Y(f16, PEAL_NUMBER_KERNELS)  \
  Y(bf16, PEAL_NUMBER_KERNELS) \
  Y(f32, PEAL_NUMBER_KERNELS)  \
  Y(f64, PEAL_NUMBER_KERNELS)

namespace peal::kernels::types {
using i8 = int8_t;
using i16 = int16_t;
using i32 = int32_t;
using i64 = int64_t;
using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using f16 = Half;
using bf16 = BFloat16;
using f32 = float;
using f64 = double;
}  // namespace peal::kernels::types

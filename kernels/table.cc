// SPDX-License-Identifier: Apache-2.0
#include "kernels/table.h"

#include "kernels/list.h"

#define PEAL_DECLARE(name, image) extern "C" void peal_kernel_##name(const void*);
#define PEAL_DECLARE_REDUCTIONS(type, operation)      \
  PEAL_DECLARE(all_reduce_##type##_##operation, )     \
  PEAL_DECLARE(reduce_##type##_##operation, )         \
  PEAL_DECLARE(reduce_scatter_##type##_##operation, ) \
  PEAL_DECLARE(scan_##type##_##operation, )           \
  PEAL_DECLARE(exclusive_scan_##type##_##operation, )
#define PEAL_DECLARE_TYPE(type, operations) operations(PEAL_DECLARE_REDUCTIONS, type)
PEAL_PLAIN_KERNELS(PEAL_DECLARE)
PEAL_REDUCE_TYPES(PEAL_DECLARE_TYPE)

namespace peal::kernels {
namespace {

#define PEAL_PLAIN(name, image) \
  constexpr Kernel k_##name{"peal_kernel_" #name, #image, &peal_kernel_##name};
PEAL_PLAIN_KERNELS(PEAL_PLAIN)

// The calls from kAllReduce on, for one type and operation.
constexpr size_t kReducingCalls = 5;
struct Reductions {
  DataType type;
  Operation operation;
  Kernel kernel[kReducingCalls];
};

#define PEAL_ROW(call, type, operation)                             \
  {                                                                 \
    "peal_kernel_" #call "_" #type "_" #operation, "reduce_" #type, \
        &peal_kernel_##call##_##type##_##operation                  \
  }
#define PEAL_ROWS(type, operation)                                                        \
  Reductions{DataType::type,                                                              \
             Operation::operation,                                                        \
             {PEAL_ROW(all_reduce, type, operation), PEAL_ROW(reduce, type, operation),   \
              PEAL_ROW(reduce_scatter, type, operation), PEAL_ROW(scan, type, operation), \
              PEAL_ROW(exclusive_scan, type, operation)}},
#define PEAL_TYPE_ROWS(type, operations) operations(PEAL_ROWS, type)
constexpr Reductions kReductions[] = {PEAL_REDUCE_TYPES(PEAL_TYPE_ROWS)};

constexpr bool is_signed(DataType type) { return type <= DataType::i64; }
constexpr bool is_float(DataType type) { return type >= DataType::f16; }

constexpr uint32_t kToUnsigned = 4;
static_assert(static_cast<uint32_t>(DataType::u8) ==
              static_cast<uint32_t>(DataType::i8) + kToUnsigned);

}  // namespace

DataType kernel_type(DataType type, Operation operation) {
  const bool ordered = operation == Operation::min || operation == Operation::max;
  if (!is_signed(type) || ordered) return type;
  return static_cast<DataType>(static_cast<uint32_t>(type) + kToUnsigned);
}

const Kernel& transfer_kernel() { return k_transfer; }
const Kernel& word_kernel() { return k_word; }
const Kernel& reduce_by_nic_kernel() { return k_reduce_by_nic; }

const Kernel& collective_kernel(Call call) {
  static constexpr const Kernel* kKernels[] = {&k_sync,       &k_barrier,    &k_broadcast,
                                               &k_all_gather, &k_all_to_all, &k_all_to_all_v};
  return *kKernels[static_cast<size_t>(call) - static_cast<size_t>(Call::kSync)];
}

const Kernel* reduce_kernel(Call call, DataType type, Operation operation) {
  for (const Reductions& row : kReductions) {
    if (row.type != type || row.operation != operation) continue;
    return &row.kernel[static_cast<size_t>(call) - static_cast<size_t>(Call::kAllReduce)];
  }
  return nullptr;
}

const char* to_string(DataType type) {
  static constexpr const char* kNames[] = {"i8",  "i16", "i32", "i64",  "u8",  "u16",
                                           "u32", "u64", "f16", "bf16", "f32", "f64"};
  return kNames[static_cast<size_t>(type)];
}

const char* to_string(Operation operation) {
  static constexpr const char* kNames[] = {"sum",     "product", "min",    "max",
                                           "bit_and", "bit_or",  "bit_xor"};
  return kNames[static_cast<size_t>(operation)];
}

size_t bytes_of(DataType type) {
  static constexpr size_t kBytes[] = {1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
  return kBytes[static_cast<size_t>(type)];
}

bool applies(Operation operation, DataType type) {
  return operation <= Operation::max || !is_float(type);
}

}  // namespace peal::kernels

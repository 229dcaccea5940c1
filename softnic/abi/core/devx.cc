// SPDX-License-Identifier: Apache-2.0
//
// What commands have in common: their lengths, the objects and the memory that they name.
#include "softnic/abi/core/devx.h"

namespace peal::softnic::abi::devx {

void require_ok(const Refusal& refusal) {
  if (refusal.refused()) fail(prm::CommandSyndrome::kNic, refusal.status);
}

uint32_t require_ok(const Created& created) {
  require_ok(created.refusal);
  return created.number;
}

void require_lengths(const DevxCommand& command, size_t in, size_t out) {
  size_t have = command.in.size();
  // A list of page addresses may follow a queue's context; with a umem behind it nobody reads it.
  bool pages = in == prm::kQueueCommandBytes && have > in && (have - in) % 8 == 0;
  if (have != in && !pages) fail(prm::CommandSyndrome::kLength, CommandStatus::kBadInputLength);
  if (command.out.size() < out)
    fail(prm::CommandSyndrome::kLength, CommandStatus::kBadOutputLength);
}

Object& required(const DevxCommand& command, ObjectKind kind, uint32_t number) {
  constexpr Row<ObjectKind, prm::CommandSyndrome> kUnknown[] = {
      {ObjectKind::kUmem, prm::CommandSyndrome::kUnknownUmem},
      {ObjectKind::kUar, prm::CommandSyndrome::kUarPage},
      {ObjectKind::kPd, prm::CommandSyndrome::kProtectionDomain},
      {ObjectKind::kCq, prm::CommandSyndrome::kCompletionQueue},
      {ObjectKind::kSrq, prm::CommandSyndrome::kSharedReceiveQueue},
  };
  Object* found = command.context.find(kind, number);
  if (found == nullptr)
    fail(right_of(kUnknown, kind, prm::CommandSyndrome::kNic), CommandStatus::kBadResource);
  return *found;
}

Umem& umem_of(const DevxCommand& command, uint32_t id) {
  return static_cast<Umem&>(required(command, ObjectKind::kUmem, id));
}

std::byte* slice(const Umem& umem, uint64_t offset, uint64_t bytes, uint64_t alignment) {
  if (offset > umem.bytes || bytes > umem.bytes - offset) fail(prm::CommandSyndrome::kUmemRange);
  std::byte* start = umem.memory + offset;
  if (reinterpret_cast<uintptr_t>(start) % alignment != 0) fail(prm::CommandSyndrome::kMisaligned);
  return start;
}

std::byte* queue_slice(const Umem& umem, uint64_t offset, uint64_t bytes, uint64_t alignment) {
  std::byte* start = slice(umem, offset, bytes, alignment);
  // page_offset of a queue's context has six bits, in units of a 64th of the umem's page.
  if (reinterpret_cast<uintptr_t>(start) % (umem.page / 64) != 0)
    fail(prm::CommandSyndrome::kUmemPage);
  return start;
}

mlx5::DoorbellRecord* doorbell_record(const Umem& umem, uint64_t offset) {
  return reinterpret_cast<mlx5::DoorbellRecord*>(
      slice(umem, offset, sizeof(mlx5::DoorbellRecord), alignof(mlx5::DoorbellRecord)));
}

mlx5dv_devx_obj* create_pd(const DevxCommand& command) {
  require_lengths(command, prm::kHeaderBytes, prm::kHeaderBytes);
  auto pd = std::make_unique<Pd>(command.context, ObjectKind::kPd);
  pd->number = pd->pdn = pd->handle = require_ok(command.context.nic().allocate_pd());
  return command.context.adopt(std::move(pd));
}

}  // namespace peal::softnic::abi::devx

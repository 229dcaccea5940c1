// SPDX-License-Identifier: Apache-2.0
//
// DEVX: firmware commands in mailboxes, as a kernel driver lets user programs send them.
//
//   caller's `in` -> copy -> kernel rules (uid, umem valid bits, object id) -> command -> `out`
//
// Two ways to fail. The kernel's: errno, `out` untouched. The firmware's: status and syndrome in
// `out`, and the errno that the status maps to.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "softnic/abi/core/context.h"
#include "softnic/abi/core/memory.h"
#include "softnic/abi/core/prm.h"

namespace peal::softnic::abi::devx {

/// A firmware refusal.
struct CommandError {
  CommandStatus status;
  prm::CommandSyndrome syndrome;
};

[[noreturn]] inline void fail(prm::CommandSyndrome syndrome,
                              CommandStatus status = CommandStatus::kBadParameter) {
  throw CommandError{status, syndrome};
}
void require_ok(const Refusal& refusal);
uint32_t require_ok(const Created& created);

/// One command on its way through.
struct DevxCommand {
  VerbsContext& context;
  prm::Reader in;
  prm::Writer out;
};

/// Exact input size, or at least `in` plus whole page entries where `in` is a queue command.
void require_lengths(const DevxCommand& command, size_t in, size_t out);

/// Handle of a queue pair made by CREATE_QP, and so on. Freed through the context's table.
struct DevxQp : QpObject, mlx5dv_devx_obj {
  using QpObject::QpObject;
};
struct DevxCq : CqObject, mlx5dv_devx_obj, CompletionListener {
  using CqObject::CqObject;
  void completed() override;
  /// Whoever has that queue hears of completions, by the cookie.
  void tell_completions(std::weak_ptr<WakingQueue<uint64_t>> queue, uint64_t cookie);

  uint32_t period = 0;  // moderation: kept for QUERY_CQ, without effect as nothing interrupts
  uint32_t max_count = 0;
  bool doorbell_on_gpu = false;

 private:
  std::mutex mutex_;  // of what follows, which the engine's thread reads
  std::vector<Subscription> completions_;
};
/// A key made by CREATE_MKEY, whose answer leaves its variant out.
struct DevxKey : NicObject<ObjectKind::kKey, &SoftwareNic::deregister_memory>, mlx5dv_devx_obj {
  using NicObject::NicObject;
  uint32_t told() override { return number >> 8; }
};
mlx5dv_devx_obj* create_mkey(const DevxCommand& command);
mlx5dv_devx_obj* create_cq(const DevxCommand& command);
mlx5dv_devx_obj* create_qp(const DevxCommand& command);
mlx5dv_devx_obj* create_pd(const DevxCommand& command);
void query_cq(const DevxCommand& command, CqObject& cq);
void modify_cq(const DevxCommand& command, CqObject& cq);
void query_qp(const DevxCommand& command, QpObject& qp);
void modify_qp(const DevxCommand& command, QpObject& qp);
void query_hca_cap(const DevxCommand& command);
void query_roce_address(const DevxCommand& command);
void query_lag(const DevxCommand& command);
void query_hca_vport_context(const DevxCommand& command);

/// Umem by id, and `bytes` of it at `offset`, aligned in memory to `alignment`.
Umem& umem_of(const DevxCommand& command, uint32_t id);
std::byte* slice(const Umem& umem, uint64_t offset, uint64_t bytes, uint64_t alignment);
/// The same for the entries of a queue, whose place its context must be able to say.
std::byte* queue_slice(const Umem& umem, uint64_t offset, uint64_t bytes, uint64_t alignment);

mlx5::DoorbellRecord* doorbell_record(const Umem& umem, uint64_t offset);

/// An object that a command names by number. Another context's number is as unknown as any.
Object& required(const DevxCommand& command, ObjectKind kind, uint32_t number);

}  // namespace peal::softnic::abi::devx

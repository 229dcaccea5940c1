// SPDX-License-Identifier: Apache-2.0
//
// CREATE_CQ, QUERY_CQ, MODIFY_CQ. The queue and its doorbell record lie in umems.
#include "softnic/abi/core/devx.h"
#include "softnic/engine/word.h"

namespace peal::softnic::abi::devx {
namespace {

using prm::CommandSyndrome;
namespace cqc = prm::cqc;

void check_context(const prm::Reader& context) {
  if (context.get(cqc::kLogSize) > kMaxLogCqEntries || context.get(cqc::kCqeSize) > 1)
    fail(CommandSyndrome::kQueueSize);
  if (context.test(cqc::kCompression) || context.test(cqc::kPageOffset))
    fail(CommandSyndrome::kUnsupportedMode);
  if (context.get(cqc::kEqn) != kCompletionEqn)
    fail(CommandSyndrome::kEventQueue, CommandStatus::kBadResource);
}

}  // namespace

mlx5dv_devx_obj* create_cq(const DevxCommand& command) {
  require_lengths(command, prm::kQueueCommandBytes, prm::kHeaderBytes);
  prm::Reader context = command.in.at(prm::create_cq::kContext);
  check_context(context);
  auto cq = std::make_unique<DevxCq>(command.context);
  CompletionQueueConfig& config = cq->config;
  config.log_entries = context.get(cqc::kLogSize);
  config.cqe_bytes = context.get(cqc::kCqeSize) == 0 ? 64 : 128;
  config.uar_page = context.get(cqc::kUarPage);
  config.collapsed = context.test(cqc::kCollapsed);
  config.ignore_overrun = context.test(cqc::kIgnoreOverrun);
  cq->period = context.get(cqc::kPeriod);
  cq->max_count = context.get(cqc::kMaxCount);

  // The kernel sets both valid bits for DEVX objects, so the ids count whatever the bits say.
  Umem& buffer = umem_of(command, command.in.get(prm::create_cq::kUmemId));
  Umem& doorbell = umem_of(command, context.get(cqc::kDoorbellUmemId));
  config.buffer = queue_slice(buffer, command.in.wide(prm::create_cq::kUmemOffset),
                              uint64_t{config.cqe_bytes} << config.log_entries, config.cqe_bytes);
  // A fault of the NIC's would be a fault of this process: it must be able to write there.
  if (!buffer.on_gpu) {
    require_mapped(config.buffer, size_t{config.cqe_bytes} << config.log_entries, true);
  }
  config.doorbell = slice(doorbell, context.wide(cqc::kDoorbellOffset), 8, 8);
  Object& uar = required(command, ObjectKind::kUar, config.uar_page);

  cq->number = require_ok(command.context.nic().create_cq(config));
  cq->doorbell_on_gpu = doorbell.on_gpu;
  cq->use(buffer);
  cq->use(doorbell);
  cq->use(uar);
  return command.context.adopt(std::move(cq));
}

void query_cq(const DevxCommand& command, CqObject& cq) {
  require_lengths(command, prm::kHeaderBytes, prm::kQueueCommandBytes);
  const CompletionQueueConfig& config = cq.config;
  prm::Writer context = command.out.at(prm::create_cq::kContext);
  context.set(cqc::kCqeSize, config.cqe_bytes == 64 ? 0 : 1);
  context.set(cqc::kCollapsed, config.collapsed);
  context.set(cqc::kIgnoreOverrun, config.ignore_overrun);
  context.set(cqc::kLogSize, config.log_entries);
  context.set(cqc::kUarPage, config.uar_page);
  context.set(cqc::kEqn, kCompletionEqn);
  auto* devx = dynamic_cast<DevxCq*>(&cq);
  if (devx != nullptr) {
    context.set(cqc::kPeriod, devx->period);
    context.set(cqc::kMaxCount, devx->max_count);
  }
  auto produced = static_cast<uint32_t>(cq.nic().cq_produced(cq.number));
  context.set(cqc::kProducerCounter, produced);
  // Nobody here can read the record that an engine on a GPU has.
  if (devx != nullptr && devx->doorbell_on_gpu && cq.nic().on_gpu()) return;
  context.set(cqc::kConsumerCounter, client_word(config.doorbell));
}

void modify_cq(const DevxCommand& command, CqObject& cq) {
  constexpr uint32_t kModeration = 0x3;
  require_lengths(command, prm::kQueueCommandBytes, prm::kHeaderBytes);
  uint32_t select = command.in.get(prm::modify_cq::kSelect);
  auto* devx = dynamic_cast<DevxCq*>(&cq);
  if (devx == nullptr || command.in.get(prm::kOpMod) != 0 || (select & ~kModeration) != 0)
    fail(CommandSyndrome::kUnsupportedMode, CommandStatus::kBadOperation);
  prm::Reader context = command.in.at(prm::create_cq::kContext);
  if ((select & 1) != 0) devx->period = context.get(cqc::kPeriod);
  if ((select & 2) != 0) devx->max_count = context.get(cqc::kMaxCount);
}

}  // namespace peal::softnic::abi::devx

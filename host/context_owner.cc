// SPDX-License-Identifier: Apache-2.0
#include "host/context_owner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "host/transport/syndrome.h"

namespace peal {
namespace {

const char* opcode_name(uint8_t opcode) {
  switch (static_cast<mlx5::Opcode>(opcode)) {
    case mlx5::Opcode::kNop:
      return "NOP";
    case mlx5::Opcode::kRdmaWrite:
      return "RDMA_WRITE";
    case mlx5::Opcode::kRdmaWriteImm:
      return "RDMA_WRITE_IMM";
    case mlx5::Opcode::kRdmaRead:
      return "RDMA_READ";
    case mlx5::Opcode::kAtomicCompareSwap:
      return "ATOMIC_CS";
    case mlx5::Opcode::kAtomicFetchAdd:
      return "ATOMIC_FA";
    case mlx5::Opcode::kAtomicMaskedCompareSwap:
      return "ATOMIC_MASKED_CS";
    case mlx5::Opcode::kAtomicMaskedFetchAdd:
      return "ATOMIC_MASKED_FA";
    case mlx5::Opcode::kDump:
      return "DUMP";
    default:
      return "operation";
  }
}

/// The newest completion, which names the WQE by the low 16 bits of its index.
std::string describe_cqe(uint32_t counter_and_opcode) {
  const uint32_t wqe = counter_and_opcode >> 16;
  switch (static_cast<mlx5::CqeOpcode>((counter_and_opcode >> 4) & 0xf)) {
    case mlx5::CqeOpcode::kInvalid:
      return "none";
    case mlx5::CqeOpcode::kRequesterError:
    case mlx5::CqeOpcode::kResponderError:
      return fmt::format("error of {}", wqe);
    default:
      return fmt::format("{}", wqe);
  }
}

Failure describe(const mlx5::SendQueue& q, int queue, const std::string& nic) {
  const mlx5::QueueError& e = q.error;
  Failure f{.status = static_cast<Status>(e.status),
            .pe = static_cast<int>(q.peer),
            .queue = queue,
            .wqe_index = e.wqe_index,
            .opcode = e.opcode,
            .syndrome = e.syndrome,
            .vendor_syndrome = e.vendor_syndrome,
            .time_ns = e.time_ns,
            .nic = nic,
            .text = {}};
  if (f.status == Status::kQueueError) {
    f.text = fmt::format(
        "{} to PE {} failed: {} (syndrome {:#04x}, vendor {:#04x}, WQE {} of queue {}, QP {:#x} of "
        "{})",
        opcode_name(e.opcode), q.peer, syndrome_text(e.syndrome), e.syndrome, e.vendor_syndrome,
        e.wqe_index, queue, q.qpn(), nic);
  } else if (q.published - e.wqe_index >= mlx5::kUnconnected) {
    f.wqe_index = 0;
    f.text = fmt::format("queue {} to PE {} closed: {} (before it was connected)", queue, q.peer,
                         to_string(f.status));
  } else {
    f.text = fmt::format(
        "queue {} to PE {} closed: {} (at WQE {} of QP {:#x} of {}, {} published, {} rung)", queue,
        q.peer, to_string(f.status), e.wqe_index, q.qpn(), nic, q.published, q.rung);
  }
  return f;
}

Failure describe(const UsageError& usage) {
  Failure f;
  f.status = static_cast<Status>(usage.status);
  f.pe = usage.pe;
  f.time_ns = usage.time_ns;
  f.text = fmt::format("a kernel (block {}) used PE {}, address {:#x}, {} bytes: {}", usage.block,
                       usage.pe, usage.address, usage.bytes, to_string(f.status));
  return f;
}

}  // namespace

ContextOwner::ContextOwner(std::unique_ptr<Queues> queues, DeviceTables& tables,
                           ContextWords& words, Name name, const ContextFields& fields)
    : queues_(std::move(queues)),
      tables_(tables),
      words_(words),
      slot_(name.slot),
      serial_(name.serial),
      fields_(fields) {
  fields_.state = tables.state(slot_);
  if (queues_ != nullptr) {
    fields_.queues_per_peer = queues_->per_peer();
    fields_.queues = queues_->first();
    fields_.queue_stride = queues_->stride();
  }
  tables.keep_fields(slot_, fields_);
}

size_t ContextOwner::bytes() const {
  return sizeof(*this) + (queues_ ? size_t{queues_->count()} * queues_->stride() : 0);
}

std::string ContextOwner::describe_registration() const {
  return queues_ ? queues_->describe_registration() : "";
}

std::string ContextOwner::describe_queues() const {
  std::string text;
  for (uint32_t i = 0; queues_ && i < queues_->count(); ++i) {
    const Queues::Progress p = queues_->progress(i);
    text += fmt::format(
        "{:>7} {:>5} {:>5} {:#8x} {:>6} {:>10} {:>10} {:>10} {:>10}  {:<14} {:<10} {}\n", slot_,
        i / static_cast<uint32_t>(fields_.n_pes), p.peer, p.qpn, p.depth, p.reserved, p.published,
        p.rung, p.completed, describe_cqe(p.last_cqe), queues_->nic_of(i).device.name(),
        p.link == Link::kOpen || p.status != Status::kOk ? to_string(p.status) : "not linked");
  }
  return text;
}

void ContextOwner::stop(const Failure& why) {
  const std::lock_guard lock(mutex_);
  if (stopped_ ||
      !compare_exchange<Reach::kSystem>(&words_.stop, 0u, static_cast<uint32_t>(why.status))) {
    return;
  }
  stopped_ = why;
}

std::optional<Failure> ContextOwner::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

void ContextOwner::leave_out(std::span<const int> masked, uint32_t rank, uint32_t count) {
  std::ranges::copy(tables_.fields().near, fields_.near);
  fields_.sync_rounds = 0;
  tables_.keep_survivors(slot_, rank, count);
  tables_.keep_fields(slot_, fields_);
  for (uint32_t i = 0; queues_ && i < queues_->count(); ++i) {
    const int pe = static_cast<int>(i) % fields_.n_pes;
    if (std::ranges::find(masked, pe) != masked.end()) queues_->close(i, Status::kPeerMasked);
  }
}

void ContextOwner::give_up_link(uint32_t pe, const std::string& why, uint64_t time_ns) {
  Failure failure;
  failure.status = Status::kQueueError;
  failure.pe = static_cast<int>(pe);
  failure.time_ns = time_ns;
  failure.text = why;
  unlinked_[pe] = failure;
  queues_->set_link(pe, Link::kFailed);
  for (uint32_t i = pe; i < queues_->count(); i += static_cast<uint32_t>(fields_.n_pes)) {
    queues_->close(i, Status::kQueueError);
  }
  store_release<Reach::kSystem>(&words_.alarm, 1u);
}

std::vector<ContextOwner::Remedy> ContextOwner::remedies() const {
  std::vector<Remedy> found(queues_ ? queues_->count() : 0);
  for (uint32_t i = 0; i < found.size(); ++i) {
    const Link link = queues_->link(i % static_cast<uint32_t>(fields_.n_pes));
    if (link != Link::kOpen) {
      found[i] = Remedy::kForget;
    } else if (queues_->broken(i)) {
      found[i] = Remedy::kReconnect;
    }
  }
  return found;
}

void ContextOwner::reset_queues(std::span<const Remedy> remedies) {
  const auto n_pes = static_cast<uint32_t>(fields_.n_pes);
  for (uint32_t i = 0; i < remedies.size(); ++i) {
    if (remedies[i] == Remedy::kReconnect) queues_->reset(i);
    if (remedies[i] == Remedy::kForget && i < n_pes) queues_->forget(i);
  }
}

void ContextOwner::start_again(std::span<const Remedy> remedies, uint32_t generation,
                               uint64_t sync_epoch) {
  for (uint32_t i = 0; i < remedies.size(); ++i) {
    if (remedies[i] == Remedy::kReconnect) queues_->reconnect(i, generation);
    if (remedies[i] == Remedy::kNone) queues_->renew_landing(i);
  }
  unlinked_.clear();
  tables_.forget_usage(slot_);
  tables_.set_sync_epoch(slot_, sync_epoch);
  const std::lock_guard lock(mutex_);
  stopped_.reset();
  words_.clear();
}

std::vector<Failure> ContextOwner::failures() const {
  std::vector<Failure> found;
  const UsageError usage = tables_.usage(slot_);
  if (usage.status != 0) found.push_back(describe(usage));
  for (uint32_t i = 0; queues_ && i < queues_->count(); ++i) {
    const mlx5::SendQueue q = queues_->failed(i);
    if (q.error.status == 0 || unlinked_.contains(i % static_cast<uint32_t>(fields_.n_pes))) {
      continue;
    }
    found.push_back(describe(q, static_cast<int>(i / static_cast<uint32_t>(fields_.n_pes)),
                             queues_->nic_of(i).device.name()));
  }
  for (const auto& [pe, failure] : unlinked_) found.push_back(failure);
  std::ranges::stable_sort(found, {}, &Failure::time_ns);
  return found;
}

}  // namespace peal

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
        to_string(p.status));
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

std::vector<uint8_t> ContextOwner::broken_queues() const {
  std::vector<uint8_t> broken(queues_ ? queues_->count() : 0);
  for (uint32_t i = 0; i < broken.size(); ++i) broken[i] = queues_->broken(i) ? 1 : 0;
  return broken;
}

void ContextOwner::reset_queues(std::span<const uint8_t> chosen) {
  for (uint32_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i] != 0) queues_->reset(i);
  }
}

void ContextOwner::start_again(std::span<const uint8_t> chosen, uint32_t generation,
                               uint64_t sync_epoch) {
  for (uint32_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i] != 0) {
      queues_->reconnect(i, generation);
    } else {
      queues_->renew_landing(i);
    }
  }
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
    if (q.error.status == 0) continue;
    found.push_back(describe(q, static_cast<int>(i / static_cast<uint32_t>(fields_.n_pes)),
                             queues_->nic_of(i).device.name()));
  }
  std::ranges::stable_sort(found, {}, &Failure::time_ns);
  return found;
}

}  // namespace peal

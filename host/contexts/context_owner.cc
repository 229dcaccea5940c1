// SPDX-License-Identifier: Apache-2.0
#include "host/contexts/context_owner.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "device/shared/call_names.h"
#include "host/contexts/usage_text.h"
#include "host/nic/model.h"
#include "kernels/table.h"

namespace peal {
namespace {

Failure describe(const SendQueue& q, int queue, const std::string& nic) {
  const QueueError& e = q.error;
  Failure f{.status = static_cast<Status>(e.status),
            .pe = static_cast<int>(q.peer),
            .queue = queue,
            .wqe_index = e.wqe_index,
            .opcode = e.opcode,
            .syndrome = e.syndrome,
            .vendor_syndrome = e.vendor_syndrome,
            .time_ns = e.time_ns,
            .nic = nic};
  if (f.status == Status::kQueueError) {
    f.text = fmt::format(
        "{} to PE {} failed: {} (syndrome {:#04x}, vendor {:#04x}, WQE {} of queue {}, QP {:#x} of "
        "{})",
        nic::request_name(e.opcode), q.peer, nic::syndrome_text(e.syndrome), e.syndrome,
        e.vendor_syndrome, e.wqe_index, queue, q.nic.qpn(), nic);
  } else if (is_unconnected(q.posted, e.wqe_index)) {
    f.wqe_index = 0;
    f.text = fmt::format("queue {} to PE {} closed: {} (before it was connected)", queue, q.peer,
                         to_string(f.status));
  } else {
    f.text = fmt::format(
        "queue {} to PE {} closed: {} (at WQE {} of QP {:#x} of {}, {} published, {} rung)", queue,
        q.peer, to_string(f.status), e.wqe_index, q.nic.qpn(), nic, posted_end(q.posted), q.rung);
  }
  return f;
}

Failure describe(const kernels::CallReport& report) {
  Failure f{.status = static_cast<Status>(report.status),
            .pe = report.team == 0 ? report.pe : -1,
            .time_ns = report.time_ns,
            .text = fmt::format("{} from the host", to_string(report.call))};
  if (is_collective(report.call)) f.text += fmt::format(", team {:#x}", report.team);
  if (report.pe >= 0) f.text += fmt::format(", PE {}", report.pe);
  f.text += fmt::format(": {}", to_string(f.status));
  if (f.status == Status::kTeamBusy) {
    f.text += fmt::format(
        ": {}, of another stream or graph; let one stream wait for the other (an event), or give "
        "them two contexts (make_context) or two teams (split_team)",
        to_string(report.other));
  }
  return f;
}

/// True of a call that failed of what one of the queues says itself, and with the PE: a call of a
/// team is to none, and would not be taken for what follows from the end of that PE.
bool is_told_by_a_queue(const kernels::CallReport& report, const std::vector<Failure>& queues) {
  if (static_cast<Status>(report.status) != Status::kQueueError) return false;
  return std::ranges::find(queues, Status::kQueueError, &Failure::status) != queues.end();
}

}  // namespace

ContextOwner::ContextOwner(std::unique_ptr<LinkMachine> links, DeviceTables& tables,
                           ContextWords& words, Name name, const ContextFields& fields)
    : links_(std::move(links)), tables_(tables), words_(words), name_(name), fields_(fields) {
  fields_.state = tables.state(name.slot);
  if (links_ != nullptr) {
    const Queues& queues = links_->queues();
    fields_.queues_per_peer = queues.shape().queues_per_peer;
    fields_.queues = queues.first();
    fields_.queue_stride = queues.stride();
    fields_.marks = queues.marks();
  }
  tables.keep_fields(name.slot, fields_);
}

size_t ContextOwner::bytes() const {
  if (links_ == nullptr) return sizeof(*this);
  return sizeof(*this) + size_t{links_->queues().count()} * links_->queues().stride();
}

std::string ContextOwner::describe_queues() const {
  if (links_ == nullptr) return "";
  const Queues& queues = links_->queues();
  std::string text;
  for (uint32_t i = 0; i < queues.count(); ++i) {
    const Queues::Progress p = queues.progress(i);
    const bool open = links_->state(p.peer) == LinkState::kOpen;
    text += fmt::format(
        "{:>7} {:>5} {:>5} {:#8x} {:>6} {:>10} {:>10} {:>10} {:>10}  {:<14} {:<10} {}\n",
        name_.slot, i / queues.n_pes(), p.peer, p.qpn, p.depth, p.reserved, p.published, p.rung,
        p.completed, queues.last_completion(i), queues.nic_of(i).device.name(),
        open || p.status != Status::kOk ? to_string(p.status) : "not linked");
  }
  return text;
}

int ContextOwner::queue_number(const void* queue) const {
  if (links_ == nullptr || queue == nullptr) return -1;
  const Queues& queues = links_->queues();
  const auto at = static_cast<size_t>(static_cast<const std::byte*>(queue) - queues.first());
  return static_cast<int>(at / queues.stride() / queues.n_pes());
}

void ContextOwner::stop(const Failure& why) {
  const std::lock_guard lock(mutex_);
  if (stopped_ ||
      !compare_exchange<Reach::kSystem>(&words_.stop, 0u, static_cast<uint32_t>(why.status))) {
    return;
  }
  stopped_ = why;
  show_end();
}

void ContextOwner::show_end() const {
  tables_.end(name_.slot, static_cast<Status>(load_relaxed<Reach::kSystem>(&words_.stop)));
}

std::optional<Failure> ContextOwner::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

void ContextOwner::fail_link(uint32_t pe, const Failure& why) {
  // First: who meets a closed queue and asks why finds that there is something to look for.
  store_release<Reach::kSystem>(&words_.alarm, 1u);
  links_->fail(pe, why);
  tables_.look_everywhere(name_.slot, true);
}

void ContextOwner::leave_out(std::span<const int> masked, uint32_t rank, uint32_t count) {
  const ContextFields shown = tables_.fields();
  std::ranges::copy(shown.near, fields_.near);
  fields_.sync_rounds = 0;
  tables_.keep_survivors(name_.slot, rank, count);
  tables_.keep_fields(name_.slot, fields_);
  if (links_ == nullptr) return;
  for (const int pe : masked) {
    for (const uint32_t index : links_->queues_to(static_cast<uint32_t>(pe))) {
      links_->queues().close(index, Status::kPeerMasked);
    }
  }
}

void ContextOwner::start_again(uint64_t sync_epoch) {
  tables_.forget_usage(name_.slot);
  tables_.look_everywhere(name_.slot, false);
  tables_.set_sync_epoch(name_.slot, sync_epoch);
  const std::lock_guard lock(mutex_);
  stopped_.reset();
  words_.clear();
  show_end();
}

std::vector<Failure> ContextOwner::failures(const PlaceOf& place_of) const {
  std::vector<Failure> found;
  const UsageError usage = tables_.usage(name_.slot);
  if (usage.status != 0) found.push_back(peal::describe(usage, fields_, place_of));
  const kernels::CallReport report = tables_.report(name_.slot);
  if (links_ != nullptr) {
    const Queues& queues = links_->queues();
    std::ranges::move(links_->failures(), std::back_inserter(found));
    for (uint32_t i = 0; i < queues.count(); ++i) {
      const uint32_t pe = i % queues.n_pes();
      const SendQueue q = queues.failed(i);
      if (q.error.status == 0 || links_->state(pe) == LinkState::kFailed) continue;
      found.push_back(
          describe(q, static_cast<int>(i / queues.n_pes()), queues.nic_of(i).device.name()));
    }
  }
  if (report.status != 0 && !is_told_by_a_queue(report, found)) found.push_back(describe(report));
  for (Failure& f : found) f.context = static_cast<int>(name_.slot);
  std::ranges::stable_sort(found, {}, &Failure::time_ns);
  return found;
}

size_t ContextTable::bytes(int n_pes) {
  return kMaxContexts * (sizeof(ContextWords) + static_cast<size_t>(n_pes) * sizeof(uint32_t));
}

ContextTable::ContextTable(Backing memory, int n_pes, uint32_t generation)
    : memory_(std::move(memory)), n_pes_(static_cast<size_t>(n_pes)), generation_(generation) {}

ContextWords& ContextTable::words(uint32_t slot) const {
  return reinterpret_cast<ContextWords*>(memory_.address())[slot];
}

uint32_t* ContextTable::requests(uint32_t slot) const {
  return reinterpret_cast<uint32_t*>(&words(kMaxContexts)) + slot * n_pes_;
}

void ContextTable::add(const std::shared_ptr<ContextOwner>& context) {
  const std::lock_guard lock(mutex_);
  contexts_[context->slot()] = context;
  if (context->ended()) context->show_end();  // while it was made
}

uint64_t ContextTable::taken() const {
  static_assert(kMaxContexts == 64, "one bit a slot");
  uint64_t taken = 0;
  for_each([&](const ContextOwner& context) { taken |= uint64_t{1} << context.slot(); });
  return taken;
}

std::shared_ptr<ContextOwner> ContextTable::at(uint32_t slot) const {
  const std::lock_guard lock(mutex_);
  return contexts_[slot].lock();
}

bool ContextTable::well() const {
  for (uint32_t slot = 0; slot < kMaxContexts; ++slot) {
    if (load_acquire<Reach::kSystem>(&words(slot).stop) != 0) return false;
    if (load_acquire<Reach::kSystem>(&words(slot).alarm) != 0) return false;
  }
  return true;
}

void ContextTable::report(Failure failure) {
  {
    const std::lock_guard lock(mutex_);
    reported_.push_back(std::move(failure));
  }
  store_release<Reach::kSystem>(&words(0).alarm, 1u);
}

std::vector<Failure> ContextTable::reported() const {
  const std::lock_guard lock(mutex_);
  return reported_;
}

void ContextTable::forget_reported() {
  const std::lock_guard lock(mutex_);
  reported_.clear();
}

void ContextTable::stop_all(Status why) const {
  for (uint32_t slot = 0; slot < kMaxContexts; ++slot) {
    compare_exchange<Reach::kSystem>(&words(slot).stop, 0u, static_cast<uint32_t>(why));
  }
  for_each([](const ContextOwner& context) { context.show_end(); });
}

}  // namespace peal

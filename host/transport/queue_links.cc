// SPDX-License-Identifier: Apache-2.0
//
// The life of connections: queue pairs made, numbers exchanged, connected, proven, opened; reset
// and connected again. What a kernel sees of it is `completed`, which moves up at the very end.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "host/base/error.h"
#include "host/transport/ibgda_end.h"
#include "host/transport/queues.h"

namespace peal {
namespace {

// Of the packets that queue pair `qpn` sends on its `generation`-th connection: for every
// generation somewhere else in the 24 bits.
uint32_t first_psn(uint32_t qpn, uint32_t generation) {
  if (generation == 0) return 0;
  const uint64_t mixed = (uint64_t{generation} << 24 | qpn) * 0x9e3779b97f4a7c15u;
  return static_cast<uint32_t>(mixed >> 40);
}

}  // namespace

std::unique_ptr<QueueEnd> Queues::make_end(uint32_t index) const {
  const size_t by = nic_index(index);
  if (carrier_.doorbells == nullptr) {
    return std::make_unique<ProxyEnd>(nic_of(index), (*carrier_.proxies)[by], proxy_memory(index));
  }
  const auto place = nic::QueuePlace::of(layout_, *ways_[by].umem, index * stride());
  return std::make_unique<IbgdaEnd>(nic_of(index), (*carrier_.doorbells)[by].uar(), place,
                                    layout_.depth);
}

void Queues::set_number(uint32_t index, uint32_t qpn) {
  auto* const queue = reinterpret_cast<mlx5::SendQueue*>(base(index) + layout_.state());
  memory_.store_word(&queue->qpn_shifted.raw, Be32{qpn << 8}.raw);
}

Queues::Ends Queues::make_ends(uint32_t pe) const {
  Ends ends;
  for (uint32_t index = pe; index < count(); index += n_pes_) {
    ends.push_back(ends_[index] == nullptr ? make_end(index) : nullptr);
  }
  return ends;
}

std::vector<Endpoint> Queues::take_ends(uint32_t pe, Ends ends) {
  std::vector<Endpoint> mine;
  for (uint32_t index = pe; index < count(); index += n_pes_) {
    // A link that was forgotten has them still, in reset.
    if (ends_[index] == nullptr) {
      ends_[index] = std::move(ends[index / n_pes_]);
      set_number(index, ends_[index]->number());
    }
    mine.push_back(endpoint_of(nic_of(index).device, ends_[index]->number()));
  }
  links_[pe] = Link::kMade;
  return mine;
}

void Queues::connect(uint32_t pe, std::span<const Endpoint> ends, uint32_t generation) {
  for (uint32_t q = 0; q < queues_; ++q) {
    const uint32_t index = q * n_pes_ + pe;
    const nic::Device& device = nic_of(index).device;
    const Endpoint mine = endpoint_of(device, ends_[index]->number());
    remotes_[index] = {.qpn = ends[q].qpn, .path = path_to(device, mine, ends[q])};
    remotes_[index].path.lag_port = lag_port(device, pe, q / rails_used_);
    reconnect(index, generation);
  }
}

std::string Queues::describe_way(uint32_t index) const {
  const nic::Path& path = remotes_[index].path;
  std::string text = fmt::format("MTU {}", nic::mtu_bytes(path.mtu));
  if (path.link_layer == nic::LinkLayer::kInfiniBand) text += fmt::format(", LID {}", path.dlid);
  return path.global ? text + ", GID " + path.remote_gid.text() : text;
}

void Queues::open_queue(uint32_t index) {
  auto* const queue = reinterpret_cast<mlx5::SendQueue*>(base(index) + layout_.state());
  memory_.store_word(&queue->completed, start_);
}

void Queues::open(uint32_t pe) {
  for (uint32_t index = pe; index < count(); index += n_pes_) open_queue(index);
  links_[pe] = Link::kOpen;
}

void Queues::open_connected() {
  for (uint32_t pe = 0; pe < n_pes_; ++pe) {
    if (links_[pe] == Link::kConnected) open(pe);
  }
}

uint32_t Queues::links_to_come() const {
  return static_cast<uint32_t>(
      std::ranges::count_if(links_, [](Link link) { return link != Link::kOpen; }));
}

std::vector<uint8_t> Queues::connected() const {
  std::vector<uint8_t> chosen(count());
  for (uint32_t i = 0; i < count(); ++i) chosen[i] = links_[i % n_pes_] == Link::kConnected ? 1 : 0;
  return chosen;
}

// Before any link is made: whether any two PEs could be connected, by each rail, and each with
// itself where all links are made at once.
void Queues::check_kinds(Bootstrap& bootstrap, const FirstLinks& first) const {
  std::array<Endpoint, mlx5::kMaxRails> mine;
  for (uint32_t rail = 0; rail < rails_used_; ++rail) {
    mine[rail] = endpoint_of(rails_.nics()[rails_.nic_of(rail)].device, 0);
  }
  const auto all = gather(bootstrap, mine);
  const auto me = static_cast<uint32_t>(bootstrap.rank());
  for (uint32_t rail = 0; rail < std::min(rails_used_, queues_); ++rail) {
    std::vector<Endpoint> ends;
    for (const auto& of_pe : all) ends.push_back(of_pe[rail]);
    check_ends(ends, first.between(me, me));
  }
}

void Queues::connect_first(Bootstrap& bootstrap, const FirstLinks& first) {
  check_kinds(bootstrap, first);
  const auto me = static_cast<uint32_t>(bootstrap.rank());
  std::vector<std::vector<uint32_t>> linked;  // by PE
  for (uint32_t pe = 0; pe < n_pes_; ++pe) linked.push_back(first.of(pe));
  const size_t most = std::ranges::max_element(linked, {}, &std::vector<uint32_t>::size)->size();
  std::vector<Endpoint> mine(most * queues_);  // [linked PEs][queues]
  for (size_t i = 0; i < linked[me].size(); ++i) {
    std::ranges::copy(take_ends(linked[me][i], make_ends(linked[me][i])),
                      mine.begin() + static_cast<ptrdiff_t>(i * queues_));
  }
  std::vector<Endpoint> all(mine.size() * n_pes_);
  bootstrap.allgather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  for (const uint32_t pe : linked[me]) {
    const auto i = static_cast<size_t>(std::ranges::find(linked[pe], me) - linked[pe].begin());
    connect(pe, std::span(all).subspan(pe * mine.size() + i * queues_, queues_), 0);
    set_link(pe, Link::kConnected);
  }
  // Every queue can receive before anybody sends.
  bootstrap.barrier();
}

std::vector<SelfTestResult> Queues::prove(const ProvingGround& ground,
                                          std::span<const uint8_t> chosen, uint32_t tag,
                                          std::chrono::nanoseconds deadline,
                                          const std::function<bool()>& give_up) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  const uint64_t cells = ground.cells + uint64_t{ground.pe} * ground.kSlots * kSelfTestCell;
  std::vector<SelfTestResult> failed;
  for (uint32_t first = 0; first < queues_ && failed.empty(); first += ground.kSlots) {
    std::vector<QueueUnderTest> round;
    const uint32_t last = std::min(first + ground.kSlots, queues_);
    for (uint32_t index = first * n_pes_; index < last * n_pes_; ++index) {
      if (chosen[index] == 0) continue;
      QueueUnderTest& q = round.emplace_back();
      q.index = index;
      q.memory = &shared();
      memory_.copy_out(&q.fields, reinterpret_cast<const std::byte*>(state(index)),
                       offsetof(mlx5::SendQueue, reserved));
      q.end = ends_[index].get();
      q.cell = cells + index / n_pes_ % ground.kSlots * kSelfTestCell;
      q.rkey = ground.rkeys[rail(index) * n_pes_ + q.fields.peer];
      q.word_rkey = ground.word_rkeys[rail(index) * n_pes_ + q.fields.peer];
    }
    failed = self_test(round, tag, end - std::chrono::steady_clock::now(), give_up);
  }
  return failed;
}

void Queues::reset(uint32_t index) {
  if (ends_[index]) ends_[index]->to_reset();  // first: now the NIC writes none of what follows
  const mlx5::Cqe none = nic::QueueMemoryLayout::no_completion();
  shared().copy_in(shared_base(index) + layout_.cqe(), &none, sizeof(none));
  shared().zero(index * stride() + layout_.doorbell(), sizeof(mlx5::DoorbellRecord));
  renew_landing(index);
  change(index, [this](mlx5::SendQueue& queue) { start_afresh(queue); });
}

void Queues::reconnect(uint32_t index, uint32_t generation) {
  QueueEnd& end = *ends_[index];
  nic::RemoteQueue remote = remotes_[index];
  remote.psn = first_psn(remote.qpn, generation);
  end.connect(remote, first_psn(end.number(), generation));
}

void Queues::forget(uint32_t pe) {
  for (uint32_t index = pe; index < count(); index += n_pes_) reset(index);
  links_[pe] = Link::kNone;
  __atomic_store_n(&requests_[pe], 0u, __ATOMIC_RELAXED);
}

}  // namespace peal

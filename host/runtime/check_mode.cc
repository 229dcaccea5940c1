// SPDX-License-Identifier: Apache-2.0
#include "host/runtime/check_mode.h"

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/immortal.h"
#include "host/base/place.h"
#include "host/job/together.h"
#include "simt/lanes/place.h"
#include "simt/lanes/plain_access.h"

namespace peal {
namespace {

// The PEs of this process whose kernels' own loads and stores are looked at.
struct Observed {
  std::shared_mutex mutex;
  std::vector<CheckMode*> pes;
};
Observed& observed() {
  static Immortal<Observed> the_one;
  return *the_one;
}

}  // namespace

CheckMode::CheckMode(JobMembership& job, SymmetricHeap& heap, DeviceTables& tables,
                     ContextTable& contexts, std::vector<std::byte*> mapped)
    : heap_(heap),
      contexts_(contexts),
      target_(job.target),
      log_(job.log),
      mapped_(std::move(mapped)),
      hooks_{.self = this,
             .begin =
                 [](void* self, ContextState* state, const CallNote& note) {
                   if (of(self).order_) of(self).order_->begin(state, note);
                 },
             .end =
                 [](void* self, ContextState* state, const CallNote& note, Status status) {
                   if (of(self).order_) of(self).order_->end(state, note, status);
                 },
             .found = [](void* self, const ContextState* state,
                         const UsageError& error) { of(self).found(error, state->fields.pe); }} {
  if (target_ == Target::kCpu) watch_order(job.group);
  tables.check({heap_.extents(), target_ == Target::kCpu ? &hooks_ : nullptr});
}

// Says a mistake once, when it is found. On a thread of its own, as below: a lane's stack may be
// too small for reading debug information.
void CheckMode::found(const UsageError& error, int pe) {
  {
    const std::lock_guard lock(mutex_);
    if (!told_.emplace(error.mistake, error.call, error.side, error.place).second) return;
  }
  std::thread([&] {
    log_.error("check", "{}: {}", describe(error.lane, error.place),
               describe_mistake(error, pe, [this](const void* at) { return heap_.place_of(at); }));
  }).join();
}

// A mistake in the order of accesses, from whoever found it: "PE 1: kernel ..." of this PE. Those
// of single calls are usage errors of their contexts.
void CheckMode::tell(const std::string& sentence) {
  std::thread([&] {
    // It begins with this PE, as whoever prints it does.
    const size_t behind = sentence.starts_with("PE ") ? sentence.find(": ") + 2 : 0;
    std::string text = sentence.substr(behind);
    log_.error("check", "{}", text);
    contexts_.report(
        {.status = Status::kMistake, .time_ns = monotonic_ns(), .text = std::move(text)});
  }).join();
}

// The first PE of a host makes what its PEs share.
void CheckMode::watch_order(LiveGroup& group) {
  const std::vector<Place>& places = group.places();
  const auto me = static_cast<size_t>(group.rank());
  checking::OrderConfig config;
  for (size_t pe = 0; pe < places.size(); ++pe) {
    if (same_host(places[pe], places[me])) config.pes.push_back(static_cast<int>(pe));
  }
  const checking::Segment::Shape shape{static_cast<int>(config.pes.size()), heap_.bytes()};
  std::shared_ptr<const checking::Segment> segment;
  const std::vector<PeerFile> files = gather_together(group, [&] {
    if (config.pes[0] != group.rank()) return PeerFile{};
    segment = std::make_shared<const checking::Segment>(checking::Segment::create(shape));
    return segment->file();
  });
  config.pe = group.rank();
  config.job_pes = group.size();
  config.heap = heap_.base();
  for (const int pe : config.pes) {
    if (!mapped_.empty()) config.mapped.push_back(mapped_[static_cast<size_t>(pe)]);
  }
  config.place_of = [this](const void* address) { return heap_.place_of(address); };
  config.report = [this](const std::string& text) { tell(text); };
  together(group, [&] {
    if (!segment) {
      const PeerFile& file = files[static_cast<size_t>(config.pes[0])];
      segment = std::make_shared<const checking::Segment>(checking::Segment::open(file, shape));
    }
    order_.emplace(segment, std::move(config));
  });
  if (const std::string unseen = order_->unseen(); !unseen.empty())
    log_.warn("check", "{}", unseen);
  heap_.on_free([this](const void* block, size_t bytes) { order_->freed(block, bytes); });
  const std::unique_lock lock(observed().mutex);
  observed().pes.push_back(this);
  simt::observe_accesses(&CheckMode::observe);
}

CheckMode::~CheckMode() {
  if (!order_) return;
  heap_.on_free(nullptr);
  const std::unique_lock lock(observed().mutex);
  std::erase(observed().pes, this);
  if (observed().pes.empty()) simt::observe_accesses(nullptr);
}

bool CheckMode::concerns(const void* address) const {
  const auto within = [&](const std::byte* heap) {
    return heap != nullptr && static_cast<const std::byte*>(address) - heap >= 0 &&
           static_cast<size_t>(static_cast<const std::byte*>(address) - heap) < heap_.bytes();
  };
  return within(heap_.base()) || std::ranges::any_of(mapped_, within);
}

// Where several PEs share a process, the access counts as that of the PE whose heap it is in:
// nobody knows which PE's lane this is.
void CheckMode::observe(const simt::PlainAccess& access) {
  if (access.address == nullptr || simt::in_library()) return;
  const std::shared_lock lock(observed().mutex);
  for (CheckMode* const pe : observed().pes) {
    const bool its = observed().pes.size() == 1 ? pe->concerns(access.address)
                                                : pe->heap_.contains(access.address);
    if (!its) continue;
    pe->order_->plain({.address = access.address,
                       .bytes = access.bytes,
                       .write = access.write,
                       .atomic = access.atomic,
                       .order = access.order,
                       .place = simt::place_at(reinterpret_cast<uintptr_t>(access.pc) + 1)});
    return;
  }
}

void CheckMode::recovered() {
  if (order_) order_->recovered();
  const std::lock_guard lock(mutex_);
  told_.clear();
}

void CheckMode::warn_if_unused() const {
  bool used = target_ == Target::kCpu;  // kernels for CPUs always look
  contexts_.for_each([&](const ContextOwner& context) { used = used || context.checked(); });
  const bool blind = order_ && !simt::accesses_are_told;
  if (const std::string wait = blind ? order_->unordered_wait() : ""; !wait.empty()) {
    log_.warn("check",
              "{}; what the kernel then loaded by itself was not looked at: peal-cc --check "
              "compiles a program whose kernels' own loads and stores are",
              wait);
  }
  if (used) return;
  log_.warn("check",
            "PEAL_CHECK=on, but no kernel that was compiled with -DPEAL_CHECK=1 has made a call: "
            "nothing was checked");
}

}  // namespace peal

// SPDX-License-Identifier: Apache-2.0
//
// Messages of a link come in the order in which they were sent, so that whoever hears "connected"
// has had the ends. Those of another generation (an earlier recovery) are void.
#include "host/contexts/linker.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>

#include "base/clock.h"

namespace peal {
namespace {

// How soon a kernel's request is noticed. Only while there are links to come.
constexpr std::chrono::milliseconds kPeriod{1};

// While links are being proven: for the NIC, which may need this CPU.
constexpr std::chrono::microseconds kShortestNap{20};
constexpr uint32_t kEqualNaps = 16;
constexpr uint32_t kMostDoublings = 6;

std::chrono::microseconds nap_after(uint32_t idle_rounds) {
  return std::min<std::chrono::microseconds>(
      kPeriod, kShortestNap * (1u << std::min(idle_rounds / kEqualNaps, kMostDoublings)));
}

// The most ends that fit one message.
constexpr size_t kMostEnds = Channel::kMaxPayload / sizeof(Endpoint);

std::string text_of(const std::vector<std::byte>& payload) {
  return {reinterpret_cast<const char*>(payload.data()), payload.size()};
}

}  // namespace

Linker::Linker(LiveGroup& group, ContextTable& contexts, LinkTester& link_tester,
               std::shared_ptr<Gpu> gpu, const Config& config, const Log& log)
    : group_(group),
      contexts_(contexts),
      link_tester_(link_tester),
      gpu_(std::move(gpu)),
      self_test_(config.self_test),
      patience_(config.timeout),
      log_(log),
      thread_([this] { run(); }) {}

void Linker::stop() {
  change([this] { ending_ = true; });
  if (thread_.joinable()) thread_.join();
}

void Linker::expect(uint32_t slot, uint32_t links) {
  to_come_[slot] = links;
  change([this] { expecting_ = true; });
}

void Linker::deliver(Message message) {
  change([&] { inbox_.push_back(std::move(message)); });
}

void Linker::forget() {
  under_way_.clear();
  waiting_.clear();
}

// What goes wrong with a link is that link's failure; this is what goes wrong in saying so, because
// the GPU is lost.
void Linker::attempt(const std::function<void()>& body) const {
  try {
    body();
  } catch (const std::exception& error) {
    log_.error("runtime", "queues wanted by a kernel: {}", error.what());
  }
}

void Linker::run() {
  // A software NIC asks about the queues' memory.
  if (gpu_) attempt([this] { gpu_->make_current(); });
  uint32_t idle = 0;  // rounds without news, while links are being proven
  bool proving = false;
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto news = [this] { return ending_ || !inbox_.empty(); };
    if (proving) {
      changed_.wait_for(lock, nap_after(idle++), news);
    } else if (expecting_) {
      changed_.wait_for(lock, kPeriod, news);
    } else {
      changed_.wait(lock, [&] { return news() || expecting_; });
    }
    if (ending_) return;
    std::vector<Message> inbox = std::exchange(inbox_, {});
    expecting_ = false;
    if (!inbox.empty()) idle = 0;
    lock.unlock();
    bool waiting = false;
    {
      const std::lock_guard round_lock(round_mutex_);
      attempt([&] { round(std::move(inbox)); });
      waiting = !waiting_.empty();
      proving = std::ranges::any_of(
          under_way_, [](const auto& entry) { return entry.second.test.has_value(); });
    }
    lock.lock();
    expecting_ |= waiting || std::ranges::any_of(to_come_, [](const auto& n) {
                    return n.load(std::memory_order_relaxed) != 0;
                  });
  }
}

void Linker::round(std::vector<Message> news) {
  for (const Message& message : news) take(message);
  send_what_waits();
  advance_proofs();
  for (const Name& wanted : requested()) {
    const Owner context = context_of(wanted);
    if (context == nullptr) continue;
    const Name link{wanted.slot, context->serial(), wanted.pe};
    advance(*context, link, [&] { want(*context, link); });
  }
}

// Takes the request words back; what becomes of a request is in the link's state.
std::vector<Linker::Name> Linker::requested() {
  std::vector<Name> found;
  for (uint32_t slot = 0; slot < kMaxContexts; ++slot) {
    uint32_t links = to_come_[slot].load(std::memory_order_relaxed);
    if (links == 0) continue;
    if (contexts_.at(slot) == nullptr) {
      // Unless the slot has had a new context meanwhile, with as many links: then it has it still.
      to_come_[slot].compare_exchange_strong(links, 0);
      if (contexts_.at(slot) != nullptr) to_come_[slot] = links;
      continue;
    }
    uint32_t* const words = contexts_.requests(slot);
    for (int pe = 0; pe < group_.size(); ++pe) {
      if (load_relaxed<Reach::kSystem>(&words[pe]) == 0) continue;
      store_relaxed<Reach::kSystem>(&words[pe], 0u);
      if (!group_.masked(pe)) found.push_back({slot, 0, pe});
    }
  }
  return found;
}

Linker::Owner Linker::context_of(const Name& link) const {
  Owner context = contexts_.at(link.slot);
  if (context == nullptr || context->links() == nullptr) return nullptr;
  return link.serial == 0 || context->serial() == link.serial ? context : nullptr;
}

void Linker::advance(ContextOwner& context, const Name& link, const std::function<void()>& step) {
  try {
    step();
  } catch (const std::exception& error) {
    refuse(context, link, error.what());
  }
}

void Linker::want(ContextOwner& context, const Name& link) {
  if (context.links()->state(link.peer()) != LinkState::kNone) return;
  if (const std::string why = under_way_[link].failed; !why.empty()) {
    fail(context, link, why);
  } else {
    make(context, link);
  }
}

void Linker::make(ContextOwner& context, const Name& link) {
  const std::vector<Endpoint> ends = context.links()->make(link.peer());
  for (size_t first = 0; first < ends.size(); first += kMostEnds) {
    const auto part = std::span(ends).subspan(first, std::min(kMostEnds, ends.size() - first));
    send(link, Step::kEnds, static_cast<uint32_t>(first), std::as_bytes(part));
  }
}

void Linker::take(const Message& message) {
  const auto [generation, slot, serial, what] = message.word;
  if (generation != contexts_.generation() || slot >= kMaxContexts) return;
  const Name link{static_cast<uint32_t>(slot), serial, message.from};
  const auto step = static_cast<Step>(what & 0xff);
  if (group_.masked(link.pe)) return;
  const Owner context = context_of(link);
  if (context == nullptr) {
    // All PEs had it before a kernel could want anything.
    if (step == Step::kEnds) send_refusal(link, "it has dropped the context");
    return;
  }
  advance(*context, link, [&] {
    switch (step) {
      case Step::kEnds:
        return take_ends(*context, link, static_cast<uint32_t>(what >> 8), message.payload);
      case Step::kConnected:
        return take_connected(*context, link);
      case Step::kTested:
        under_way_[link].passed_there = true;
        return open_if_passed(*context, link);
      case Step::kRefused:
        return take_refusal(*context, link, text_of(message.payload));
    }
  });
}

void Linker::take_ends(ContextOwner& context, const Name& link, uint32_t first,
                       const std::vector<std::byte>& payload) {
  LinkMachine& links = *context.links();
  const uint32_t wanted = links.queues().shape().queues_per_peer;
  std::vector<Endpoint>& theirs = under_way_[link].ends;
  const size_t count = payload.size() / sizeof(Endpoint);
  if (first != theirs.size() || first + count > wanted) return;
  theirs.resize(first + count);
  std::memcpy(theirs.data() + first, payload.data(), count * sizeof(Endpoint));
  if (theirs.size() < wanted) return;
  const std::vector<Endpoint> all = std::exchange(theirs, {});
  if (links.state(link.peer()) == LinkState::kNone) make(context, link);
  if (links.state(link.peer()) != LinkState::kMade) return;
  links.connect(link.peer(), all, contexts_.generation());
  send(link, Step::kConnected, 0, {});
}

void Linker::take_connected(ContextOwner& context, const Name& link) {
  LinkMachine& links = *context.links();
  if (links.state(link.peer()) != LinkState::kConnected) return;
  if (!self_test_) return passed_here(context, link);
  auto& test = under_way_[link].test;
  if (test) return;
  test.emplace(link_tester_, links.queues(), links.queues_to(link.peer()),
               link_tester_.time_for_link(patience_));
}

void Linker::advance_proofs() {
  for (auto next = under_way_.begin(); next != under_way_.end();) {
    const auto here = next++;
    const Name link = here->first;  // what follows may end the entry
    UnderWay& under_way = here->second;
    const Owner context = context_of(link);
    if (context == nullptr) {
      under_way_.erase(here);
    } else if (under_way.test && context->ended()) {
      under_way.test.reset();  // nobody waits for the link any more
    } else if (under_way.test) {
      advance(*context, link, [&] {
        if (!under_way.test->advance()) return;
        const std::vector<SelfTestResult> failed = under_way.test->failed();
        under_way.test.reset();
        if (failed.empty()) return passed_here(*context, link);
        refuse(*context, link, link_tester_.describe_failed(context->links()->queues(), failed));
      });
    }
  }
}

void Linker::passed_here(ContextOwner& context, const Name& link) {
  context.links()->tested(link.peer());
  send(link, Step::kTested, 0, {});
  open_if_passed(context, link);
}

// Only then nobody needs this end's queues but kernels: until there the other end is tested on
// them.
void Linker::open_if_passed(ContextOwner& context, const Name& link) {
  LinkMachine& links = *context.links();
  if (!under_way_[link].passed_there || links.state(link.peer()) != LinkState::kTested) return;
  links.open(link.peer());
  under_way_.erase(link);
  to_come_[link.slot] = links.to_come();
}

// The other end is of no use to anybody.
void Linker::refuse(ContextOwner& context, const Name& link, const std::string& why) {
  send_refusal(link, why);
  fail(context, link, why);
}

void Linker::send_refusal(const Name& link, const std::string& why) {
  send(link, Step::kRefused, 0, std::as_bytes(std::span(why)));
}

// The other end has refused it and says why: its failure is nearer to the cause than what would
// come of it here.
void Linker::take_refusal(ContextOwner& context, const Name& link, const std::string& why) {
  std::string& failed = under_way_[link].failed;
  if (!failed.empty()) return;
  const std::string text = fmt::format("PE {}: {}", link.pe, why);
  if (context.links()->state(link.peer()) == LinkState::kNone) {
    failed = text;  // nobody here has asked yet
  } else {
    fail(context, link, text);
  }
}

void Linker::fail(ContextOwner& context, const Name& link, const std::string& why) {
  UnderWay& under_way = under_way_[link];
  under_way.failed = why;
  under_way.test.reset();
  const Failure failure{
      .status = Status::kQueueError,
      .pe = link.pe,
      .time_ns = monotonic_ns(),
      .text = fmt::format("the queues to PE {} could not be connected: {}", link.pe, why)};
  log_.error("runtime", "{}", failure.text);
  context.fail_link(link.peer(), failure);
}

void Linker::send(const Name& link, Step step, uint32_t first, std::span<const std::byte> payload) {
  const auto sent = payload.first(std::min(payload.size(), Channel::kMaxPayload));
  const uint64_t what = static_cast<uint64_t>(step) | uint64_t{first} << 8;
  waiting_.push_back({link, what, {sent.begin(), sent.end()}});
  send_what_waits();
}

// Messages to a PE stay in order: while one does not fit, those behind it wait as well.
void Linker::send_what_waits() {
  std::vector<Outgoing> left;
  for (Outgoing& message : waiting_) {
    const int to = message.link.pe;
    bool fits = std::ranges::none_of(left, [&](const Outgoing& l) { return l.link.pe == to; });
    if (fits) {
      fits = group_.channel().send(
                 to, Message::Kind::kLink,
                 {contexts_.generation(), message.link.slot, message.link.serial, message.step},
                 message.payload) != Channel::Sent::kFull;  // kGone is sent, too
    }
    if (!fits) left.push_back(std::move(message));
  }
  waiting_ = std::move(left);
}

}  // namespace peal

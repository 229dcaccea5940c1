// SPDX-License-Identifier: Apache-2.0
//
// Messages of a link come in the order in which they were sent, so that whoever hears "connected"
// has had the ends. Those of another generation (an earlier recovery) are void.
#include "host/linker.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <span>
#include <utility>

#include "host/base/error.h"
#include "host/runtime_state.h"

namespace peal {
namespace {

// How soon a kernel's first wish is noticed. Only while there are links to come.
constexpr std::chrono::milliseconds kPeriod{1};

// In one message.
constexpr size_t kMostEnds = Channel::kMaxPayload / sizeof(Endpoint);

std::string text_of(const std::vector<std::byte>& payload) {
  return {reinterpret_cast<const char*>(payload.data()), payload.size()};
}

}  // namespace

Linker::Linker(Runtime::State& state) : state_(state), thread_([this] { run(); }) {}

void Linker::stop() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Linker::expect(uint32_t slot, uint32_t links) {
  to_come_[slot] = links;
  {
    const std::lock_guard lock(mutex_);
    looked_for_ = true;  // the next round finds out
  }
  changed_.notify_all();
}

void Linker::deliver(Message message) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.push_back(std::move(message));
  }
  changed_.notify_all();
}

void Linker::forget() {
  ends_.clear();
  failed_.clear();
  waiting_.clear();
}

// What goes wrong with a link is that link's failure; this is what goes wrong in saying so, because
// the GPU is lost.
void Linker::attempt(const std::function<void()>& body) const {
  try {
    body();
  } catch (const std::exception& error) {
    state_.log.error("runtime", "queues wanted by a kernel: {}", error.what());
  }
}

void Linker::run() {
  // A software NIC asks about the queues' memory.
  if (state_.gpu) attempt([this] { state_.gpu->make_current(); });
  std::unique_lock lock(mutex_);
  while (!ending_) {
    const auto news = [this] { return ending_ || !inbox_.empty(); };
    if (looked_for_) {
      changed_.wait_for(lock, kPeriod, news);
    } else {
      changed_.wait(lock, [&] { return news() || looked_for_; });
    }
    if (ending_) return;
    std::vector<Message> inbox = std::exchange(inbox_, {});
    looked_for_ = false;
    lock.unlock();
    {
      const std::lock_guard at_work(at_work_);
      attempt([&] { round(std::move(inbox)); });
    }
    lock.lock();
    looked_for_ |= !waiting_.empty() || std::ranges::any_of(to_come_, [](const auto& n) {
      return n.load(std::memory_order_relaxed) != 0;
    });
  }
}

void Linker::round(std::vector<Message> news) {
  for (const Message& message : news) take(message);
  send_what_waits();
  for (const Name& wish : wishes()) {
    const Context context = context_of(wish);
    if (context == nullptr) continue;
    const Name link{wish.slot, context->serial(), wish.pe};
    advance(*context, link, [&] { want(*context, link); });
  }
}

// Takes the request words back; what becomes of a wish is in the link's state.
std::vector<Linker::Name> Linker::wishes() {
  std::vector<Name> found;
  for (uint32_t slot = 0; slot < kMaxContexts; ++slot) {
    if (to_come_[slot].load(std::memory_order_relaxed) == 0) continue;
    {
      const std::lock_guard lock(state_.contexts_mutex);
      if (state_.contexts[slot].expired()) {
        to_come_[slot] = 0;
        continue;
      }
    }
    uint32_t* const words = state_.requests(slot);
    for (int pe = 0; pe < state_.bootstrap->size(); ++pe) {
      if (load_relaxed<Reach::kSystem>(&words[pe]) == 0) continue;
      store_relaxed<Reach::kSystem>(&words[pe], 0u);
      if (!state_.bootstrap->masked(pe)) found.push_back({slot, 0, pe});
    }
  }
  return found;
}

Linker::Context Linker::context_of(const Name& link) const {
  const std::lock_guard lock(state_.contexts_mutex);
  Context context = state_.contexts[link.slot].lock();
  if (context == nullptr || context->queues() == nullptr) return nullptr;
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
  if (context.queues()->link(static_cast<uint32_t>(link.pe)) != Link::kNone) return;
  if (const auto why = failed_.find(link); why != failed_.end()) {
    fail(context, link, why->second);
  } else {
    make(context, link);
  }
}

void Linker::make(ContextOwner& context, const Name& link) {
  const auto pe = static_cast<uint32_t>(link.pe);
  Queues& queues = *context.queues();
  auto made = queues.make_ends(pe);
  std::vector<Endpoint> ends;
  {
    const std::lock_guard lock(state_.contexts_mutex);
    ends = queues.take_ends(pe, std::move(made));
  }
  for (size_t first = 0; first < ends.size(); first += kMostEnds) {
    const auto part = std::span(ends).subspan(first, std::min(kMostEnds, ends.size() - first));
    const auto bytes = std::as_bytes(part);
    send(link, Step::kEnds, static_cast<uint32_t>(first), {bytes.begin(), bytes.end()});
  }
}

void Linker::take(const Message& message) {
  const auto [generation, slot, serial, what] = message.word;
  if (generation != state_.generation || slot >= kMaxContexts) return;
  const Name link{static_cast<uint32_t>(slot), serial, message.from};
  const auto step = static_cast<Step>(what & 0xff);
  if (state_.bootstrap->masked(link.pe)) return;
  const Context context = context_of(link);
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
      case Step::kProven:
        return take_proven(*context, link);
      case Step::kRefused:
        return take_refusal(*context, link, text_of(message.payload));
    }
  });
}

void Linker::take_ends(ContextOwner& context, const Name& link, uint32_t first,
                       const std::vector<std::byte>& payload) {
  Queues& queues = *context.queues();
  std::vector<Endpoint>& theirs = ends_[link];
  const size_t count = payload.size() / sizeof(Endpoint);
  if (first != theirs.size() || first + count > queues.per_peer()) return;
  theirs.resize(first + count);
  std::memcpy(theirs.data() + first, payload.data(), count * sizeof(Endpoint));
  if (theirs.size() < queues.per_peer()) return;
  const std::vector<Endpoint> all = std::move(ends_.extract(link).mapped());
  const auto pe = static_cast<uint32_t>(link.pe);
  if (queues.link(pe) == Link::kNone) make(context, link);
  if (queues.link(pe) != Link::kMade) return;
  queues.connect(pe, all, state_.generation);
  set_link(queues, link, Link::kConnected);
  send(link, Step::kConnected, 0, {});
}

void Linker::set_link(Queues& queues, const Name& link, Link state) {
  const std::lock_guard lock(state_.contexts_mutex);
  queues.set_link(static_cast<uint32_t>(link.pe), state);
}

void Linker::take_connected(ContextOwner& context, const Name& link) {
  Queues& queues = *context.queues();
  if (queues.link(static_cast<uint32_t>(link.pe)) != Link::kConnected) return;
  if (state_.config.self_test) {
    const std::vector<SelfTestResult> failed = prove(queues, link);
    if (over(link)) return;  // whether it would have passed or not
    if (!failed.empty()) return refuse(context, link, state_.describe_failed(queues, failed));
  }
  set_link(queues, link, Link::kProven);
  send(link, Step::kProven, 0, {});
}

// Only now nobody needs this end's queues but kernels: until here the other end was tested on them.
void Linker::take_proven(ContextOwner& context, const Name& link) {
  const auto pe = static_cast<uint32_t>(link.pe);
  Queues& queues = *context.queues();
  if (queues.link(pe) != Link::kProven) return;
  const std::lock_guard lock(state_.contexts_mutex);
  queues.open(pe);
  to_come_[link.slot] = queues.links_to_come();
}

// Nobody waits for the link any more, or the other end has refused it and says why: its failure is
// nearer to the cause than what would come of it here.
bool Linker::over(const Name& link) {
  if (ending_ || load_relaxed<Reach::kSystem>(&state_.words[link.slot].stop) != 0) return true;
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(inbox_, [&](const Message& m) {
    const auto [generation, slot, serial, what] = m.word;
    return m.from == link.pe && slot == link.slot && serial == link.serial &&
           static_cast<Step>(what & 0xff) == Step::kRefused;
  });
}

std::vector<SelfTestResult> Linker::prove(Queues& queues, const Name& link) {
  std::vector<uint8_t> chosen(queues.count());
  for (auto i = static_cast<size_t>(link.pe); i < chosen.size();
       i += static_cast<size_t>(state_.bootstrap->size())) {
    chosen[i] = 1;
  }
  const std::chrono::nanoseconds most = state_.time_to_prove();
  const std::chrono::nanoseconds patience = state_.config.timeout;
  return state_.prove_here(queues, chosen, patience.count() == 0 ? most : std::min(most, patience),
                           [&] { return over(link); });
}

// The other end is of no use to anybody.
void Linker::refuse(ContextOwner& context, const Name& link, const std::string& why) {
  send_refusal(link, why);
  fail(context, link, why);
}

void Linker::send_refusal(const Name& link, const std::string& why) {
  const auto bytes = std::as_bytes(std::span(why));
  send(link, Step::kRefused, 0, {bytes.begin(), bytes.end()});
}

void Linker::take_refusal(ContextOwner& context, const Name& link, const std::string& why) {
  if (failed_.contains(link)) return;
  const std::string text = fmt::format("PE {}: {}", link.pe, why);
  if (context.queues()->link(static_cast<uint32_t>(link.pe)) == Link::kNone) {
    failed_[link] = text;  // nobody here has asked yet
  } else {
    fail(context, link, text);
  }
}

void Linker::fail(ContextOwner& context, const Name& link, const std::string& why) {
  failed_[link] = why;
  const std::string text =
      fmt::format("the queues to PE {} could not be connected: {}", link.pe, why);
  state_.log.error("runtime", "{}", text);
  const std::lock_guard lock(state_.contexts_mutex);
  context.give_up_link(static_cast<uint32_t>(link.pe), text, host_ns());
}

void Linker::send(const Name& link, Step step, uint32_t first, std::vector<std::byte> payload) {
  payload.resize(std::min(payload.size(), Channel::kMaxPayload));
  waiting_.push_back({link, static_cast<uint64_t>(step) | uint64_t{first} << 8, payload});
  send_what_waits();
}

// In order: behind a letter that does not fit the others to that PE wait, too.
void Linker::send_what_waits() {
  std::vector<Letter> left;
  for (Letter& letter : waiting_) {
    const int to = letter.link.pe;
    bool fits = std::ranges::none_of(left, [&](const Letter& l) { return l.link.pe == to; });
    if (fits) {
      fits = state_.bootstrap->channel().send(
                 to, Message::Kind::kLink,
                 {state_.generation, letter.link.slot, letter.link.serial, letter.step},
                 letter.payload) != Channel::Sent::kFull;  // to who is gone it is sent, too
    }
    if (!fits) left.push_back(std::move(letter));
  }
  waiting_ = std::move(left);
}

}  // namespace peal

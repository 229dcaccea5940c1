// SPDX-License-Identifier: Apache-2.0
//
// The composition root: owns everything, in the order it is needed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "host/base/error.h"
#include "host/base/log.h"
#include "host/context_owner.h"
#include "host/liveness.h"
#include "host/memory/symmetric_heap.h"
#include "host/nic/device.h"
#include "host/runtime.h"

namespace peal {
namespace {

constexpr uint32_t kMaxContexts = 64;

// What each PE must have set alike, compared at start-up.
struct Agreement {
  uint64_t heap_bytes;
  uint32_t queues;
  uint32_t depth;
  bool operator==(const Agreement&) const = default;
};

void agree(Bootstrap& bootstrap, const Config& config) {
  const Agreement mine{config.heap_size, static_cast<uint32_t>(config.queues),
                       static_cast<uint32_t>(config.queue_depth)};
  std::vector<Agreement> all(static_cast<size_t>(bootstrap.size()));
  bootstrap.allgather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  for (size_t pe = 0; pe < all.size(); ++pe) {
    if (all[pe] == all[0]) continue;
    fail(ErrorCode::kConfiguration,
         "PE {} has PEAL_HEAP_SIZE={} PEAL_QUEUES={} PEAL_QUEUE_DEPTH={}, PE 0 has {}, {} and {}: "
         "set them alike on all PEs (mpirun -x NAME)",
         pe, all[pe].heap_bytes, all[pe].queues, all[pe].depth, all[0].heap_bytes, all[0].queues,
         all[0].depth);
  }
}

// What a PE would make a context of, and the context slots it still uses.
struct ContextOffer {
  uint64_t taken;
  uint32_t queues;
  uint32_t depth;
};

// What a PE would make a window of.
struct WindowOffer {
  uint64_t bytes;
  uint64_t in_page;  // offset of its first byte
  uint64_t windows;  // in use already
};

uint64_t nanoseconds(std::chrono::microseconds t) {
  return static_cast<uint64_t>(std::chrono::nanoseconds(t).count());
}

}  // namespace

// Registered memory beside the heap, and the keys that all PEs have for it.
struct RegisteredWindow {
  nic::MemoryRegion region;
  std::vector<Be32> rkeys;
};

struct Runtime::State {
  Config config;
  std::unique_ptr<Bootstrap> bootstrap;
  Log log;
  nic::Device device;
  nic::ProtectionDomain domain;
  nic::Uar uar;
  SymmetricHeap heap;
  uint64_t* sync_flags;  // kMaxContexts x sync_rounds words in the heap
  std::unique_ptr<WindowTable> windows = std::make_unique<WindowTable>();
  std::vector<RegisteredWindow> registered;
  std::unique_ptr<uint32_t> stop = std::make_unique<uint32_t>(0);  // a Status; ends every wait
  std::atomic<int> lost_pe{-1};
  std::atomic<bool> closing{false};
  mutable std::mutex contexts_mutex;
  std::array<std::weak_ptr<ContextOwner>, kMaxContexts> contexts;  // by slot, alike on all PEs
  std::shared_ptr<ContextOwner> default_context;
  std::unique_ptr<Liveness> liveness;

  State(std::unique_ptr<Bootstrap> b, const Config& c)
      : config(c),
        bootstrap(std::move(b)),
        log(config.log, bootstrap->rank()),
        device(nic::VerbsLibrary::open(nic::LibrarySearch::from(config)), config.hca),
        domain(device),
        uar(device),
        heap(make_host_backing(config.heap_size, "peal-heap"), *bootstrap),
        sync_flags(reinterpret_cast<uint64_t*>(heap.reserve_internal(
            size_t{kMaxContexts} * sync_rounds(bootstrap->size()) * sizeof(uint64_t) + 8))) {}

  uint32_t rounds() const { return sync_rounds(bootstrap->size()); }
  void add_window(std::byte* address, size_t bytes, bool everywhere);
  RegisteredWindow register_everywhere(std::byte* address, size_t bytes);
  uint32_t agree_on_context(const QueueOptions& queues);
  std::shared_ptr<ContextOwner> create_context(const ContextOptions& options);
  void peer_lost(int pe, int pid);
};

void Runtime::State::add_window(std::byte* address, size_t bytes, bool everywhere) {
  const uint32_t index = windows->count;
  if (index == kMaxWindows) {
    fail(ErrorCode::kInvalidArgument,
         "register: {} windows are in use already, which is all there are", kMaxWindows);
  }
  registered.push_back(everywhere ? register_everywhere(address, bytes)
                                  : RegisteredWindow{{device, domain, address, bytes}, {}});
  const RegisteredWindow& kept = registered.back();
  // The window begins where its page does; the NIC refuses what lies before `address`.
  const uint64_t first = nic::MemoryRegion::first_offset(address);
  windows->window[index] = {.base = address - first,
                            .bytes = bytes + first,
                            .lkey = kept.region.lkey(),
                            .reserved = 0,
                            .rkeys = everywhere ? kept.rkeys.data() : nullptr,
                            .direct = nullptr};
  store_release<Reach::kSystem>(&windows->count, index + 1);
}

// A PE that cannot register tells the others by a key of 0: none waits for one that threw.
RegisteredWindow Runtime::State::register_everywhere(std::byte* address, size_t bytes) {
  std::optional<nic::MemoryRegion> region;
  std::string why;
  try {
    region.emplace(device, domain, address, bytes);
  } catch (const Error& error) {
    why = error.what();
  }
  const Be32 mine = region ? region->rkey() : Be32{0u};
  std::vector<Be32> rkeys(static_cast<size_t>(bootstrap->size()));
  bootstrap->allgather(std::as_bytes(std::span(&mine, 1)),
                       std::as_writable_bytes(std::span(rkeys)));
  if (!region) fail(ErrorCode::kSystem, "{}", why);
  for (size_t pe = 0; pe < rkeys.size(); ++pe) {
    if (rkeys[pe].raw != 0) continue;
    fail(ErrorCode::kSystem, "PE {} could not register its part of a window of {} bytes", pe,
         bytes);
  }
  return {std::move(*region), std::move(rkeys)};
}

// Compares the options of all PEs; answers the first slot whose context, if it had one, is gone on
// every PE: nobody can still write its flags.
uint32_t Runtime::State::agree_on_context(const QueueOptions& queues) {
  static_assert(kMaxContexts == 64, "one bit a slot");
  ContextOffer mine{0, queues.queues_per_peer, queues.depth};
  {
    const std::lock_guard lock(contexts_mutex);
    for (uint32_t slot = 0; slot < kMaxContexts; ++slot) {
      if (!contexts[slot].expired()) mine.taken |= uint64_t{1} << slot;
    }
  }
  std::vector<ContextOffer> all(static_cast<size_t>(bootstrap->size()));
  bootstrap->allgather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  uint64_t taken = 0;
  for (size_t pe = 0; pe < all.size(); ++pe) {
    taken |= all[pe].taken;
    if (all[pe].queues == all[0].queues && all[pe].depth == all[0].depth) continue;
    fail(
        ErrorCode::kInvalidArgument,
        "make_context: PE {} asks for {} queues of depth {}, PE 0 for {} of {}: all must ask alike",
        pe, all[pe].queues, all[pe].depth, all[0].queues, all[0].depth);
  }
  if (~taken == 0) {
    fail(ErrorCode::kInvalidArgument,
         "make_context: {} contexts exist already, which is the limit; drop one on every PE first",
         kMaxContexts);
  }
  return static_cast<uint32_t>(std::countr_one(taken));
}

std::shared_ptr<ContextOwner> Runtime::State::create_context(const ContextOptions& options) {
  const uint64_t timeout_ns =
      nanoseconds(options.timeout.count() < 0 ? config.timeout : options.timeout);
  const QueueOptions queues{
      .queues_per_peer = options.queues_per_peer != 0 ? options.queues_per_peer
                                                      : static_cast<uint32_t>(config.queues),
      .depth = options.depth != 0 ? options.depth : static_cast<uint32_t>(config.queue_depth),
      .timeout_ns = timeout_ns,
      .stop = stop.get()};
  const uint32_t slot = agree_on_context(queues);
  uint64_t* const flags = sync_flags + slot * rounds();
  std::fill_n(flags, rounds(), uint64_t{0});  // of the context that had the slot before
  const ContextSurroundings around{.windows = windows.get(),
                                   .stop = stop.get(),
                                   .sync_flags = flags,
                                   .pe = bootstrap->rank(),
                                   .n_pes = bootstrap->size(),
                                   .timeout_ns = timeout_ns};
  auto owner = std::make_shared<ContextOwner>(device, domain, uar, *bootstrap, queues, around);
  const std::lock_guard lock(contexts_mutex);
  contexts[slot] = owner;
  return owner;
}

void Runtime::State::peer_lost(int pe, int pid) {
  if (closing) return;  // all PEs have arrived at the end; leaving is no failure
  int none = -1;
  if (!lost_pe.compare_exchange_strong(none, pe)) return;
  log.error("runtime", "PE {} (process {}) has ended before the job did; all waits end with \"{}\"",
            pe, pid, to_string(Status::kPeerLost));
  compare_exchange<Reach::kSystem>(stop.get(), 0u, static_cast<uint32_t>(Status::kPeerLost));
}

Runtime::Runtime(std::unique_ptr<Bootstrap> bootstrap, const Config& config) {
  if (bootstrap == nullptr) fail(ErrorCode::kInvalidArgument, "Runtime: the bootstrap is null");
  agree(*bootstrap, config);
  state_ = std::make_unique<State>(std::move(bootstrap), config);
  State& s = *state_;
  s.registered.reserve(kMaxWindows);  // windows point at elements
  s.add_window(s.heap.base(), s.heap.bytes(), true);
  s.default_context = s.create_context({});
  s.liveness =
      std::make_unique<Liveness>(*s.bootstrap, [&s](int pe, int pid) { s.peer_lost(pe, pid); });
  if (config.info && s.bootstrap->rank() == 0) {
    s.log.print("config", config.describe());
    s.log.print("nic", s.device.description());
    s.log.print("runtime",
                fmt::format("{} PEs, heap {}, {} queues of {} WQEBBs per peer, {} beside the heap",
                            n_pes(), format_size(s.heap.bytes()), config.queues, config.queue_depth,
                            format_size(overhead_bytes())));
  }
}

Runtime::~Runtime() {
  if (state_ == nullptr) return;
  // The peers' kernels may still be using this PE's memory until they arrive here too.
  state_->closing = state_->lost_pe < 0;
  try {
    state_->bootstrap->barrier();
  } catch (const std::exception& error) {
    state_->log.warn("runtime", "at the end of the job: {}", error.what());
  }
  state_->liveness.reset();
}

Runtime::Runtime(Runtime&&) noexcept = default;
Runtime& Runtime::operator=(Runtime&&) noexcept = default;

int Runtime::my_pe() const { return state_->bootstrap->rank(); }
int Runtime::n_pes() const { return state_->bootstrap->size(); }
const Config& Runtime::config() const { return state_->config; }

void* Runtime::malloc(size_t bytes) { return state_->heap.malloc(bytes); }
void* Runtime::calloc(size_t count, size_t bytes) { return state_->heap.calloc(count, bytes); }
void* Runtime::align(size_t alignment, size_t bytes) {
  return state_->heap.align(alignment, bytes);
}
void Runtime::free(void* pointer) { state_->heap.free(pointer); }

void Runtime::copy_in(void* symmetric, const void* host, size_t bytes) {
  std::memcpy(symmetric, host, bytes);
}
void Runtime::copy_out(void* host, const void* symmetric, size_t bytes) const {
  std::memcpy(host, symmetric, bytes);
}

void Runtime::register_window(void* address, size_t bytes) {
  auto* const begin = static_cast<std::byte*>(address);
  const WindowOffer mine{.bytes = begin == nullptr ? 0 : bytes,
                         .in_page = nic::MemoryRegion::first_offset(begin),
                         .windows = state_->windows->count};
  std::vector<WindowOffer> all(static_cast<size_t>(n_pes()));
  state_->bootstrap->allgather(std::as_bytes(std::span(&mine, 1)),
                               std::as_writable_bytes(std::span(all)));
  for (size_t pe = 0; pe < all.size(); ++pe) {
    const WindowOffer& one = all[pe];
    if (one.windows == kMaxWindows) {
      fail(ErrorCode::kInvalidArgument, "register_window: PE {} has {} windows, which is the limit",
           pe, kMaxWindows);
    }
    if (one.bytes == all[0].bytes && one.in_page == all[0].in_page && one.bytes != 0) continue;
    fail(ErrorCode::kInvalidArgument,
         "register_window: PE {} registers {} bytes from byte {} of a page, PE 0 {} from byte {}: "
         "all must register the same size, not 0, from the same place in a page",
         pe, one.bytes, one.in_page, all[0].bytes, all[0].in_page);
  }
  state_->add_window(begin, bytes, true);
}

void Runtime::register_local(void* address, size_t bytes) {
  if (address == nullptr || bytes == 0) {
    fail(ErrorCode::kInvalidArgument,
         "register_local: {} bytes at {}: there is nothing to register", bytes, fmt::ptr(address));
  }
  state_->add_window(static_cast<std::byte*>(address), bytes, false);
}

Context Runtime::context() const { return {state_->default_context->fields()}; }

std::shared_ptr<void> Runtime::create_context(const ContextOptions& options,
                                              ContextFields* fields) {
  auto owner = state_->create_context(options);
  *fields = owner->fields();
  return owner;
}

void Runtime::barrier() { state_->bootstrap->barrier(); }

Failure Runtime::failure() const {
  const State& s = *state_;
  const int lost = s.lost_pe;
  const std::lock_guard lock(s.contexts_mutex);
  for (const auto& weak : s.contexts) {
    const auto context = weak.lock();
    if (context == nullptr) continue;
    const auto e = context->first_error();
    // What follows from a PE's end is told as that, whether NIC or operating system saw it first.
    if (e && e->status != Status::kPeerLost && (lost < 0 || e->pe != lost)) {
      return {e->status, e->pe, e->wqe_index, e->opcode, e->syndrome, e->vendor_syndrome, e->text};
    }
  }
  Failure failure;
  failure.status = static_cast<Status>(load_acquire<Reach::kSystem>(s.stop.get()));
  if (failure.status == Status::kOk && lost >= 0) failure.status = Status::kPeerLost;
  if (failure.status == Status::kPeerLost) {
    failure.pe = s.lost_pe;
    failure.text = fmt::format("PE {} ended before the job did", failure.pe);
  } else if (failure.status != Status::kOk) {
    failure.text = "waits were ended by stop_waits()";
  }
  return failure;
}

void Runtime::check() const {
  const Failure f = failure();
  if (f.status == Status::kOk) return;
  fail(f.status == Status::kPeerLost ? ErrorCode::kPeerLost : ErrorCode::kSystem, "PE {}: {}",
       my_pe(), f.text);
}

void Runtime::stop_waits() {
  compare_exchange<Reach::kSystem>(state_->stop.get(), 0u, static_cast<uint32_t>(Status::kAborted));
}

const char* Runtime::transport() const { return "ibgda"; }

std::string Runtime::nic() const {
  return state_->device.software() ? "softnic-cpu" : state_->device.name();
}

size_t Runtime::overhead_bytes() const {
  size_t bytes = sizeof(State) + sizeof(WindowTable);
  const std::lock_guard lock(state_->contexts_mutex);
  for (const auto& weak : state_->contexts) {
    if (const auto context = weak.lock()) {
      bytes +=
          size_t{context->queues().count()} * context->queues().stride() + sizeof(ContextOwner);
    }
  }
  return bytes;
}

}  // namespace peal

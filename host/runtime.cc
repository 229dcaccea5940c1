// SPDX-License-Identifier: Apache-2.0
//
// The composition root: owns everything, in the order it is needed.
#include "host/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.h"
#include "host/memory/backing_cuda.h"
#include "host/nic/hca_list.h"
#include "host/runtime_state.h"
#include "host/transport/warn_once.h"

namespace peal {
namespace {

// What each PE must have set alike, compared at start-up.
struct Agreement {
  uint64_t heap_bytes;
  uint32_t queues;
  uint32_t depth;
  TransportKind transport;
  RelaxedOrdering relaxed;
  SignalOpsSetting signal_ops;
  bool self_test;
  ConnectKind connect;
  Target target;
  bool operator==(const Agreement&) const = default;
};

// The two ends of a queue may be carried differently: what matters is whether a NIC is wanted.
TransportKind agreed_kind(TransportKind kind) {
  return kind == TransportKind::kProxy ? TransportKind::kIbgda : kind;
}

const char* target_name(Target target) { return target == Target::kGpu ? "a GPU" : "a CPU"; }

void agree(Bootstrap& bootstrap, const Config& config, Target target) {
  const std::vector<Agreement> all =
      gather(bootstrap, Agreement{config.heap_size, static_cast<uint32_t>(config.queues),
                                  static_cast<uint32_t>(config.queue_depth),
                                  agreed_kind(config.transport), config.relaxed_ordering,
                                  config.signal_ops, config.self_test, config.connect, target});
  for (size_t pe = 0; pe < all.size(); ++pe) {
    if (all[pe] == all[0]) continue;
    if (all[pe].target != all[0].target) {
      fail(ErrorCode::kConfiguration, "PE {} has its kernels on {}, PE 0 on {}: run one program",
           pe, target_name(all[pe].target), target_name(all[0].target));
    }
    fail(
        ErrorCode::kConfiguration,
        "PE {} has PEAL_HEAP_SIZE={} PEAL_QUEUES={} PEAL_QUEUE_DEPTH={}, PE 0 has {}, {} and {}{}: "
        "set them alike on all PEs (mpirun -x NAME)",
        pe, all[pe].heap_bytes, all[pe].queues, all[pe].depth, all[0].heap_bytes, all[0].queues,
        all[0].depth,
        all[pe].transport != all[0].transport     ? ", and another PEAL_TRANSPORT"
        : all[pe].relaxed != all[0].relaxed       ? ", and another PEAL_RELAXED_ORDERING"
        : all[pe].signal_ops != all[0].signal_ops ? ", and another PEAL_SIGNAL_OPS"
        : all[pe].self_test != all[0].self_test   ? ", and another PEAL_SELF_TEST"
        : all[pe].connect != all[0].connect       ? ", and another PEAL_CONNECT"
                                                  : "");
  }
}

// Memory that kernels use, and memory that they share with the host while they run.
Backing kernel_memory(const std::shared_ptr<Gpu>& gpu, size_t bytes, const std::string& name) {
  return gpu ? make_cuda_backing(gpu, bytes, name) : make_host_backing(bytes, name);
}
Backing shared_memory(const std::shared_ptr<Gpu>& gpu, size_t bytes, const std::string& name) {
  return gpu ? make_pinned_backing(gpu, bytes, name) : make_host_backing(bytes, name);
}

// What host and kernels tell each other, and a word a PE for wishes, both by context.
size_t word_bytes(int n_pes) {
  return kMaxContexts * (sizeof(ContextWords) + static_cast<size_t>(n_pes) * sizeof(uint32_t));
}

// The heap as the PEs reach it directly.
PeerMemory map_heap(P2p* p2p, const SymmetricHeap& heap) {
  if (p2p == nullptr) return {};
  return p2p->map(heap.base(), heap.bytes(), heap.backing().fd());
}

}  // namespace

Runtime::State::State(std::unique_ptr<Bootstrap> b, const Config& c, Target t)
    : config(c),
      target(t),
      bootstrap(std::make_unique<LiveGroup>(
          std::move(b),
          std::chrono::duration_cast<std::chrono::milliseconds>(c.bootstrap_timeout))),
      log(config.log, bootstrap->rank()),
      gpu(open_gpu()),
      heap(kernel_memory(gpu, config.heap_size, "peal-heap"), *bootstrap),
      sync_flags(reinterpret_cast<uint64_t*>(
          heap.reserve_internal(kMaxContexts * flag_bytes() + sizeof(uint64_t)))),
      test_cells(heap.reserve_internal(static_cast<size_t>(bootstrap->size()) *
                                       Queues::ProvingGround::kSlots * kSelfTestCell)),
      word_memory(shared_memory(gpu, word_bytes(bootstrap->size()), "peal-words")),
      words(reinterpret_cast<ContextWords*>(word_memory.address())),
      p2p(route_options().try_p2p()
              ? std::optional<P2p>(std::in_place, *bootstrap, bootstrap->places(), gpu)
              : std::nullopt),
      mapped_heap(map_heap(p2p ? &*p2p : nullptr, heap)),
      reachable(*bootstrap, route_options(), mapped_heap.direct, mapped_heap.how),
      rails(reachable.needs_nic()
                ? std::optional<Rails>(std::in_place, config, gpu, *bootstrap, log, on_one_host())
                : std::nullopt),
      routes(reachable, route_options(rails ? rails->why_proxy() : "")),
      tables(kernel_memory(gpu, DeviceTables::bytes(extent()), "peal-tables"), extent()),
      windows(*bootstrap, tables,
              {.routes = routes,
               .rails = rails ? &*rails : nullptr,
               .p2p = p2p ? &*p2p : nullptr,
               .gpu = gpu}) {
  windows.add_mapped(heap.base(), heap.bytes(), std::move(mapped_heap));
  if (rails) {
    const bool proxied = routes.by_nic() == Route::kProxy;
    if (proxied) proxies.resize(rails->nics().size());
    for (const IbgdaNic& nic : rails->nics()) {
      if (!proxied) doorbells.emplace_back(nic.device, gpu, config.doorbell);
    }
    warn_of_nics();
  }
  if (rails) linker = std::make_unique<Linker>(*this);
  default_context = create_context({}, Reach::kGpu);
}

std::shared_ptr<Gpu> Runtime::State::open_gpu() const {
  if (target == Target::kCpu) return nullptr;
  auto opened = Gpu::open(
      config.device, rank_on_host(bootstrap->places(), static_cast<size_t>(bootstrap->rank())));
  opened->make_current();
  return opened;
}

bool Runtime::State::on_one_host() const {
  const std::vector<Place>& places = bootstrap->places();
  return std::ranges::all_of(places,
                             [&](const Place& place) { return same_host(place, places[0]); });
}

// Of what was found once they were open.
void Runtime::State::warn_of_nics() {
  std::vector<std::string> lines = rails->nics()[0].device.path_settings().ignored;
  for (const Doorbell& doorbell : doorbells) {
    if (!doorbell.warning().empty()) lines.push_back(doorbell.warning());
  }
  if (gpu && !gpu->orders_writes()) lines.push_back(warning_of_writes());
  std::vector<std::string> names;
  for (const IbgdaNic& nic : rails->nics()) names.push_back(nic.device.name());
  warn_once(*bootstrap, log, fmt::format("{}", fmt::join(lines, "\n")), std::move(names));
}

std::string Runtime::State::warning_of_writes() const {
  const bool proxied = routes.by_nic() == Route::kProxy;
  return fmt::format(
      "{}: {}: a kernel that saw a signal may not see its data yet; call quiet between a put and "
      "its "
      "signal, as quiet and barriers {}, or use Hopper or newer",
      gpu->name(), gpu->describe_writes(),
      proxied ? "wait for data (get and fetching operations do not, for a CPU thread posts them)"
              : "and get and fetching operations wait for data");
}

std::string Runtime::State::describe_rails() const {
  std::string text = rails->why();
  if (rails->count() == 1) return text;
  text += fmt::format("; {} rails in the job", rails->count());
  if (static_cast<uint32_t>(config.queues) >= rails->count()) return text;
  return text + fmt::format(", of which PEAL_QUEUES={0} uses {0}: set it to {1} or more",
                            config.queues, rails->count());
}

std::string Runtime::State::nic_name() const {
  if (rails) return rails->model();
  if (!gpu) return "shared-memory";
  switch (p2p->link()) {
    case P2p::Link::kNvlink:
      return "nvlink";
    case P2p::Link::kPcie:
      return "pcie";
    case P2p::Link::kNone:
      break;
  }
  return "none";
}

Runtime::Runtime(std::unique_ptr<Bootstrap> bootstrap, const Config& config, Target target) {
  if (bootstrap == nullptr) fail(ErrorCode::kInvalidArgument, "Runtime: the bootstrap is null");
  nic::HcaList::from(config, true);  // a wrong PEAL_HCA is refused also where no NIC is needed
  agree(*bootstrap, config, target);
  state_ = std::make_unique<State>(std::move(bootstrap), config, target);
  State& s = *state_;
  s.watcher = std::make_unique<Watcher>(
      s.bootstrap->places(), s.bootstrap->channel().fd(),
      Watcher::Calls{.lost = [&s](int pe, int pid) { s.peer_lost(pe, pid); },
                     .message = [&s] { s.take_messages(); },
                     .tick = [&s] { s.tell_callback(); }});
  if (!config.info) return;
  if (s.bootstrap->rank() == 0) {
    s.log.print("config", config.describe());
    if (s.rails) {
      for (const IbgdaNic& nic : s.rails->nics()) s.log.print("nic", nic.device.description());
    }
    s.log.print("runtime",
                fmt::format("{} PEs, heap {}, {} queues of {} WQEBBs per peer, {} beside the heap",
                            n_pes(), format_size(s.heap.bytes()), s.rails ? config.queues : 0,
                            config.queue_depth, format_size(overhead_bytes())));
  }
  if (s.rails) {
    s.log.print("nic", s.describe_rails());
    if (s.bootstrap->rank() == 0) s.log.print("signals", s.rails->signal_ops().why);
    for (const IbgdaNic& nic : s.rails->nics()) {
      s.log.print("path", nic.device.path_description());
    }
    s.log.print("nic", fmt::format("heap: {}; {}", s.windows.describe_registration(),
                                   s.default_context->describe_registration()));
    for (const Doorbell& doorbell : s.doorbells) s.log.print("nic", doorbell.describe());
    if (!s.proxies.empty()) {
      s.log.print(
          "nic", fmt::format("CPU threads post for kernels: {} (docs/proxy.md)", s.proxies.size()));
    }
  }
  if (s.gpu) {
    s.log.print("gpu", fmt::format("GPU {}, {}; {}", s.gpu->index(), s.gpu->name(),
                                   s.gpu->describe_writes()));
  }
  s.log.print("transport", s.routes.describe());
}

Runtime::~Runtime() {
  if (state_ == nullptr) return;
  // The peers' kernels may still be using this PE's memory until they arrive here too, and this PE
  // may have theirs mapped: nothing is released before all mappings are.
  state_->closing = state_->bootstrap->lost_pes().empty();
  try {
    state_->bootstrap->barrier();
    if (state_->linker) state_->linker->stop();  // while its peers' queues are there
    state_->windows.unmap();
    state_->bootstrap->barrier();
  } catch (const std::exception& error) {
    state_->log.warn("runtime", "at the end of the job: {}", error.what());
  }
  state_->watcher.reset();
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
  state_->heap.backing().copy_in(static_cast<std::byte*>(symmetric), host, bytes);
}
void Runtime::copy_out(void* host, const void* symmetric, size_t bytes) const {
  state_->heap.backing().copy_out(host, static_cast<const std::byte*>(symmetric), bytes);
}

void Runtime::register_window(void* address, size_t bytes) {
  state_->windows.add_everywhere(static_cast<std::byte*>(address), bytes);
}

void Runtime::register_local(void* address, size_t bytes) {
  if (address == nullptr || bytes == 0) {
    fail(ErrorCode::kInvalidArgument,
         "register_local: {} bytes at {}: there is nothing to register", bytes, fmt::ptr(address));
  }
  state_->windows.add_local(static_cast<std::byte*>(address), bytes);
}

void detail::refuse_context(const ContextFields& made, uint32_t version, size_t bytes) {
  fail(ErrorCode::kUnsupported,
       "context: the peal library makes contexts of version {} ({} bytes), this program was "
       "compiled with headers of version {} ({} bytes): build it with the headers that the library "
       "was built with",
       made.version, made.bytes, version, bytes);
}

const ContextFields& Runtime::default_context() const { return state_->default_context->fields(); }

std::shared_ptr<const ContextFields> Runtime::create_context(const ContextOptions& options,
                                                             Reach reach) {
  const auto owner = state_->create_context(options, reach);
  return {owner, &owner->fields()};
}

void Runtime::barrier() { state_->bootstrap->barrier(); }

const char* Runtime::transport() const { return state_->routes.name(); }

std::string Runtime::nic() const { return state_->nic_name(); }

size_t Runtime::overhead_bytes() const {
  size_t bytes = sizeof(State) + DeviceTables::bytes(state_->extent());
  const std::lock_guard lock(state_->contexts_mutex);
  for (const auto& weak : state_->contexts) {
    if (const auto context = weak.lock()) bytes += context->bytes();
  }
  return bytes;
}

}  // namespace peal

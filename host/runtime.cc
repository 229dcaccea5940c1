// SPDX-License-Identifier: Apache-2.0
//
// The composition root: owns everything, in the order it is needed.
#include "host/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

#include "host/base/error.h"
#include "host/base/log.h"
#include "host/call_engine.h"
#include "host/contexts/contexts.h"
#include "host/failures/failure_log.h"
#include "host/failures/inquiry.h"
#include "host/job/live_group.h"
#include "host/job/together.h"
#include "host/job/watcher.h"
#include "host/memory/backing_cuda.h"
#include "host/start_up.h"
#include "host/teams.h"
#include "host/transport/proxy.h"
#include "host/windows.h"

namespace peal {
namespace {

// A kernel may hear of a death from the NIC before the operating system tells of it.
constexpr std::chrono::milliseconds kUntilNoticed{2000};

// A PE whose process runs tells what it waits for within some milliseconds.
constexpr std::chrono::milliseconds kUntilTold{1000};

// Memory that kernels use, and memory that they share with the host while they run.
Backing kernel_memory(const std::shared_ptr<Gpu>& gpu, size_t bytes, const std::string& name) {
  return gpu ? make_cuda_backing(gpu, bytes, name) : make_host_backing(bytes, name);
}
Backing shared_memory(const std::shared_ptr<Gpu>& gpu, size_t bytes, const std::string& name) {
  return gpu ? make_pinned_backing(gpu, bytes, name) : make_host_backing(bytes, name);
}

// Collective. Blocks of a grid that all PEs can have running at the same time: one on a
// multiprocessor; of a GPU that PEs share a quarter is left to others. Alike on all PEs. Without
// GPUs, which all PEs have or none (agree_on_settings), 1: CPUs have a measure of their own.
uint32_t blocks_at_once(LiveGroup& group, const Gpu* gpu) {
  if (gpu == nullptr) return 1;
  struct Offer {
    cuda::Uuid uuid;
    int multiprocessors;
  };
  const std::vector<Offer> all = gather(group, Offer{gpu->uuid(), gpu->multiprocessors()});
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Offer& one : all) {
    const int64_t sharers =
        std::ranges::count_if(all, [&](const Offer& other) { return other.uuid == one.uuid; });
    const int64_t own = one.multiprocessors;
    least = std::min(least, sharers == 1 ? own : own * 3 / 4 / sharers);
  }
  return static_cast<uint32_t>(std::max<int64_t>(least, 1));
}

template <class T>
T* if_any(std::optional<T>& one) {
  return one ? &*one : nullptr;
}

}  // namespace

// Destroyed in reverse.
struct Runtime::Parts {
  const Config config;
  const Target target;
  LiveGroup group;
  const Log log;
  std::shared_ptr<Gpu> gpu;  // null: kernels run on the CPU
  std::optional<SymmetricHeap> heap;
  std::optional<ContextTable> table;
  std::optional<P2p> p2p;
  std::optional<Rails> rails;  // none: every peer is reached directly
  std::optional<Routes> routes;
  std::optional<DeviceTables> tables;
  std::optional<Windows> windows;
  Doorbells doorbells;  // by NIC, or
  Proxies proxies;      // these; neither where there is no NIC
  std::optional<Prover> prover;
  std::optional<Linker> linker;  // as rails
  std::optional<ContextNics> nics;
  std::optional<Contexts> contexts;
  std::optional<Teams> teams;
  std::shared_ptr<ContextOwner> default_context;
  std::optional<FailureLog> failures;  // whose callback may use the context
  std::optional<Inquiry> inquiry;
  std::optional<CallEngine> calls;
  std::optional<Watcher> watcher;

  Parts(std::unique_ptr<Bootstrap> bootstrap, const Config& c, Target t);
  ~Parts();
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  DeviceTables::Extent extent() const { return {group.size(), rails ? rails->count() : 1}; }
  size_t team_memory() const {
    return Teams::arena_bytes(config.team_memory, group.size(), gpu != nullptr);
  }
  void open_memory();
  void open_transports();
  void open_nics(const Reachable& reachable);
  void watch();
  void take_messages();
  void report() const;
};

Runtime::Parts::Parts(std::unique_ptr<Bootstrap> bootstrap, const Config& c, Target t)
    : config(c),
      target(t),
      group(std::move(bootstrap),
            std::chrono::duration_cast<std::chrono::milliseconds>(c.bootstrap_timeout)),
      log(c.log, group.rank()) {
  open_memory();
  open_transports();
  default_context = contexts->create({}, Reach::kGpu);
}

void Runtime::Parts::open_memory() {
  Backing memory = together(group, [&] {
    if (target == Target::kGpu) {
      const auto me = static_cast<size_t>(group.rank());
      gpu = Gpu::open(config.device, rank_on_host(group.places(), me));
      gpu->make_current();
    }
    table.emplace(shared_memory(gpu, ContextTable::bytes(group.size()), "peal-words"),
                  group.size());
    return kernel_memory(gpu, config.heap_size + team_memory(), "peal-heap");
  });
  heap.emplace(std::move(memory), group);
}

void Runtime::Parts::open_transports() {
  RouteOptions options{
      .asked = config.transport, .target = target, .orders_writes = !gpu || gpu->orders_writes()};
  PeerMemory mapped;
  if (options.try_p2p()) {
    p2p.emplace(group, group.places(), gpu);
    mapped = p2p->map(heap->base(), heap->bytes(), heap->backing().fd());
  }
  const Reachable reachable(group, options, mapped.direct, mapped.how);
  if (reachable.needs_nic()) {
    const bool one_host = std::ranges::all_of(
        group.places(), [&](const Place& p) { return same_host(p, group.places()[0]); });
    rails.emplace(config, gpu, group, log, one_host);
    options.why_proxy = rails->why_proxy();
  }
  routes.emplace(reachable, options);
  together(group, [&] {
    tables.emplace(kernel_memory(gpu, DeviceTables::bytes(extent()), "peal-tables"), extent());
  });
  windows.emplace(
      group, *tables,
      WindowTransports{.routes = *routes, .rails = if_any(rails), .p2p = if_any(p2p), .gpu = gpu});
  windows->add_mapped(heap->base(), heap->bytes(), std::move(mapped));
  const uint32_t most_blocks = blocks_at_once(group, gpu.get());
  together(group, [&] {
    if (rails) open_nics(reachable);
    contexts.emplace(Contexts::Parts{.config = config,
                                     .log = log,
                                     .group = group,
                                     .heap = *heap,
                                     .tables = *tables,
                                     .table = *table,
                                     .nics = if_any(nics),
                                     .gpu = gpu.get()});
    std::vector<bool> direct = reachable.directly();
    teams.emplace(group, *heap, team_memory(), std::move(direct), !reachable.needs_nic(),
                  kernel_memory(gpu, Teams::shown_bytes(), "peal-teams"));
    failures.emplace(
        *table, group, [this](const void* address) { return heap->place_of(address); }, log);
    inquiry.emplace(group, [this] { return failures->waits(); });
    calls.emplace(CallEngine::Parts{
        .group = group,
        .windows = *windows,
        .teams = *teams,
        .tables = *tables,
        .failures = *failures,
        .executor = gpu ? make_gpu_executor(gpu, config.kernels, most_blocks) : make_cpu_executor(),
        .answers = shared_memory(gpu, CallEngine::kAnswerBytes, "peal-answers")});
    watch();
  });
  if (rails) warn_of_nics(group, log, *rails, doorbells, *routes, gpu.get());
}

// Behind the heap's window: the software NIC may have gone to a GPU with it.
void Runtime::Parts::open_nics(const Reachable& reachable) {
  const bool proxied = routes->by_nic() == Route::kProxy;
  if (proxied) proxies.resize(rails->nics().size());
  for (const IbgdaNic& nic : rails->nics()) {
    if (!proxied) doorbells.emplace_back(nic.device, gpu, config.doorbell);
  }
  const std::byte* const cells = heap->reserve_internal(Prover::cell_bytes(group.size()));
  prover.emplace(group, *rails, *tables, heap->offset_of(cells), config.bootstrap_timeout);
  linker.emplace(group, *table, *prover, gpu, config, log);
  nics.emplace(ContextNics{.rails = *rails,
                           .carrier = {proxied ? nullptr : &doorbells, &proxies},
                           .prover = *prover,
                           .linker = *linker,
                           .must_settle = reachable.must_settle(),
                           .unordered = reachable.unordered()});
}

void Runtime::Parts::watch() {
  watcher.emplace(group.places(), group.channel().fd(),
                  Watcher::Calls{.lost = [this](int pe, int pid) { failures->peer_lost(pe, pid); },
                                 .message = [this] { take_messages(); },
                                 .broken =
                                     [this](const std::string& why) {
                                       failures->abort(nullptr,
                                                       "it hears of no other PE any more: " + why);
                                     }});
}

void Runtime::Parts::take_messages() {
  while (auto message = group.channel().receive()) {
    switch (message->kind) {
      case Message::Kind::kAbort:
        failures->deliver(*message);
        break;
      case Message::Kind::kExchange:
        group.deliver(std::move(*message));
        break;
      case Message::Kind::kLink:
        if (linker) linker->deliver(std::move(*message));
        break;
      case Message::Kind::kWaitsAsked:
      case Message::Kind::kWaitsTold:
        inquiry->deliver(*message);
        break;
    }
  }
}

// The peers' kernels may still be using this PE's memory until they arrive here too, and this PE
// may have theirs mapped: nothing is released before all mappings are.
Runtime::Parts::~Parts() {
  if (group.lost_pes().empty()) failures->close();
  try {
    group.barrier();
    if (linker) linker->stop();  // while its peers' queues are there
    windows->unmap();
    group.barrier();
  } catch (const std::exception& error) {
    log.warn("runtime", "at the end of the job: {}", error.what());
  }
}

void Runtime::Parts::report() const {
  if (group.rank() == 0) {
    log.print("config", config.describe());
    for (size_t i = 0; rails && i < rails->nics().size(); ++i) {
      log.print("nic", rails->nics()[i].device.description());
    }
    const size_t overhead = DeviceTables::bytes(extent()) + default_context->bytes();
    log.print("runtime",
              fmt::format("{} PEs, heap {}, {} queues of {} WQEBBs per peer, {} beside the heap",
                          group.size(), format_size(config.heap_size), rails ? config.queues : 0,
                          config.queue_depth, format_size(overhead)));
  }
  if (rails) {
    log.print("nic", describe_rails(*rails, config));
    if (group.rank() == 0) log.print("signals", rails->signal_ops().why);
    for (const IbgdaNic& nic : rails->nics()) log.print("path", nic.device.path_description());
    log.print("nic", fmt::format("heap: {}; {}", windows->describe_registration(),
                                 default_context->links()->queues().describe_registration()));
    for (const Doorbell& doorbell : doorbells) log.print("nic", doorbell.describe());
    if (!proxies.empty()) {
      log.print("nic",
                fmt::format("CPU threads post for kernels: {} (docs/proxy.md)", proxies.size()));
    }
  }
  if (gpu) {
    log.print("gpu",
              fmt::format("GPU {}, {}; {}", gpu->index(), gpu->name(), gpu->describe_writes()));
  }
  log.print("transport", routes->describe());
}

Runtime::Runtime(std::unique_ptr<Bootstrap> bootstrap, const Config& config, Target target) {
  if (bootstrap == nullptr) fail(ErrorCode::kInvalidArgument, "Runtime: the bootstrap is null");
  agree_on_settings(*bootstrap, config, target);
  parts_ = std::make_unique<Parts>(std::move(bootstrap), config, target);
  if (config.info) parts_->report();
}

Runtime::~Runtime() = default;
Runtime::Runtime(Runtime&&) noexcept = default;
Runtime& Runtime::operator=(Runtime&&) noexcept = default;

int Runtime::my_pe() const { return parts_->group.rank(); }
int Runtime::n_pes() const { return parts_->group.size(); }
const Config& Runtime::config() const { return parts_->config; }
Target Runtime::target() const { return parts_->target; }

void* Runtime::malloc(size_t bytes) { return parts_->heap->malloc(bytes); }
void* Runtime::calloc(size_t count, size_t bytes) { return parts_->heap->calloc(count, bytes); }
void* Runtime::align(size_t alignment, size_t bytes) {
  return parts_->heap->align(alignment, bytes);
}
void Runtime::free(void* pointer) { parts_->heap->free(pointer); }

void Runtime::copy_in(void* symmetric, const void* host, size_t bytes) {
  parts_->heap->backing().copy_in(symmetric, host, bytes);
}
void Runtime::copy_out(void* host, const void* symmetric, size_t bytes) const {
  parts_->heap->backing().copy_out(host, symmetric, bytes);
}

void Runtime::register_window(void* address, size_t bytes) {
  parts_->windows->add_everywhere(static_cast<std::byte*>(address), bytes);
}

void Runtime::register_local(void* address, size_t bytes) {
  if (address == nullptr || bytes == 0) {
    fail(ErrorCode::kInvalidArgument,
         "register_local: {} bytes at {}: there is nothing to register", bytes, fmt::ptr(address));
  }
  parts_->windows->add_local(static_cast<std::byte*>(address), bytes);
}

void detail::refuse_context(const ContextFields& made, uint32_t version, size_t bytes) {
  fail(ErrorCode::kUnsupported,
       "context: the peal library makes contexts of version {} ({} bytes), this program was "
       "compiled with headers of version {} ({} bytes): build it with the headers that the library "
       "was built with",
       made.version, made.bytes, version, bytes);
}

const ContextFields& Runtime::default_context() const { return parts_->default_context->fields(); }

std::shared_ptr<const ContextFields> Runtime::create_context(const ContextOptions& options,
                                                             Reach reach) {
  const auto owner = parts_->contexts->create(options, reach);
  return {owner, &owner->fields()};
}

Team Runtime::world() const { return parts_->teams->world(); }

Team Runtime::split_team(const Team& parent, int color, int key, const TeamOptions& options) {
  return parts_->teams->split(parent, color, key, options);
}

Team Runtime::split_team_strided(const Team& parent, int first, int stride, int size,
                                 const TeamOptions& options) {
  const int last = first + (size - 1) * stride;
  if (stride == 0 || size < 1 || first < 0 || first >= parent.size || last < 0 ||
      last >= parent.size) {
    fail(ErrorCode::kInvalidArgument,
         "split_team_strided: first {}, stride {}, size {}: the parent has members 0 to {}", first,
         stride, size, parent.size - 1);
  }
  const int steps = (parent.rank - first) / stride;
  const bool member = steps >= 0 && steps < size && first + steps * stride == parent.rank;
  return split_team(parent, member ? 0 : -1, steps, options);
}

Runtime::Team2d Runtime::split_team_2d(const Team& parent, int columns,
                                       const TeamOptions& options) {
  if (columns < 1) {
    fail(ErrorCode::kInvalidArgument, "split_team_2d: {} columns: at least 1", columns);
  }
  const Team row = split_team(parent, parent.rank / columns, 0, options);
  return {row, split_team(parent, parent.rank % columns, 0, options)};
}

Team Runtime::split_node_team(const TeamOptions& options) {
  return split_team(world(), parts_->teams->node_color(), 0, options);
}

Team Runtime::split_host_team(const TeamOptions& options) {
  const std::vector<Place>& places = parts_->group.places();
  int first = 0;
  while (!same_host(places[static_cast<size_t>(first)], places[static_cast<size_t>(my_pe())])) {
    ++first;
  }
  return split_team(world(), first, 0, options);
}

void Runtime::free_team(const Team& team) { parts_->teams->free(team); }
std::vector<int> Runtime::team_pes(const Team& team) const { return parts_->teams->members(team); }

StreamCalls Runtime::on(void* stream, const ContextFields& context) {
  return StreamCalls(parts_->calls->site(stream, context));
}
StreamCalls Runtime::on(void* stream) { return on(stream, default_context()); }

void* Runtime::ptr(const void* symmetric, int pe) const {
  return parts_->calls->mapped(symmetric, pe);
}

HostCalls Runtime::host(HostChecks checks) {
  detail::CallSite site = parts_->calls->own_site(default_context());
  site.compares = checks == HostChecks::kArguments;
  return HostCalls(site);
}
TicketCalls Runtime::host_nbi() { return TicketCalls(parts_->calls->own_site(default_context())); }

void Runtime::barrier() { parts_->group.barrier(); }

Status Runtime::status() const { return parts_->failures->status(); }
Failure Runtime::failure() const { return parts_->failures->first(); }

void Runtime::on_failure(std::function<void(const Failure&)> callback) {
  parts_->failures->on_failure(std::move(callback));
}

void Runtime::check() const { parts_->failures->check(); }

size_t Runtime::recover() {
  const size_t resets = parts_->contexts->recover();
  parts_->teams->begin_anew();
  parts_->failures->start_again();
  return resets;
}

std::vector<int> Runtime::lost_pes() const { return parts_->group.lost_pes(); }

void Runtime::mask(const std::vector<int>& pes) {
  LiveGroup& group = parts_->group;
  std::vector<int> watched;
  for (const int pe : pes) {
    if (pe < 0 || pe >= group.size()) {
      fail(ErrorCode::kInvalidArgument, "mask: there is no PE {}; PEs are 0 to {}", pe,
           group.size() - 1);
    }
    if (pe == group.rank()) fail(ErrorCode::kInvalidArgument, "mask: PE {} is this one", pe);
    const Place& there = group.places()[static_cast<size_t>(pe)];
    const bool here = same_process(there, group.places()[static_cast<size_t>(group.rank())]);
    if (here || parts_->watcher->watches(pe)) watched.push_back(pe);
  }
  if (const int alive = group.await_lost(watched, kUntilNoticed); alive >= 0) {
    fail(
        ErrorCode::kInvalidArgument,
        "mask: PE {} (process {}) has not ended; it would still use this PE's memory: end it first",
        alive, group.places()[static_cast<size_t>(alive)].pid);
  }
  for (const int pe : pes) group.mask(pe);
  parts_->failures->forget_losses();
  if (group.masked_pes().empty()) return;
  parts_->contexts->leave_masked_out();
  recover();
}

void Runtime::abort(std::string_view reason) { parts_->failures->abort(nullptr, reason); }

void Runtime::abort(const ContextFields& context, std::string_view reason) {
  parts_->failures->abort(&context, reason);
}

std::string Runtime::dump() const {
  const Failure f = failure();
  std::string text =
      fmt::format("PE {} of {}: transport {}, NIC {}, {}\n", my_pe(), n_pes(), transport(), nic(),
                  f.status == Status::kOk ? "no failure" : "failure: " + f.text);
  for (const Doorbell& doorbell : parts_->doorbells) {
    if (!doorbell.assisted()) continue;
    text += fmt::format("{}; passed on {} doorbells\n", doorbell.describe(), doorbell.passed_on());
  }
  text += parts_->inquiry->describe(kUntilTold);
  std::string queues;
  parts_->table->for_each(
      [&](const ContextOwner& context) { queues += context.describe_queues(); });
  if (queues.empty()) return text;
  return text +
         fmt::format(
             "{:>7} {:>5} {:>5} {:>8} {:>6} {:>10} {:>10} {:>10} {:>10}  {:<14} {:<10} {}\n",
             "context", "queue", "peer", "QP", "depth", "reserved", "published", "rung",
             "completed", "last CQE of", "NIC", "status") +
         queues;
}

const char* Runtime::transport() const { return parts_->routes->name(); }

std::string Runtime::nic() const {
  return nic_name(if_any(parts_->rails), if_any(parts_->p2p), parts_->gpu.get());
}

size_t Runtime::overhead_bytes() const {
  size_t bytes = sizeof(Parts) + DeviceTables::bytes(parts_->extent());
  parts_->table->for_each([&](const ContextOwner& context) { bytes += context.bytes(); });
  return bytes;
}

}  // namespace peal

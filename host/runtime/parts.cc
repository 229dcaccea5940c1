// SPDX-License-Identifier: Apache-2.0
//
// The composition root.
#include "host/runtime/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "host/job/together.h"
#include "host/memory/backing_cuda.h"
#include "host/memory/pieces.h"
#include "host/runtime/start_up.h"
#include "simt/lanes/plain_access.h"
#include "simt/simulation/simulation.h"

namespace peal {
namespace {

// Memory that kernels use, and memory that they share with the host while they run.
Backing kernel_memory(const std::shared_ptr<Gpu>& gpu, size_t bytes, const std::string& name) {
  return gpu ? make_cuda_backing(gpu, bytes, name) : make_host_backing(bytes, name);
}
Backing shared_memory(const std::shared_ptr<Gpu>& gpu, size_t bytes, const std::string& name) {
  return gpu ? make_pinned_backing(gpu, bytes, name) : make_host_backing(bytes, name);
}

// The heap, which peers map: as a piece, where all PEs of the host can be handed its descriptor.
Backing heap_memory(const std::shared_ptr<Gpu>& gpu, const LiveGroup& group, size_t bytes,
                    HeapKind kind = HeapKind::kDevice) {
  if (gpu && kind == HeapKind::kHost) return make_registered_backing(gpu, bytes, "peal-host-heap");
  const Place& here = group.places()[static_cast<size_t>(group.rank())];
  const bool handed = std::ranges::all_of(group.places(), [&](const Place& there) {
    return !same_host(here, there) || same_sockets(here, there);
  });
  if (gpu && handed && has_pieces(*gpu)) return make_piece_backing(gpu, bytes, "peal-heap");
  return kernel_memory(gpu, bytes, "peal-heap");
}

}  // namespace

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
      gpu = Gpu::open(config.device, rank_on_host(group.places(), me), config.gdrcopy);
      gpu->make_current();
    }
    table.emplace(shared_memory(gpu, ContextTable::bytes(group.size()), "peal-words"),
                  group.size());
    return heap_memory(gpu, group, config.heap_size + team_memory());
  });
  std::optional<Extents> extents;
  if (config.check) {
    together(group, [&] {
      extents.emplace(kernel_memory(gpu, Extents::bytes(memory.bytes()), "peal-extents"));
    });
  }
  heap.emplace(std::move(memory), group, std::move(extents));
}

// Checked mode knows which bytes of the first segment are allocated (Extents), and of no other.
void Runtime::Parts::let_heap_grow() {
  if (config.check) {
    heap->stay("it does not grow in checked mode (PEAL_CHECK)");
    return;
  }
  heap->grow_by(
      {.step = config.heap_size,
       .limit = config.heap_limit + team_memory(),
       .make = [this](size_t bytes, HeapKind kind) { return heap_memory(gpu, group, bytes, kind); },
       .publish = [this](const Backing& memory) { return publish_segment(memory); },
       .hide = [this](uint32_t window) { windows->remove({window}); }});
}

uint32_t Runtime::Parts::publish_segment(const Backing& memory) {
  const WindowHandle window = windows->add_everywhere(memory);
  log.info("heap", "grows by {}: kernels look it up as they do windows; PEAL_HEAP_SIZE avoids that",
           format_size(memory.bytes()));
  return window.number;
}

void Runtime::Parts::open_transports() {
  RouteOptions options{
      .asked = config.transport, .target = target, .orders_writes = !gpu || gpu->orders_writes()};
  PeerMemory mapped;
  if (options.try_p2p()) {
    std::string no_nvml;
    p2p.emplace(group, group.places(), gpu, gpu ? Nvml::open(&no_nvml) : nullptr,
                std::chrono::duration_cast<std::chrono::milliseconds>(config.bootstrap_timeout));
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
  warn_of_downgrade(group, log, config, mapped, if_any(rails), gpu.get());
  publish_memory(std::move(mapped));
  together(group, [&] {
    check_nic_faults(config, reachable);
    link_plan.emplace(*tables, LinkEnds{group.rank(), reachable.directly()});
    if (!config.p2p_faults.empty()) link_plan->set(config.p2p_faults, ErrorCode::kConfiguration);
  });
  const uint32_t most_blocks = blocks_at_once(group, gpu.get());
  together(group, [&] {
    if (rails) open_nics(reachable);
    make_contexts(reachable);
    make_services(most_blocks);
    watch();
  });
  let_heap_grow();
  hear_of_process_end();
  if (!rails) return;
  warn_of_nics(group, log, *rails, doorbells, warnings_of_gpu(config, *routes, gpu.get()));
}

// What kernels find memory by, and the heap in it.
void Runtime::Parts::publish_memory(PeerMemory mapped) {
  together(group, [&] {
    tables.emplace([this](size_t bytes) { return kernel_memory(gpu, bytes, "peal-tables"); },
                   extent());
    recorder.emplace(static_cast<uint32_t>(config.record),
                     [this](size_t bytes) { return kernel_memory(gpu, bytes, "peal-records"); });
  });
  if (config.check) {
    checks.emplace(CheckMode::Dependencies{.group = group,
                                           .heap = *heap,
                                           .tables = *tables,
                                           .contexts = *table,
                                           .target = target,
                                           .log = log,
                                           .mapped = mapped.direct});
  } else if (simt::accesses_are_told && simt::access_observer == nullptr && group.rank() == 0) {
    log.warn("check",
             "the program was compiled with peal-cc --check, and PEAL_CHECK is not on: nothing is "
             "looked at; set PEAL_CHECK=on");
  }
  windows.emplace(group, *tables,
                  WindowTransports{.routes = *routes,
                                   .rails = if_any(rails),
                                   .p2p = if_any(p2p),
                                   .gpu = gpu,
                                   .get_flush = config.get_flush,
                                   .after_add =
                                       [this](const WindowHandle& window) {
                                         if (!config.info) return;
                                         log.print("window", windows->describe(window));
                                       },
                                   .before_end =
                                       [this](const std::byte* begin) {
                                         if (files) files->forget_memory(begin);
                                       }});
  windows->add_heap(heap->base(), heap->bytes(), std::move(mapped));
}

void Runtime::Parts::make_contexts(const Reachable& reachable) {
  contexts.emplace(Contexts::Dependencies{.config = config,
                                          .log = log,
                                          .group = group,
                                          .heap = *heap,
                                          .tables = *tables,
                                          .table = *table,
                                          .recorder = *recorder,
                                          .nics = if_any(nics),
                                          .gpu = gpu.get()});
  teams.emplace(group, *heap, team_memory(),
                Teams::Ways{reachable.directly(), !reachable.needs_nic(), config.algorithm},
                kernel_memory(gpu, Teams::shown_bytes(), "peal-teams"));
}

// What looks at contexts from outside, and what the host calls.
void Runtime::Parts::make_services(uint32_t most_blocks) {
  const PlaceOf place_of = [this, heaps = windows->mapped_heaps()](const void* address) {
    const std::string seen = heaps.describe(address);
    return seen.empty() ? heap->place_of(address) : seen;
  };
  flight.emplace(FlightLog::Dependencies{.config = config,
                                         .group = group,
                                         .table = *table,
                                         .recorder = *recorder,
                                         .place_of = place_of,
                                         .heap = heap->base(),
                                         .heap_bytes = heap->bytes(),
                                         .on_gpu = gpu != nullptr});
  failures.emplace(*table, group, place_of, log);
  contexts->before_drop([this](const ContextOwner& context) { failures->keep_of(context); });
  files.emplace(
      Files::Dependencies{.memory = own_memory(),
                          .contexts = *table,
                          .gpu = gpu,
                          .options = {.threads = static_cast<size_t>(config.storage_threads),
                                      .cufile = config.cufile}});
  failures->also([this] { return files->failures(); });
  if (checks) failures->also([this] { return checks->failures(); });
  inquiry.emplace(group, [this] { return failures->waits(); });
  calls.emplace(CallEngine::Dependencies{
      .group = group,
      .windows = *windows,
      .teams = *teams,
      .tables = *tables,
      .failures = *failures,
      .files = *files,
      .executor = gpu ? make_gpu_executor(gpu, config.kernels, most_blocks) : make_cpu_executor(),
      .answers = shared_memory(gpu, CallEngine::kAnswerBytes, "peal-answers"),
      .own_words = gpu && !config.check && !recorder->on() ? &heap->backing() : nullptr});
}

// Behind the heap's window: the software NIC may have gone to a GPU with it.
void Runtime::Parts::open_nics(const Reachable& reachable) {
  const bool proxied = routes->by_nic() == Route::kProxy;
  if (proxied) proxies.resize(rails->nics().size());
  for (const IbgdaNic& nic : rails->nics()) {
    if (!proxied) doorbells.emplace_back(nic.device, gpu, config.doorbell);
  }
  const std::byte* const cells = heap->reserve_internal(LinkTester::cell_bytes(group.size()));
  link_tester.emplace(group, *rails, *tables, heap->backing(), heap->offset_of(cells),
                      config.bootstrap_timeout);
  linker.emplace(group, *table, *link_tester, gpu, config, log);
  nics.emplace(ContextNics{.rails = *rails,
                           .carrier = {proxied ? nullptr : &doorbells, &proxies},
                           .link_tester = *link_tester,
                           .linker = *linker,
                           .must_settle = reachable.must_settle(),
                           .unordered = reachable.unordered()});
}

void Runtime::Parts::watch() {
  watcher.emplace(
      group.places(), group.channel().fd(),
      Watcher::Calls{.lost = [this](int pe, int pid) { failures->peer_lost(pe, pid); },
                     .message = [this] { take_messages(); },
                     .look = [this, simulated = simt::in_simulation()] { look(simulated); },
                     .broken =
                         [this](const std::string& why) {
                           failures->abort(nullptr, "it hears of no other PE any more: " + why);
                         },
                     .look_period = FailureLog::kLookPeriod});
}

// In a simulation kernels' memory is for its processes alone.
void Runtime::Parts::look(bool simulated) {
  failures->lose_leavers();
  exit_after_pthread_exit();
  if (config.report_failures && !simulated) failures->look();
}

void Runtime::Parts::take_messages() {
  while (auto message = group.channel().receive()) {
    switch (message->kind) {
      case Message::Kind::kAbort:
        failures->deliver(*message);
        break;
      case Message::Kind::kLeft:
        failures->peer_left(*message);
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
      case Message::Kind::kDescriptors:
        break;  // these go over a channel of their own (DescriptorExchange)
    }
  }
}

void Runtime::Parts::report() const {
  if (group.rank() == 0) {
    log.print("config", config.describe());
    for (size_t i = 0; rails && i < rails->nics().size(); ++i) {
      log.print("nic", rails->nics()[i].device.description());
    }
    const size_t overhead = tables->bytes() + default_context->bytes();
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
    log.print("gpu", fmt::format("GPU {}, {}; {}; {}", gpu->index(), gpu->name(),
                                 gpu->describe_writes(), gpu->describe_words()));
  }
  log.print("transport", routes->describe());
  log.print("window", windows->describe({}));
}

}  // namespace peal

// SPDX-License-Identifier: Apache-2.0
#include "host/runtime/services.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/patience.h"
#include "base/poll.h"
#include "base/run_clock.h"
#include "host/base/error.h"
#include "host/job/process_end.h"
#include "host/job/together.h"
#include "simt/simulation/simulation.h"

namespace peal {
namespace {

FlightLog::Dependencies flight_parts(const JobMembership& job, const MemoryFabric& fabric) {
  return {.config = job.config,
          .group = job.group,
          .table = fabric.slots,
          .recorder = fabric.tables->recorder,
          .place_of = fabric.place_of(),
          .heap = fabric.heap.base(),
          .heap_bytes = fabric.heap.bytes(),
          .on_gpu = fabric.gpu != nullptr};
}

std::unique_ptr<Executor> executor_for(const JobMembership& job, const MemoryFabric& fabric,
                                       uint32_t most_blocks) {
  if (!fabric.gpu) return make_cpu_executor();
  return make_gpu_executor(fabric.gpu, job.config.kernels, most_blocks);
}

// Where calls of the host are looked at all of them are kernels.
const Backing* own_words(const JobMembership& job, const MemoryFabric& fabric) {
  const bool looked_at = job.config.check || fabric.tables->recorder.on();
  return fabric.gpu && !looked_at ? &fabric.heap.backing() : nullptr;
}

// Collective. How many blocks of a grid all PEs can have running at the same time: one on a
// multiprocessor; of a GPU that PEs share a quarter is left to others. All PEs get the same number,
// 1 without GPUs, which all PEs have or none: CPUs have a measure of their own.
uint32_t blocks_at_once(Bootstrap& group, const Gpu* gpu) {
  if (gpu == nullptr) return 1;
  struct OnePe {
    cuda::Uuid uuid;
    int multiprocessors;
  };
  const std::vector<OnePe> all = gather(group, OnePe{gpu->uuid(), gpu->multiprocessors()});
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const OnePe& one : all) {
    const int64_t sharers =
        std::ranges::count_if(all, [&](const OnePe& other) { return other.uuid == one.uuid; });
    const int64_t own = one.multiprocessors;
    least = std::min(least, sharers == 1 ? own : own * 3 / 4 / sharers);
  }
  return static_cast<uint32_t>(std::max<int64_t>(least, 1));
}

// Neighbours are watched by their processes.
std::vector<int> far_connections(const LiveGroup& group) {
  std::vector<int> sockets = group.connections();
  for (size_t pe = 0; pe < sockets.size(); ++pe) {
    if (!group.channel().by_udp(static_cast<int>(pe))) sockets[pe] = -1;
  }
  return sockets;
}

// Until a way that brings nothing is said to.
constexpr std::chrono::seconds kUnheard{10};

// For the first answers of other hosts; a network that lets none through costs as much, once.
constexpr std::chrono::seconds kFirstAnswers{1};

// Doorbells for NICs that kernels ring, else nothing.
Doorbells doorbells_for(const JobMembership& job, const MemoryFabric& fabric) {
  Doorbells doorbells;
  if (fabric.ways.routes.by_nic() == Route::kProxy) return doorbells;
  for (const IbgdaNic& nic : fabric.ways.rails->nics()) {
    doorbells.emplace_back(nic.device, fabric.gpu, job.config.doorbell);
  }
  return doorbells;
}

Proxies proxies_for(const JobMembership& job, const MemoryFabric& fabric) {
  Proxies proxies;
  if (fabric.ways.routes.by_nic() != Route::kProxy) return proxies;
  const bool flushes = must_flush(fabric.gpu.get(), job.config.get_flush, true);
  for (const IbgdaNic& nic : fabric.ways.rails->nics()) proxies.emplace_back(nic, flushes);
  return proxies;
}

// A plan of faults that the software NIC has would do nothing where no peer is reached by a NIC,
// and tests of faults would pass.
void check_nic_faults(const Config& config, const Reachable& reachable) {
  if (reachable.needs_nic() || !config.softnic.contains("PEAL_SOFTNIC_FAULTS")) return;
  fail(ErrorCode::kConfiguration,
       "PEAL_SOFTNIC_FAULTS is a plan for the software NIC, and this job uses none: set "
       "PEAL_TRANSPORT=ibgda, or PEAL_P2P_FAULTS for faults towards mapped peers");
}

}  // namespace

std::unique_ptr<Services> Services::start(JobMembership& job, MemoryFabric& fabric,
                                          ContextParts& parts) {
  const uint32_t most_blocks = blocks_at_once(job.group, fabric.gpu.get());
  return together(job.group,
                  [&] { return std::make_unique<Services>(job, fabric, parts, most_blocks); });
}

Services::Services(JobMembership& job, MemoryFabric& fabric, ContextParts& parts,
                   uint32_t most_blocks)
    : job_(job),
      fabric_(fabric),
      parts_(parts),
      connections_(far_connections(job.group)),
      flight(flight_parts(job, fabric)),
      files(fabric.own_memory(), fabric.slots, fabric.gpu,
            {.threads = static_cast<size_t>(job.config.storage_threads),
             .cufile = job.config.cufile}),
      failures(fabric.slots, job.group, fabric.place_of(), job.log),
      inquiry(job.group, [this] { return failures.waits(); }),
      calls(CallEngine::Dependencies{
          .group = job.group,
          .windows = fabric.windows,
          .teams = parts.teams,
          .tables = fabric.tables->contexts,
          .failures = failures,
          .files = files,
          .executor = executor_for(job, fabric, most_blocks),
          .answers = shared_memory(fabric.gpu, CallEngine::kAnswerBytes, "peal-answers"),
          .own_words = own_words(job, fabric)}),
      host_watch(job.group.places(), job.group.rank(), job.config.host_timeout),
      watcher(job.group.places(), job.group.channel().fds(), watcher_calls()) {
  parts.contexts.before_drop([this](const ContextOwner& context) { failures.keep_of(context); });
  fabric.windows.before_end([this](const std::byte* begin) { files.forget_memory(begin); });
}

Services::~Services() {
  failures.end_callback();
  parts_.contexts.before_drop({});
  fabric_.windows.before_end({});
}

void Services::hear_hosts() {
  UdpChannel* const udp = job_.group.channel().udp();
  if (udp == nullptr) return;
  const auto heard = [udp](int pe) { return udp->heard(pe); };
  HostWatch watch(job_.group.places(), job_.group.rank(), job_.config.host_timeout);
  const std::vector<int> asked = watch.to_ask(job_.group.live_pes(), UdpChannel::now(), heard);
  for (const int pe : asked) udp->ask(pe);
  wait_until([&] { return std::ranges::all_of(asked, [&](int pe) { return heard(pe).ever; }); },
             RunClock::now() + kFirstAnswers);
}

Watcher::Callbacks Services::watcher_calls() {
  return {.lost = [this](int pe, int pid) { failures.peer_lost(pe, pid); },
          .message = [this] { take_messages(); },
          .look = [this, simulated = simt::in_simulation()] { look(simulated); },
          .broken =
              [this](const std::string& why) {
                failures.abort(nullptr, "it hears of no other PE any more: " + why);
              },
          .look_period = FailureLog::kLookPeriod};
}

// In a simulation only its own processes may read kernels' memory: failures are not looked for.
void Services::look(bool simulated) {
  failures.lose_leavers();
  look_at_hosts();
  exit_after_pthread_exit();
  if (job_.config.report_failures && !simulated) failures.look();
}

// What was not acknowledged goes again, hosts are asked, and who does not answer is lost.
void Services::look_at_hosts() {
  UdpChannel* const udp = job_.group.channel().udp();
  if (udp == nullptr) return;
  udp->look();
  const UdpChannel::Time now = UdpChannel::now();
  const std::vector<int> live = job_.group.live_pes();
  const auto heard = [&](int pe) { return udp->heard(pe); };
  for (const int pe : hung_up(connections_)) host_watch.hung_up(pe, now);
  for (const int pe : host_watch.to_ask(live, now, heard)) udp->ask(pe);
  for (const int pe : udp->unheard(kUnheard)) {
    job_.log.warn(
        "runtime",
        "PE {} does not answer at {}: its end, abort() and what it waits for are not told "
        "between it and this PE; open UDP between the hosts, or set PEAL_INTERFACE",
        pe, udp->describe(pe));
  }
  for (const auto& [pe, silent] : host_watch.losses(live, now, heard)) {
    if (ended_behind_the_job(pe)) continue;
    const auto limit =
        std::chrono::duration_cast<std::chrono::milliseconds>(job_.config.host_timeout);
    failures.far_peer_lost(pe, {.how = silent ? Departure::How::kSilent : Departure::How::kEnded,
                                .code = silent ? static_cast<int>(limit.count()) : 0,
                                .text = udp->describe(pe)});
    found_lost_.push_back(pe);
  }
  pass_on_losses(host_watch.speaks(live));
}

// A PE that has come to its end waits for the others': as long as this one works, the end of its
// process is a death.
bool Services::ended_behind_the_job(int pe) const {
  const std::optional<Departure> how = job_.group.departure(pe);
  return how && how->in_order() && job_.group.leaves();
}

// The first live PE of a host speaks for it (`speaks`) and passes on all losses of that host, for
// the PE that spoke before may be among the lost.
void Services::pass_on_losses(bool speaks) {
  for (const int pe : found_lost_) job_.group.pass_on_loss(pe);
  for (const int pe : speaks ? job_.group.lost_pes() : std::vector<int>{}) {
    if (!job_.group.channel().by_udp(pe) && !ended_behind_the_job(pe)) {
      job_.group.pass_on_loss(pe);
    }
  }
}

void Services::take_messages() {
  while (auto message = job_.group.channel().receive()) {
    switch (message->kind) {
      case Message::Kind::kAbort:
        failures.deliver(*message);
        break;
      case Message::Kind::kLeft:
        failures.peer_left(*message);
        break;
      case Message::Kind::kLost:
        failures.hear_of_loss(*message);
        break;
      case Message::Kind::kExchange:
        job_.group.deliver(std::move(*message));
        break;
      case Message::Kind::kLink:
        if (parts_.nic_services) parts_.nic_services->linker.deliver(std::move(*message));
        break;
      case Message::Kind::kWaitsAsked:
      case Message::Kind::kWaitsTold:
        inquiry.deliver(*message);
        break;
      case Message::Kind::kDescriptors:
        break;  // these go over a channel of their own (DescriptorExchange)
    }
  }
}

NicServices::NicServices(JobMembership& job, MemoryFabric& fabric)
    : doorbells(doorbells_for(job, fabric)),
      proxies(proxies_for(job, fabric)),
      link_tester(job.group, *fabric.ways.rails, fabric.tables->windows.heap_keys(),
                  fabric.heap.backing(),
                  fabric.heap.offset_of(
                      fabric.heap.reserve_internal(LinkTester::cell_bytes(job.group.size()))),
                  job.config.bootstrap_timeout),
      linker(job.group, fabric.slots, link_tester, fabric.gpu, job.config, job.log),
      nics{.rails = *fabric.ways.rails,
           .carrier = {proxies.empty() ? &doorbells : nullptr, &proxies},
           .link_tester = link_tester,
           .linker = linker,
           .must_settle = fabric.ways.reachable.must_settle(),
           .unordered = fabric.ways.reachable.unordered()} {}

ContextParts::ContextParts(JobMembership& job, MemoryFabric& fabric)
    : link_plan(fabric.tables->contexts,
                LinkEnds{job.group.rank(), fabric.ways.reachable.directly()}),
      nic_services(fabric.ways.rails ? std::make_unique<NicServices>(job, fabric) : nullptr),
      contexts(Contexts::Dependencies{.config = job.config,
                                      .log = job.log,
                                      .group = job.group,
                                      .heap = fabric.heap,
                                      .tables = fabric.tables->contexts,
                                      .table = fabric.slots,
                                      .recorder = fabric.tables->recorder,
                                      .nics = nic_services ? &nic_services->nics : nullptr,
                                      .gpu = fabric.gpu.get()}),
      teams(job.group, fabric.heap, team_memory(job),
            Teams::Ways{fabric.ways.reachable.directly(), !fabric.ways.reachable.needs_nic(),
                        job.config.algorithm},
            kernel_memory(fabric.gpu, Teams::published_bytes(), "peal-teams")) {
  if (job.config.p2p_faults.empty()) return;
  link_plan.set(job.config.p2p_faults, ErrorCode::kConfiguration);
}

std::unique_ptr<ContextParts> ContextParts::make(JobMembership& job, MemoryFabric& fabric) {
  return together(job.group, [&] {
    check_nic_faults(job.config, fabric.ways.reachable);
    return std::make_unique<ContextParts>(job, fabric);
  });
}

}  // namespace peal

// SPDX-License-Identifier: Apache-2.0
//
// What a program calls; the parts that do it are in parts.h. Calls that move files find the memory
// and leave the rest to host/storage.

#include "host/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.h"
#include "host/job/together.h"
#include "host/nvtx/range.h"
#include "host/runtime/parts.h"
#include "host/storage/checkpoint.h"
#include "host/storage/whole_files.h"

namespace peal {
namespace {

// A PE whose process runs tells what it waits for within some milliseconds.
constexpr std::chrono::milliseconds kUntilTold{1000};

// Null `rails`, `p2p` and `gpu`: there is none.
std::string nic_name(const Rails* rails, const P2p* p2p, const Gpu* gpu) {
  if (rails != nullptr) return rails->model();
  if (gpu == nullptr) return "shared-memory";
  constexpr const char* kLinks[] = {"none", "nvlink", "pcie"};
  return kLinks[static_cast<size_t>(p2p->link())];
}

void check_copy(const OwnMemory& own, const char* call, const void* symmetric, const void* host,
                size_t bytes) {
  if (bytes == 0) return;
  if (host == nullptr) {
    fail(ErrorCode::kInvalidArgument, "{}: the host's memory is null, for {} bytes", call, bytes);
  }
  own.holding(call, symmetric, bytes);
}

// All PEs have masked the same PEs, so that all throw, and nobody is left in an exchange.
void refuse_masked(const LiveGroup& group, const char* call) {
  if (group.masked_pes().empty()) return;
  fail(ErrorCode::kUnsupported,
       "{}: {} PEs are masked, and a checkpoint has a part of every PE; save() a file for each PE",
       call, group.masked_pes().size());
}

void refuse_living(const LiveGroup& group, int pe) {
  if (pe < 0) return;
  fail(ErrorCode::kInvalidArgument,
       "mask: PE {} (process {}) has not ended; it would still use this PE's memory: end it first",
       pe, group.places()[static_cast<size_t>(pe)].pid);
}

// Returns one of `pes` that still answers after the time in which a loss is noticed, else -1. All
// of them live as far as is known here; a silent host is taken for lost after PEAL_HOST_TIMEOUT
// only.
int one_that_answers(const LiveGroup& group, const std::vector<int>& pes) {
  if (pes.empty() || group.await_lost(pes, LiveGroup::kUntilNoticed) < 0) return -1;
  UdpChannel& udp = *group.channel().udp();
  const UdpChannel::Time asked = UdpChannel::now();
  for (const int pe : pes) udp.ask(pe);
  group.await_lost(pes, LiveGroup::kUntilNoticed);
  const auto answers = std::ranges::find_if(
      pes, [&](int pe) { return udp.heard(pe).at > asked && group.is_live(pe); });
  return answers == pes.end() ? -1 : *answers;
}

}  // namespace

Runtime::Runtime(std::unique_ptr<Bootstrap> bootstrap, const Config& config, Target target) {
  const nvtx::Range range("peal: start");
  parts_ = std::make_unique<Parts>(std::move(bootstrap), Beginning{config, target, 0, nullptr});
  parts().job.group.name_calls("");
  if (config.info) parts().report();
}

// A forked child leaves what it has copies of as it is.
void Runtime::forget(std::shared_ptr<Beginning> again) noexcept {
  if (again != nullptr && !again->maker.here()) new std::shared_ptr<Beginning>(std::move(again));
}

Runtime::~Runtime() {
  leave(std::move(parts_));
  forget(std::move(again_));
}
Runtime::Runtime(Runtime&&) noexcept = default;
Runtime& Runtime::operator=(Runtime&& other) noexcept {
  std::unique_ptr<Parts> old = std::exchange(parts_, std::move(other.parts_));
  forget(std::exchange(again_, std::move(other.again_)));
  ended_ = std::move(other.ended_);
  leave(std::move(old));
  return *this;
}

Runtime::Parts& Runtime::parts(const char* call) const {
  if (parts_ == nullptr && again_ != nullptr) {
    fail(ErrorCode::kInvalidArgument,
         "{}: this PE has left its job for a rejoin(), which failed: call rejoin() again{}", call,
         again_->heap ? ", with keep_heap as before" : "");
  }
  if (parts_ == nullptr) {
    fail(ErrorCode::kInvalidArgument, "{}: this Runtime has ended, or was moved from", call);
  }
  if (!parts_->maker.here()) {
    fail(ErrorCode::kInvalidArgument,
         "{}: this process was forked from PE {}'s (process {}), and is no PE: only that process "
         "may use its Runtime",
         call, parts_->job.group.rank(),
         parts_->job.group.places()[static_cast<size_t>(parts_->job.group.rank())].pid);
  }
  if (parts_->ended) {
    fail(ErrorCode::kInvalidArgument, "{}: this PE has ended: by finalize(), or with its process",
         call);
  }
  return *parts_;
}

void Runtime::require(const char* call) const { parts(call); }

int Runtime::my_pe() const { return parts().job.group.rank(); }
int Runtime::n_pes() const { return parts().job.group.size(); }
const Config& Runtime::config() const {
  return again_ == nullptr ? parts().job.config : again_->config;
}
uint64_t Runtime::epoch() const { return parts().job.epoch; }
Target Runtime::target() const { return parts().job.target; }

void* Runtime::malloc(size_t bytes, HeapKind kind) {
  const Parts::CollectiveCall call(parts(), "peal: malloc", "heap:malloc");
  return parts().fabric.heap.malloc(bytes, kind);
}
void* Runtime::calloc(size_t count, size_t bytes, HeapKind kind) {
  const Parts::CollectiveCall call(parts(), "peal: calloc", "heap:calloc");
  return parts().fabric.heap.calloc(count, bytes, kind);
}
void* Runtime::align(size_t alignment, size_t bytes, HeapKind kind) {
  const Parts::CollectiveCall call(parts(), "peal: align", "heap:align");
  return parts().fabric.heap.align(alignment, bytes, kind);
}
std::vector<HeapBlock> Runtime::blocks() const { return parts().fabric.heap.blocks(); }

void Runtime::free(void* pointer) {
  const Parts::CollectiveCall call(parts(), "peal: free", "heap:free");
  parts().fabric.heap.free(pointer);
}

void Runtime::copy_in(void* symmetric, const void* host, size_t bytes) {
  check_copy(parts().fabric.own_memory(), "copy_in", symmetric, host, bytes);
  parts().fabric.heap.backing().copy_in(symmetric, host, bytes);
}
void Runtime::copy_out(void* host, const void* symmetric, size_t bytes) const {
  check_copy(parts().fabric.own_memory(), "copy_out", symmetric, host, bytes);
  parts().fabric.heap.backing().copy_out(host, symmetric, bytes);
}

WindowHandle Runtime::register_window(void* address, size_t bytes, const WindowOptions& options) {
  const Parts::CollectiveCall call(parts(), "peal: register_window");
  return parts().fabric.windows.add_everywhere(static_cast<std::byte*>(address), bytes, options);
}

void Runtime::unregister_window(const WindowHandle& window) {
  const Parts::CollectiveCall call(parts(), "peal: unregister_window");
  // A segment of the heap is no window that the program registered.
  parts().fabric.windows.remove(parts().fabric.heap.owns(window.number) ? WindowHandle{} : window);
}

void Runtime::unregister_window(const void* address) {
  unregister_window(parts().fabric.windows.handle_of(static_cast<const std::byte*>(address)));
}

void Runtime::register_local(void* address, size_t bytes, const WindowOptions& options) {
  if (address == nullptr || bytes == 0) {
    fail(ErrorCode::kInvalidArgument,
         "register_local: {} bytes at {}: there is nothing to register", bytes, fmt::ptr(address));
  }
  parts().fabric.windows.add_local(static_cast<std::byte*>(address), bytes, options);
}

void Runtime::unregister_local(const void* address) {
  parts().fabric.windows.remove_local(static_cast<const std::byte*>(address));
}

void detail::refuse_context(const ContextFields& made, uint32_t version, size_t bytes) {
  fail(ErrorCode::kUnsupported,
       "context: the peal library makes contexts of version {} ({} bytes), this program was "
       "compiled with headers of version {} ({} bytes): build it with the headers that the library "
       "was built with",
       made.version, made.bytes, version, bytes);
}

const ContextFields& Runtime::default_context() const { return parts().default_context->fields(); }

std::shared_ptr<const ContextFields> Runtime::create_context(const ContextOptions& options,
                                                             Reach reach) {
  const Parts::CollectiveCall call(parts(), "peal: make_context");
  const auto owner = parts().context_parts->contexts.create(options, reach);
  return {owner, &owner->fields()};
}

Team Runtime::world() const { return parts().context_parts->teams.world(); }

Team Runtime::split_team(const Team& parent, int color, int key, const TeamOptions& options) {
  const nvtx::Range range("peal: split_team");
  const NamedCalls named(parts().job.group, "split_team");
  const Team made = parts().context_parts->teams.split(parent, color, key, options);
  if (parts().fabric.checks) parts().fabric.checks->met();
  return made;
}

Team Runtime::split_team_strided(const Team& parent, int first, int stride, int size,
                                 const TeamOptions& options) {
  const int64_t last = first + (int64_t{size} - 1) * stride;
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
  return split_team(world(), parts().context_parts->teams.node_color(), 0, options);
}

Team Runtime::split_host_team(const TeamOptions& options) {
  const std::vector<Place>& places = parts().job.group.places();
  int first = 0;
  while (!same_host(places[static_cast<size_t>(first)], places[static_cast<size_t>(my_pe())])) {
    ++first;
  }
  return split_team(world(), first, 0, options);
}

void Runtime::free_team(const Team& team) { parts().context_parts->teams.free(team); }
std::vector<int> Runtime::team_pes(const Team& team) const {
  return parts().context_parts->teams.members(team);
}

StreamCalls Runtime::on(void* stream, const ContextFields& context) {
  return StreamCalls(parts().services->calls.site(stream, context));
}
StreamCalls Runtime::on(void* stream) { return on(stream, default_context()); }

void* Runtime::ptr(const void* symmetric, int pe) const {
  return parts().services->calls.mapped(symmetric, pe);
}

HostCalls Runtime::host(HostChecks checks) {
  detail::CallSite site = parts().services->calls.own_site(default_context());
  site.compares = checks == HostChecks::kArguments;
  return HostCalls(site);
}
TicketCalls Runtime::host_nbi() {
  return TicketCalls(parts().services->calls.own_site(default_context()));
}

void Runtime::barrier() {
  const Parts::CollectiveCall call(parts(), "peal: barrier");
  parts().job.group.barrier();
}

Status Runtime::status() const { return parts().services->failures.status(); }
Failure Runtime::failure() const { return parts().services->failures.first(); }

void Runtime::on_failure(std::function<void(const Failure&)> callback) {
  parts().services->failures.on_failure(std::move(callback));
}

void Runtime::check() const {
  const Failure f = failure();
  if (f.status == Status::kOk) return;
  const std::string calls = parts().services->flight.last_calls(f.context);
  if (!calls.empty()) parts().job.log.error("recorder", "{}", calls);
  parts().services->failures.check();
}

size_t Runtime::recover() {
  const nvtx::Range range("peal: recover");
  const NamedCalls named(parts().job.group, "recover");
  const size_t resets = parts().context_parts->contexts.recover();
  parts().context_parts->teams.begin_anew();
  if (parts().fabric.checks) parts().fabric.checks->recovered();
  parts().services->failures.start_again();
  return resets;
}

std::vector<int> Runtime::lost_pes() const { return parts().job.group.lost_pes(); }

void Runtime::mask(const std::vector<int>& pes) {
  const nvtx::Range range("peal: mask");
  LiveGroup& group = parts().job.group;
  std::vector<int> watched;
  std::vector<int> elsewhere;  // which are not lost yet
  for (const int pe : pes) {
    if (pe < 0 || pe >= group.size()) {
      fail(ErrorCode::kInvalidArgument, "mask: there is no PE {}; PEs are 0 to {}", pe,
           group.size() - 1);
    }
    if (pe == group.rank()) fail(ErrorCode::kInvalidArgument, "mask: PE {} is this one", pe);
    const Place& there = group.places()[static_cast<size_t>(pe)];
    const bool here = same_process(there, group.places()[static_cast<size_t>(group.rank())]);
    if (here || parts().services->watcher.watches(pe)) watched.push_back(pe);
    if (group.channel().by_udp(pe) && group.is_live(pe)) elsewhere.push_back(pe);
  }
  refuse_living(group, group.await_lost(watched, LiveGroup::kUntilNoticed));
  refuse_living(group, one_that_answers(group, elsewhere));
  for (const int pe : pes) group.mask(pe);
  parts().services->failures.forget_losses();
  if (group.masked_pes().empty()) return;
  parts().context_parts->contexts.leave_masked_out();
  recover();
}

void Runtime::set_p2p_faults(std::string_view plan) {
  parts().context_parts->link_plan.set(plan, ErrorCode::kInvalidArgument);
}

void Runtime::abort(std::string_view reason) { parts().services->failures.abort(nullptr, reason); }

void Runtime::abort(const ContextFields& context, std::string_view reason) {
  parts().services->failures.abort(&context, reason);
}

std::vector<Counters> Runtime::counters() const { return parts().services->flight.counters(); }

std::string Runtime::dump() const {
  const Failure f = failure();
  std::string text =
      fmt::format("PE {} of {}: transport {}, NIC {}, {}\n", my_pe(), n_pes(), transport(), nic(),
                  f.status == Status::kOk ? "no failure" : "failure: " + f.text);
  if (const NicServices* const nics = parts().context_parts->nic_services.get()) {
    for (const Doorbell& doorbell : nics->doorbells) {
      if (!doorbell.assisted()) continue;
      text +=
          fmt::format("{}; passed on {} doorbells\n", doorbell.describe(), doorbell.passed_on());
    }
  }
  text += parts().services->inquiry.describe(kUntilTold);
  text += parts().services->flight.last_calls(-1) + parts().services->flight.describe_counters();
  parts().services->flight.write();
  std::string queues;
  parts().fabric.slots.for_each(
      [&](const ContextOwner& context) { queues += context.describe_queues(); });
  if (queues.empty()) return text;
  return text +
         fmt::format(
             "{:>7} {:>5} {:>5} {:>8} {:>6} {:>10} {:>10} {:>10} {:>10}  {:<14} {:<10} {}\n",
             "context", "queue", "peer", "QP", "depth", "reserved", "published", "rung",
             "completed", "last CQE of", "NIC", "status") +
         queues;
}

const char* Runtime::transport() const { return parts().fabric.ways.routes.name(); }

std::string Runtime::nic() const {
  const MemoryFabric& fabric = parts().fabric;
  return nic_name(fabric.ways.rails.get(), fabric.ways.p2p.get(), fabric.gpu.get());
}

size_t Runtime::overhead_bytes() const { return parts().overhead_bytes(); }

void Runtime::load(const std::string& path, uint64_t offset, void* symmetric, size_t bytes) {
  const nvtx::Range range("peal: load");
  const storage::MemoryRange to = parts().services->files.memory_for("load", symmetric, bytes);
  storage::load(parts().services->files.engine(), path, offset, to);
}

void Runtime::save(const std::string& path, const void* symmetric, size_t bytes) {
  const nvtx::Range range("peal: save");
  const storage::MemoryRange from = parts().services->files.memory_for("save", symmetric, bytes);
  storage::save(parts().services->files.engine(), path, from);
}

Runtime::FilePart Runtime::load_shard(const std::string& path, void* symmetric, size_t room,
                                      size_t unit) {
  const nvtx::Range range("peal: load_shard");
  const storage::MemoryRange to = parts().services->files.memory_for("load_shard", symmetric, room);
  const storage::Shard mine =
      storage::load_shard(parts().services->files.engine(), path, unit, my_pe(), n_pes(), to);
  return {mine.offset, mine.bytes};
}

void Runtime::save_checkpoint(const std::string& path, const void* symmetric, size_t bytes) {
  refuse_masked(parts().job.group, "save_checkpoint");
  const Parts::CollectiveCall call(parts(), "peal: save_checkpoint");
  const storage::MemoryRange from = together(parts().job.group, [&] {
    parts().services->files.engine();
    return parts().services->files.memory_for("save_checkpoint", symmetric, bytes);
  });
  storage::save_checkpoint(parts().services->files.engine(), parts().job.group, path, from);
}

void Runtime::load_checkpoint(const std::string& path, void* symmetric, size_t bytes) {
  refuse_masked(parts().job.group, "load_checkpoint");
  const Parts::CollectiveCall call(parts(), "peal: load_checkpoint");
  const storage::MemoryRange to = together(parts().job.group, [&] {
    parts().services->files.engine();
    return parts().services->files.memory_for("load_checkpoint", symmetric, bytes);
  });
  storage::load_checkpoint(parts().services->files.engine(), parts().job.group, path, to);
}

std::string Runtime::describe_storage() const {
  return parts().services->files.engine().describe();
}

}  // namespace peal

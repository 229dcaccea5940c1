// SPDX-License-Identifier: Apache-2.0
//
// How a Runtime begins, and how it ends: by finalize(), by its destructor in order, by an
// exception, or with its process.
#include "host/runtime/parts.h"

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.h"
#include "host/runtime.h"
#include "host/runtime/main_frame.h"
#include "host/transport/warn_once.h"
#include "simt/lanes/crash.h"
#include "simt/simulation/simulation.h"

namespace peal {
namespace {

std::string warning_of_writes(const Config& config, const Gpu& gpu) {
  const char* const who =
      config.get_flush == GetFlush::kNothing
          ? "wait for data (get and fetching operations do not: PEAL_GET_FLUSH=none)"
          : "and get and fetching operations wait for data";
  return fmt::format(
      "{}: {}: a kernel that saw a signal may not see its data yet; call quiet between a put and "
      "its "
      "signal, as quiet and barriers {}, or use Hopper or newer",
      gpu.name(), gpu.describe_writes(), who);
}

// What programs cannot rely on where NICs reach a GPU's memory.
std::vector<std::string> warnings_of_gpu(const Config& config, const Gpu* gpu) {
  std::vector<std::string> lines;
  if (gpu == nullptr) return lines;
  if (!gpu->orders_writes()) lines.push_back(warning_of_writes(config, *gpu));
  if (gpu->calls_may_lag()) {
    lines.push_back(fmt::format(
        "{}: the driver is older than CUDA 12.1: cudaMemset and cudaMemcpy may return before what "
        "they write is in the heap, and a NIC may send what was there; call cudaDeviceSynchronize "
        "between them and a call from the host that sends it, or update the driver",
        gpu->name()));
  }
  return lines;
}

// Collective. Warns of what was found when the NICs were opened, and of `more`.
void warn_of_nics(JobMembership& job, const Rails& rails, const Doorbells& doorbells,
                  const std::vector<std::string>& more) {
  std::vector<std::string> lines = rails.nics()[0].device.path_settings().ignored;
  for (const Doorbell& doorbell : doorbells) {
    if (!doorbell.warning().empty()) lines.push_back(doorbell.warning());
  }
  lines.insert(lines.end(), more.begin(), more.end());
  std::vector<std::string> names;
  for (const IbgdaNic& nic : rails.nics()) names.push_back(nic.device.name());
  warn_once(job.group, job.log, fmt::format("{}", fmt::join(lines, "\n")), std::move(names));
}

// Says which rails there are, why, and whether the job's settings make use of all.
std::string describe_rails(const Rails& rails, const Config& config) {
  std::string text = rails.why();
  if (rails.count() == 1) return text;
  text += fmt::format("; {} rails in the job", rails.count());
  if (static_cast<uint32_t>(config.queues) >= rails.count()) return text;
  return text + fmt::format(", of which PEAL_QUEUES={0} uses {0}: set it to {1} or more",
                            config.queues, rails.count());
}

// Known where a destructor runs in a handler.
std::string text_of_current_exception() {
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
  }
  return {};
}

}  // namespace

Runtime::Parts::Parts(std::unique_ptr<Bootstrap> bootstrap, const Beginning& beginning)
    : job(std::move(bootstrap), beginning),
      fabric(job),
      context_parts(ContextParts::make(job, fabric)),
      services(Services::start(job, fabric, *context_parts)) {
  // Before a collective call, and that before any kernel: no PE of another host ends unheard.
  services->hear_hosts();
  hear_of_process_end();
  if (const NicServices* const nics = context_parts->nic_services.get()) {
    warn_of_nics(job, *fabric.ways.rails, nics->doorbells,
                 warnings_of_gpu(job.config, fabric.gpu.get()));
  }
  default_context = context_parts->contexts.create({}, Reach::kGpu);
}

size_t Runtime::Parts::overhead_bytes() const {
  size_t bytes = sizeof(Parts) + sizeof(ContextParts) + sizeof(Services) + sizeof(KernelTables);
  bytes += fabric.tables->bytes();
  fabric.slots.for_each([&](const ContextOwner& context) { bytes += context.bytes(); });
  return bytes;
}

void Runtime::Parts::report() const {
  const Log& log = job.log;
  const Config& config = job.config;
  const Rails* const rails = fabric.ways.rails.get();
  if (job.group.rank() == 0) {
    log.print("config", config.describe());
    for (size_t i = 0; rails != nullptr && i < rails->nics().size(); ++i) {
      log.print("nic", rails->nics()[i].device.description());
    }
    log.print(
        "runtime",
        fmt::format("{} PEs, heap {}, {} queues of {} WQEBBs per peer, {} beside the heap",
                    job.group.size(), format_size(config.heap_size), rails ? config.queues : 0,
                    config.queue_depth, format_size(overhead_bytes())));
  }
  if (rails != nullptr) report_nics();
  if (const Gpu* const gpu = fabric.gpu.get()) {
    log.print("gpu", fmt::format("GPU {}, {}; {}; {}", gpu->index(), gpu->name(),
                                 gpu->describe_writes(), gpu->describe_words()));
  }
  log.print("transport", fabric.ways.routes.describe());
  log.print("window", fabric.windows.describe({}));
}

void Runtime::Parts::report_nics() const {
  const Log& log = job.log;
  const Rails& rails = *fabric.ways.rails;
  const NicServices& nics = *context_parts->nic_services;
  log.print("nic", describe_rails(rails, job.config));
  if (job.group.rank() == 0) log.print("signals", rails.signal_ops().why);
  for (const IbgdaNic& nic : rails.nics()) log.print("path", nic.device.path_description());
  log.print("nic", fmt::format("heap: {}; {}", fabric.windows.describe_registration(),
                               default_context->links()->queues().describe_registration()));
  for (const Doorbell& doorbell : nics.doorbells) log.print("nic", doorbell.describe());
  if (nics.proxies.empty()) return;
  log.print("nic",
            fmt::format("CPU threads post for kernels: {} (docs/proxy.md)", nics.proxies.size()));
}

// The peers' kernels may still be using this PE's memory until they arrive here too, and this PE
// may have theirs mapped: where all leave in order nothing is released before all mappings are.
void Runtime::Parts::end(const Departure& how) {
  if (ended.exchange(true)) return;
  LiveGroup& group = job.group;
  FailureLog& failures = services->failures;
  if (how.in_order()) services->calls.finish();
  const bool reports = job.config.report_failures && how.in_order();
  const Failure untold = reports ? failures.untold() : Failure();
  if (group.lost_pes().empty()) failures.close();
  end_flight();
  if (fabric.checks) fabric.checks->warn_if_unused();
  if (how.in_order()) finish_queues();
  group.leave(how, [this] { say_who_is_missing(); });
  if (how.in_order()) {
    // While its peers' queues are there.
    if (context_parts->nic_services) context_parts->nic_services->linker.stop();
    fabric.windows.unmap();
    group.end();
  }
  if (untold.status != Status::kOk) {
    fail(ErrorCode::kSystem,
         "PE {}: nobody has asked for this failure (check(), PEAL_REPORT_FAILURES): {}",
         group.rank(), untold.text);
  }
}

void Runtime::Parts::let_go() {
  services->calls.finish();
  if (ended.exchange(true)) return;
  job.group.leave_for_rejoin();
  end_flight();
}

Runtime::Parts::~Parts() {
  process_end.reset();
  end_and_say({});
}

bool Runtime::Parts::end_and_say(const Departure& how) noexcept {
  try {
    end(how);
    return true;
  } catch (const std::exception& error) {
    job.log.warn("runtime", "at the end of the job: {}", error.what());
    return false;
  }
}

void Runtime::Parts::say_who_is_missing() const {
  std::string missing;
  for (const int pe : job.group.not_left()) {
    missing += fmt::format("{}{} (process {})", missing.empty() ? "" : ", ", pe,
                           job.group.places()[static_cast<size_t>(pe)].pid);
  }
  job.log.warn("runtime", "this PE has come to its end and waits for PE {}, which works on",
               missing);
}

// Prints and writes what the flight recorder has.
// A network may lose the word that a peer still waits for, and the NIC sends it again: nobody is to
// hear before that this PE has left. Where the GPU has failed its queues cannot be read; the peers
// are to hear all the same.
void Runtime::Parts::finish_queues() const {
  try {
    context_parts->contexts.finish_all();
  } catch (const std::exception& error) {
    job.log.warn("runtime", "what the NICs still carry is unknown: {}", error.what());
  }
}

void Runtime::Parts::end_flight() const {
  try {
    if (job.config.info && fabric.tables->recorder.on()) {
      job.log.print("counters", services->flight.describe_counters());
    }
    services->flight.write();
  } catch (const std::exception& error) {
    job.log.error("recorder", "{}", error.what());
  }
}

// The handler of the signal tells the other PEs of a kernel that crashes on a CPU. PEs of a
// simulation share a process, and end with it.
void Runtime::Parts::hear_of_process_end() {
  simt::set_pe_of_process(job.group.rank());
  if (simt::in_simulation()) return;
  process_end.emplace([this](const Departure& how) { end_and_say(how); });
  crash_notice.emplace(job.group);
  simt::set_crash_hook([](const simt::Crash& crash) { say_crash(crash.signal, crash.text); });
}

void Runtime::finalize() {
  parts().end({});  // what programs hold of it, such as contexts, is destroyed before the rest
}

// A child of fork() leaves its copy as it is.
void Runtime::leave(std::unique_ptr<Parts> ending) const noexcept {
  if (ending == nullptr) return;
  if (!ending->maker.here()) return static_cast<void>(ending.release());
  MainFrame* const frame = MainFrame::of_thread();
  if (std::uncaught_exceptions() <= exceptions_) {
    if (!ending->end_and_say({}) && frame != nullptr) frame->fail();
  } else if (frame == nullptr) {
    ending->end_and_say({Departure::How::kException, 0, text_of_current_exception()});
  } else {
    frame->keep([parts = std::shared_ptr<Parts>(std::move(ending))](const Departure& how) {
      parts->end_and_say(how);
    });
  }
}

}  // namespace peal

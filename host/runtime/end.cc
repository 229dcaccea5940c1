// SPDX-License-Identifier: Apache-2.0
//
// How a Runtime ends: by finalize(), by its destructor in order, by an exception, or with its
// process.
#include <fmt/format.h>

#include <exception>
#include <memory>
#include <utility>

#include "host/base/error.h"
#include "host/runtime.h"
#include "host/runtime/main_frame.h"
#include "host/runtime/parts.h"
#include "simt/lanes/crash.h"
#include "simt/simulation/simulation.h"

namespace peal {
namespace {

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

// SPDX-License-Identifier: Apache-2.0
//
// The one place with a process-wide runtime: C programs have nowhere to keep one. C++ programs make
// as many as they like.
#include "peal/c_api.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/immortal.h"
#include "base/of_thread.h"
#include "host/base/cuda_driver.h"
#include "host/base/error.h"
#include "peal/c_guard.h"
#include "peal/peal.h"

namespace peal::c {
namespace {

void finish();

struct Process {
  std::optional<Runtime> runtime;
  bool ended = false;  // there was one
};

// Never destroyed: destructors of a program's statics may call, and get an error. The Runtime ends
// with the process all the same.
Process& process() {
  static Immortal<Process> the_process;
  static const struct End {
    ~End() { finish(); }
  } end;
  return *the_process;
}

std::optional<Runtime>& runtime() { return process().runtime; }

void finish() {
  process().ended = process().ended || runtime();
  runtime().reset();
}

// Where kernels of a program run whose compiler did not say.
Target target_of(const Config& config) {
  if (config.target == TargetKind::kCpu) return Target::kCpu;
  if (config.target == TargetKind::kGpu) return Target::kGpu;
  const cuda::Loaded loaded = cuda::load_driver();
  int gpus = 0;
  const bool any = loaded.driver && loaded.driver->device_count(&gpus) == cuda::kSuccess;
  return any && gpus > 0 ? Target::kGpu : Target::kCpu;
}

// By name: the order of C++'s is its own.
peal_error_code_t code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return PEAL_ERROR_INVALID_ARGUMENT;
    case ErrorCode::kOutOfMemory:
      return PEAL_ERROR_OUT_OF_MEMORY;
    case ErrorCode::kUnsupported:
      return PEAL_ERROR_UNSUPPORTED;
    case ErrorCode::kConfiguration:
      return PEAL_ERROR_CONFIGURATION;
    case ErrorCode::kSystem:
      return PEAL_ERROR_SYSTEM;
    case ErrorCode::kTimeout:
      return PEAL_ERROR_TIMEOUT;
    case ErrorCode::kPeerLost:
      return PEAL_ERROR_PEER_LOST;
    case ErrorCode::kInternal:
      break;
  }
  return PEAL_ERROR_INTERNAL;
}

}  // namespace

LastError& last_error() { return of_thread<LastError, LastError>(); }

// What else throws is the library's own (simt's, of a grid that cannot run) or the system's.
LastError told(const std::exception& error) {
  const auto* const ours = dynamic_cast<const Error*>(&error);
  const bool memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  return {.text = sentence(error.what()),
          .code = ours != nullptr ? code_of(ours->code())
                  : memory        ? PEAL_ERROR_OUT_OF_MEMORY
                                  : PEAL_ERROR_SYSTEM};
}

void require_place(const char* call, const char* argument, const void* place) {
  if (place != nullptr) return;
  fail(ErrorCode::kInvalidArgument, "{}: {} is NULL: the answer has no place to go to", call,
       argument);
}

namespace {

constinit thread_local std::string_view call_of_thread;

// Remedies name what a program of C has.
constexpr Renamed kNames[] = {
    {"Runtime::malloc", "peal_malloc"},
    {"Runtime::register_window", "peal_register_window"},
    {"Runtime::register_local", "peal_register_local"},
    {", or pass Runtime::rejoin() a group", ""},
    {"call rejoin() again, with keep_heap as before", "call peal_rejoin_keeping_heap() again"},
    {"call rejoin()", "call peal_rejoin()"},
    {"rejoin without keeping the heaps", "call peal_rejoin()"}};

}  // namespace

void begin_call() { call_of_thread = {}; }

// "put: ..." of peal_put_on_stream is "peal_put_on_stream: ...".
std::string sentence(const char* what) {
  constexpr std::string_view kPrefix = "peal_";
  constexpr std::string_view kOnStream = "_on_stream";
  const std::string text = renamed(what, kNames);
  const std::string_view call = call_of_thread;
  if (call.empty() || text.starts_with(call)) return text;
  std::string_view plain = call.substr(kPrefix.size());
  if (plain.ends_with(kOnStream)) plain.remove_suffix(kOnStream.size());
  const bool named = text.starts_with(plain) && text.size() > plain.size() &&
                     (text[plain.size()] == ':' || text[plain.size()] == '(');
  if (named) return std::string(call) + text.substr(plain.size());
  return fmt::format("{}: {}", call, text);
}

namespace {

// Which may be between a rejoin() that failed and the next.
Runtime& begun(const char* call) {
  call_of_thread = call;
  if (!runtime()) {
    fail(ErrorCode::kInvalidArgument, "{}: {}", call,
         process().ended ? "this PE has ended: by peal_finalize(), or with the process"
                         : "call peal_init() first");
  }
  return *runtime();
}

}  // namespace

Runtime& initialised(const char* call) {
  begun(call).require(call);
  return *runtime();
}

}  // namespace peal::c

using peal::c::done;
using peal::c::guarded;
using peal::c::initialised;
using peal::c::runtime;

peal::Runtime* peal_runtime() { return runtime() ? &*runtime() : nullptr; }

int peal_init() {
  return guarded(-1, [] {
    if (runtime()) {
      runtime()->require("peal_init");
      peal::fail(peal::ErrorCode::kInvalidArgument,
                 "peal_init: called twice without peal_finalize()");
    }
    const peal::Config config = peal::Config::from_environment(environ);
    runtime().emplace(peal::start(config, peal::c::target_of(config)));
    return 0;
  });
}

int peal_finalize() {
  return guarded(-1, [] {
    peal::Runtime ending = std::move(initialised("peal_finalize"));
    peal::c::finish();
    ending.finalize();
    return 0;
  });
}

// The Runtime is destroyed while an exception is on its way, which is how it leaves in a hurry; the
// text that the others are told is that of the one being handled.
int peal_leave(const char* reason) {
  return guarded(-1, [&] {
    initialised("peal_leave");
    try {
      throw std::runtime_error(reason == nullptr ? "peal_leave" : reason);
    } catch (const std::runtime_error&) {
      try {
        const peal::Runtime ending = std::move(*runtime());
        peal::c::finish();
        throw;
      } catch (const std::runtime_error&) {
        return 0;
      }
    }
  });
}

int peal_abort(const char* reason) {
  return done("peal_abort",
              [&](peal::Runtime& pe) { pe.abort(reason == nullptr ? "peal_abort" : reason); });
}

int peal_my_pe() {
  return guarded(-1, [] { return initialised("peal_my_pe").my_pe(); });
}

int peal_n_pes() {
  return guarded(-1, [] { return initialised("peal_n_pes").n_pes(); });
}

int peal_rejoin() {
  return guarded(-1, [] {
    peal::rejoin(peal::c::begun("peal_rejoin"));
    return 0;
  });
}

int peal_rejoin_keeping_heap() {
  return guarded(-1, [] {
    peal::rejoin(peal::c::begun("peal_rejoin_keeping_heap"), {.keep_heap = true});
    return 0;
  });
}

void* peal_block(size_t number, size_t* bytes) {
  return guarded(static_cast<void*>(nullptr), [&]() -> void* {
    const std::vector<peal::HeapBlock> blocks = initialised("peal_block").blocks();
    if (number >= blocks.size()) return nullptr;
    if (bytes != nullptr) *bytes = blocks[number].bytes;
    return blocks[number].address;
  });
}

long long peal_epoch() {
  return guarded(-1LL, [] { return static_cast<long long>(initialised("peal_epoch").epoch()); });
}

void* peal_malloc(size_t bytes) {
  return guarded(nullptr, [&] { return initialised("peal_malloc").malloc(bytes); });
}

void* peal_calloc(size_t count, size_t bytes) {
  return guarded(nullptr, [&] { return initialised("peal_calloc").calloc(count, bytes); });
}

void* peal_align(size_t alignment, size_t bytes) {
  return guarded(nullptr, [&] { return initialised("peal_align").align(alignment, bytes); });
}

void* peal_calloc_host(size_t count, size_t bytes) {
  return guarded(nullptr, [&] {
    return initialised("peal_calloc_host").calloc(count, bytes, peal::HeapKind::kHost);
  });
}

int peal_free(void* pointer) {
  return done("peal_free", [&](peal::Runtime& pe) { pe.free(pointer); });
}

void* peal_ptr(const void* symmetric, int pe) {
  return guarded(nullptr, [&] { return initialised("peal_ptr").ptr(symmetric, pe); });
}

int peal_barrier() {
  return done("peal_barrier", [](peal::Runtime& pe) { pe.barrier(); });
}

int peal_context(void* context, size_t bytes, unsigned version) {
  return guarded(-1, [&] {
    peal::c::require_place("peal_context", "context", context);
    const peal::Context value = initialised("peal_context").context();
    if (version != peal::kContextVersion || bytes != sizeof value) {
      peal::fail(peal::ErrorCode::kUnsupported,
                 "peal_context: the kernel was compiled for contexts of version {}, {} bytes; the "
                 "library makes version {}, {} bytes: compile it with this library's headers",
                 version, bytes, peal::kContextVersion, sizeof value);
    }
    std::memcpy(context, &value, sizeof value);
    return 0;
  });
}

int peal_check() {
  return done("peal_check", [](peal::Runtime& pe) { pe.check(); });
}

const char* peal_dump() {
  thread_local std::string told;
  return guarded(static_cast<const char*>(nullptr), [] {
    told = initialised("peal_dump").dump();
    return told.c_str();
  });
}

const char* peal_error() { return peal::c::last_error().text.c_str(); }

peal_error_code_t peal_error_code() { return peal::c::last_error().code; }

// SPDX-License-Identifier: Apache-2.0
//
// The one place with a process-wide runtime: C programs have nowhere to keep one. C++ programs make
// as many as they like.
#include "peal/c_api.h"

#include <optional>
#include <string>

#include "host/base/error.h"
#include "peal/peal.h"

namespace {

std::optional<peal::Runtime>& runtime() {
  static std::optional<peal::Runtime> the_runtime;
  return the_runtime;
}

thread_local std::string last_error;

/// Runs `body`; an exception becomes `on_error` and peal_error()'s text.
template <class Body>
auto guarded(decltype(std::declval<Body>()()) on_error, const Body& body) -> decltype(body()) {
  last_error.clear();
  try {
    return body();
  } catch (const std::exception& error) {
    last_error = error.what();
    return on_error;
  }
}

peal::Runtime& initialised(const char* call) {
  if (!runtime()) {
    peal::fail(peal::ErrorCode::kInvalidArgument, "{}: call peal_init() first", call);
  }
  return *runtime();
}

int initialise(peal::Target target) {
  return guarded(-1, [target] {
    if (runtime()) {
      peal::fail(peal::ErrorCode::kInvalidArgument,
                 "peal_init: called twice without peal_finalize()");
    }
    runtime().emplace(peal::start(target));
    return 0;
  });
}

}  // namespace

peal::Runtime* peal_runtime() { return runtime() ? &*runtime() : nullptr; }

int peal_init() { return initialise(peal::Target::kCpu); }

int peal_init_gpu() { return initialise(peal::Target::kGpu); }

int peal_finalize() {
  return guarded(-1, [] {
    initialised("peal_finalize");
    runtime().reset();
    return 0;
  });
}

int peal_my_pe() {
  return guarded(-1, [] { return initialised("peal_my_pe").my_pe(); });
}

int peal_n_pes() {
  return guarded(-1, [] { return initialised("peal_n_pes").n_pes(); });
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

int peal_free(void* pointer) {
  return guarded(-1, [&] {
    initialised("peal_free").free(pointer);
    return 0;
  });
}

int peal_barrier() {
  return guarded(-1, [] {
    initialised("peal_barrier").barrier();
    return 0;
  });
}

int peal_check() {
  return guarded(-1, [] {
    initialised("peal_check").check();
    return 0;
  });
}

const char* peal_error() { return last_error.c_str(); }

// SPDX-License-Identifier: Apache-2.0
//
// Calls of the host, made of peal's own.
#include "compat/detail/pe.h"
#include "host/base/error.h"

namespace peal::compat {
namespace {

// Where the runtime makes the call.
detail::CallSite place_of(Pe& pe, const HostCallSite& site) {
  switch (site.when) {
    case HostCallSite::When::kNow:
      return pe.runtime().host().site();
    case HostCallSite::When::kLater:
      return pe.runtime().host_nbi().site();
    case HostCallSite::When::kInOrder:
      break;
  }
  return pe.runtime().on(stream_of(site.stream)).site();
}

// `start` gives the calls to a place.
template <class Start>
int start_at(const HostCallSite& site, const Start& start) {
  return code_of(site.call, [&](Pe& pe) {
    const detail::CallSite place = place_of(pe, site);
    start(pe, place);
    if (site.when == HostCallSite::When::kNow) CallTicket(place).wait();
  });
}

void check_spread(const char* which, ptrdiff_t stride, uint64_t bytes, size_t count) {
  const auto forwards = static_cast<uint64_t>(stride);
  const uint64_t apart = stride < 0 ? 0 - forwards : forwards;
  if (count == 0 || scaled(count - 1, scaled(apart, bytes)) <= kEndless / 2) return;
  fail(ErrorCode::kInvalidArgument,
       "{} elements of {} bytes with a stride of {} at {}: more bytes than there are addresses",
       count, bytes, stride, which);
}

}  // namespace

int make(const HostCallSite& site, const kernels::TransferArguments& call) {
  return start_at(site, [&](Pe&, const detail::CallSite& at) { detail::start(at, call); });
}

int make(const HostCallSite& site, const kernels::Word& call) {
  const int failed =
      start_at(site, [&](Pe&, const detail::CallSite& at) { detail::start(at, call); });
  const bool at_once = site.when == HostCallSite::When::kNow;
  if (is_of_all(call.caller.call) && at_once) tell_of_kernels(site.call);
  return failed;
}

int make(const HostCallSite& site, nvshmem_team_t team, const kernels::Collective& call) {
  return start_at(
      site, [&](Pe& pe, const detail::CallSite& at) { detail::start(at, pe.team(team), call); });
}

// One by one: what a host calls has no strides.
int make(const HostCallSite& site, const kernels::TransferArguments& first, const Strides& strides,
         size_t count) {
  return start_at(site, [&](Pe&, const detail::CallSite& at) {
    check_spread("dst", strides.dst, first.bytes, count);
    check_spread("src", strides.src, first.bytes, count);
    const auto bytes = static_cast<ptrdiff_t>(first.bytes);
    kernels::TransferArguments each = first;
    for (size_t i = 0; i < count; ++i) {
      detail::start(at, each);
      each.dst += strides.dst * bytes;
      each.src += strides.src * bytes;
    }
  });
}

int make(const HostCallSite& site, const kernels::Word& first, size_t count, const int* status) {
  return start_at(site, [&](Pe&, const detail::CallSite& at) {
    if (status != nullptr) {
      fail(ErrorCode::kUnsupported, "status must be null: the host may not be able to read it");
    }
    kernels::Word each = first;
    for (size_t i = 0; i < count; ++i) {
      detail::start(at, each);
      each.word = static_cast<std::byte*>(each.word) + each.bytes;
    }
  });
}

uint64_t fetch(const HostCallSite& site, const kernels::Word& call) {
  return on_host(site.call, [&](Pe& pe) {
    if (site.when == HostCallSite::When::kInOrder) CallTicket(place_of(pe, site)).wait();
    return detail::fetch(place_of(pe, now(site.call)), call);
  });
}

void* address_at(const char* call, const void* symmetric, int pe) {
  return on_host(call, [&](Pe& mine) { return mine.runtime().ptr(symmetric, pe); });
}

}  // namespace peal::compat

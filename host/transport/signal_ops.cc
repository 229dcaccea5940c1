// SPDX-License-Identifier: Apache-2.0
#include "host/transport/signal_ops.h"

#include <fmt/format.h>

#include <algorithm>

#include "host/base/error.h"

namespace peal {
namespace {

bool orders_less(const PlacementOffer& a, const PlacementOffer& b) {
  return nic::placement_of(a.facts) < nic::placement_of(b.facts);
}

nic::AtomicOrder atomics_of(const PlacementOffer& offer) { return offer.facts.atomics; }

}  // namespace

PlacementOffer least_ordered(const std::vector<PlacementOffer>& nics) {
  PlacementOffer least = *std::ranges::min_element(nics, orders_less);
  least.facts.atomics = std::ranges::max_element(nics, {}, atomics_of)->facts.atomics;
  return least;
}

SignalOps choose_signal_ops(SignalOpsSetting asked, const std::vector<PlacementOffer>& offers) {
  const auto least = std::ranges::min_element(offers, orders_less);
  const nic::Placement placement = nic::placement_of(least->facts);
  const std::string reason = fmt::format("{} of PE {} {}", least->nic, least - offers.begin(),
                                         nic::describe_placement(least->facts));
  SignalOps ops;
  ops.in_order = placement == nic::Placement::kInOrder;
  const auto loosest = std::ranges::max_element(offers, {}, atomics_of);
  const std::string loose = nic::describe_atomics(loosest->facts);
  // Signal::add is an atomic in any case.
  ops.waits =
      asked == SignalOpsSetting::kStrong || (asked != SignalOpsSetting::kAtomic && !loose.empty());
  ops.atomic = asked == SignalOpsSetting::kAtomic || asked == SignalOpsSetting::kStrong ||
               (asked == SignalOpsSetting::kAuto && !ops.in_order);
  if (asked == SignalOpsSetting::kWrite && !ops.in_order) {
    if (placement == nic::Placement::kAny) {
      fail(ErrorCode::kConfiguration,
           "PEAL_SIGNAL_OPS=write: {}: a signal could be seen before its data; auto, atomic and "
           "strong send signals as atomics",
           reason);
    }
    ops.forced = ops.in_order = true;
  }
  ops.why = fmt::format("set by {}{}: {}", ops.atomic ? "8-byte swaps" : "WRITEs",
                        ops.forced ? ", order forced" : "", reason);
  if (ops.waits) ops.why += "; atomics wait for what is ahead of them";
  if (!loose.empty()) {
    ops.why += fmt::format("{} PE {}: {}", ops.waits ? ", as on" : "; but on",
                           loosest - offers.begin(), loose);
  }
  return ops;
}

}  // namespace peal

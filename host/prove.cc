// SPDX-License-Identifier: Apache-2.0
//
// The self-test of a context's queues, and what is said when one fails: on all PEs the same, with
// both ends of the path, so that one log is enough to know where to look.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/error.h"
#include "host/runtime_state.h"
#include "host/transport/connection.h"

namespace peal {
namespace {

// Of the bootstrap's deadline: the rest is for telling the others.
constexpr int kShareOfDeadline = 4;

constexpr int kNoFailure = 100;  // further from a cause than any

using Text = std::array<char, 1024>;

Text text_of(std::string_view words) {
  Text text{};
  words.substr(0, text.size() - 1).copy(text.data(), text.size() - 1);
  return text;
}

// "host n17, mlx5_0: InfiniBand, LID 5, GID fe80::2, MTU 4096".
std::string this_end(const Rails& rails) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::string text = fmt::format("host {}", host.data());
  for (const IbgdaNic& nic : rails.nics()) {
    const Endpoint end = endpoint_of(nic.device, 0);
    text +=
        fmt::format(", {}: {}{}", nic.device.name(), describe(end),
                    end.link_layer == nic::LinkLayer::kInfiniBand ? ", GID " + end.gid.text() : "");
  }
  return text;
}

// `ends` by PE: what each says of itself.
std::string describe(const std::vector<SelfTestResult>& failed, size_t me,
                     const std::vector<Text>& ends) {
  const SelfTestResult& first = failed.front();
  return fmt::format(
      "self-test: PE {} ({}): queue {} to PE {} ({}): {}; {} of its queues failed. PEAL_SELF_TEST="
      "off starts without this test",
      me, ends[me].data(), first.index / ends.size(), first.peer, ends[first.peer].data(),
      explain(first), failed.size());
}

}  // namespace

Queues::ProvingGround Runtime::State::proving_ground() const {
  DeviceTables::HeapKeys keys = tables.heap_keys();
  return {.cells = heap.offset_of(test_cells),
          .pe = static_cast<uint32_t>(bootstrap->rank()),
          .rkeys = std::move(keys.payload),
          .word_rkeys = std::move(keys.words)};
}

std::vector<SelfTestResult> Runtime::State::prove_here(Queues& queues,
                                                       const std::vector<uint8_t>& chosen,
                                                       std::chrono::nanoseconds deadline,
                                                       const std::function<bool()>& give_up) {
  // The cells are this PE's, and there is one set of them.
  const std::lock_guard lock(proving_mutex);
  return queues.prove(proving_ground(), chosen, ++proofs, deadline, give_up);
}

std::chrono::nanoseconds Runtime::State::time_to_prove() const {
  return config.bootstrap_timeout * (kShareOfDeadline - 1) / kShareOfDeadline;
}

std::string Runtime::State::describe_failed(const Queues& queues,
                                            const std::vector<SelfTestResult>& failed) const {
  // Of the other end no more is known here than the way to it.
  std::vector<Text> ends(static_cast<size_t>(bootstrap->size()));
  const SelfTestResult& first = failed.front();
  ends[first.peer] = text_of(queues.describe_way(first.index));
  const auto me = static_cast<size_t>(bootstrap->rank());
  ends[me] = text_of(this_end(*rails));
  return describe(failed, me, ends);
}

void Runtime::State::prove(Queues& queues, const std::vector<uint8_t>& chosen) {
  const auto failed = prove_here(queues, chosen, time_to_prove());
  const std::vector<int> distances =
      gather(*bootstrap, failed.empty() ? kNoFailure : distance_from_cause(failed.front()));
  const auto good = static_cast<size_t>(std::ranges::count(distances, kNoFailure));
  if (good == distances.size()) return;
  const std::vector<Text> ends = gather(*bootstrap, text_of(this_end(*rails)));
  const auto me = static_cast<size_t>(bootstrap->rank());
  const std::string mine = failed.empty() ? "" : describe(failed, me, ends);
  const std::vector<Text> texts = gather(*bootstrap, text_of(mine));
  const auto first = static_cast<size_t>(std::ranges::min_element(distances) - distances.begin());
  fail(ErrorCode::kSystem, "{} ({} of {} PEs have such queues)", texts[first].data(),
       distances.size() - good, distances.size());
}

}  // namespace peal

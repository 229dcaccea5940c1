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

std::string describe(const std::vector<SelfTestResult>& failed, const std::vector<Text>& ends,
                     size_t me) {
  if (failed.empty()) return "";
  const SelfTestResult& first = failed.front();
  return fmt::format(
      "self-test: PE {} ({}): queue {} to PE {} ({}): {}; {} of its queues failed. PEAL_SELF_TEST="
      "off starts without this test",
      me, ends[me].data(), first.index / ends.size(), first.peer, ends[first.peer].data(),
      explain(first), failed.size());
}

}  // namespace

void Runtime::State::prove(Queues& queues, uint64_t serial) {
  DeviceTables::HeapKeys keys = tables.heap_keys();
  Queues::ProvingGround ground{.cells = heap.offset_of(test_cells),
                               .pe = static_cast<uint32_t>(bootstrap->rank()),
                               .rkeys = std::move(keys.payload),
                               .word_rkeys = std::move(keys.words),
                               .absent = {}};
  ground.absent.resize(static_cast<size_t>(bootstrap->size()));
  for (const int pe : bootstrap->masked_pes()) ground.absent[static_cast<size_t>(pe)] = 1;
  const auto failed =
      queues.prove(ground, static_cast<uint32_t>(serial),
                   config.bootstrap_timeout * (kShareOfDeadline - 1) / kShareOfDeadline);
  const std::vector<int> distances =
      gather(*bootstrap, failed.empty() ? kNoFailure : distance_from_cause(failed.front()));
  const auto good = static_cast<size_t>(std::ranges::count(distances, kNoFailure));
  if (good == distances.size()) return;
  const std::vector<Text> ends = gather(*bootstrap, text_of(this_end(*rails)));
  const std::vector<Text> texts =
      gather(*bootstrap, text_of(describe(failed, ends, static_cast<size_t>(bootstrap->rank()))));
  const auto first = static_cast<size_t>(std::ranges::min_element(distances) - distances.begin());
  fail(ErrorCode::kSystem, "{} ({} of {} PEs have such queues)", texts[first].data(),
       distances.size() - good, distances.size());
}

}  // namespace peal

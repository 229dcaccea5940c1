// SPDX-License-Identifier: Apache-2.0
#include "host/base/algorithm_names.h"

#include <fmt/format.h>

#include <iterator>
#include <vector>

#include "device/shared/call_names.h"

namespace peal {

using collective::Algorithm;
using collective::AlgorithmRow;
using collective::ForcedAlgorithm;
using collective::kAlgorithms;
using collective::Need;

namespace {

struct AlgorithmWords {
  Algorithm algorithm;
  const char* name;
  const char* does;
};

constexpr AlgorithmWords kWords[] = {
    {Algorithm::kAny, "", ""},
    {Algorithm::kExchange, "exchange",
     "each 8 bytes travel as a line that carries its own number: no flag, no fence, no meeting"},
    {Algorithm::kFetch, "fetch", "each member but the root fetches the message from the root"},
    {Algorithm::kRelay, "relay",
     "each member but the root fetches a share from the root and stores it at all the others: no "
     "link carries the message twice"},
    {Algorithm::kSwap, "swap", "of two members each lets one half of their blocks change places"},
    {Algorithm::kStore, "store", "each stores to all"},
    {Algorithm::kShares, "shares",
     "each member reads its share of the elements everywhere and stores the result where it is "
     "wanted"},
    {Algorithm::kBruck, "bruck",
     "one meeting carries the blocks of all to all; each member makes its result of them"},
    {Algorithm::kScatter, "scatter",
     "the root puts a share to each member, which puts it to the others"},
    {Algorithm::kStage, "stage",
     "pieces are fetched into the workspace, combined there, and put from there"},
    {Algorithm::kInDestination, "in_destination",
     "shares are put to their owners, into `dst`, and come back as results"},
    {Algorithm::kPut, "put", "each puts to all"},
};
constexpr bool in_order() {
  for (size_t i = 0; i < std::size(kWords); ++i) {
    if (kWords[i].algorithm != static_cast<Algorithm>(i)) return false;
  }
  return std::size(kWords) == static_cast<size_t>(Algorithm::kCount);
}
static_assert(in_order());

constexpr const char* kUnset = "unset PEAL_ALGORITHM";

// In the order of Need: the words of bit i are entry i.
constexpr NeedWords kNeedWords[] = {
    {"all mapped", "leave PEAL_TRANSPORT at auto, or make a team by split_node_team"},
    {"some by the NIC only", "force an algorithm for mapped members, or set PEAL_TRANSPORT=ibgda"},
    {"called in a kernel", "call from a kernel, or unset PEAL_ALGORITHM"},
    {"in place", kUnset},
    {"not in place", "give another dst than src, or unset PEAL_ALGORITHM"},
    {"message up to W / 4n",
     "make the team with a larger TeamOptions::workspace (of calls from the "
     "host grid_workspace), or unset PEAL_ALGORITHM"},
    {"NICs' writes shown in order (Hopper or newer)", kUnset},
    {"what a member gives up to W / 2n, of `broadcast` W / 2",
     "make the team with a larger TeamOptions::workspace, or unset PEAL_ALGORITHM"},
    {"room in `dst` for the shares of all other members",
     "reduce more elements than members, or unset PEAL_ALGORITHM"},
    {"up to 2 members", kUnset},
    {"2 members or more", kUnset},
    {"shares longer than W / n", kUnset},
};
static_assert(1u << (std::size(kNeedWords) - 1) == collective::kLastNeed);

std::string join(std::string_view between, const auto& all) {
  return fmt::format("{}", fmt::join(all, between));
}

std::vector<std::string> words_of_all(uint32_t needs) {
  std::vector<std::string> all;
  for (uint32_t bit = 1; bit <= collective::kLastNeed; bit <<= 1) {
    if ((needs & bit) != 0) all.emplace_back(words_of(static_cast<Need>(bit)).text);
  }
  return all;
}

template <class Visit>
void each_call(const Visit& visit) {
  for (auto call = Call::kSync; call < Call::kCount;
       call = static_cast<Call>(static_cast<uint8_t>(call) + 1)) {
    visit(call);
  }
}

}  // namespace

const char* to_string(Algorithm algorithm) {
  return kWords[algorithm < Algorithm::kCount ? static_cast<size_t>(algorithm) : 0].name;
}

const char* what_it_does(Algorithm algorithm) {
  return kWords[algorithm < Algorithm::kCount ? static_cast<size_t>(algorithm) : 0].does;
}

NeedWords words_of(Need need) {
  size_t number = 0;
  while (number + 1 < std::size(kNeedWords) && (need >> number & 1u) == 0) ++number;
  return kNeedWords[number];
}

std::string to_string(const ForcedAlgorithm& forced) {
  return fmt::format("{}:{}", to_string(forced.call), to_string(forced.algorithm));
}

ForcedAlgorithm forced_algorithm(std::string_view text) {
  ForcedAlgorithm found;
  for (const AlgorithmRow& row : kAlgorithms) {
    each_call([&](Call call) {
      const ForcedAlgorithm one{call, row.algorithm};
      if ((row.calls & collective::bit_of(call)) != 0 && to_string(one) == text) found = one;
    });
  }
  return found;
}

std::string all_algorithms() {
  std::vector<std::string> calls;
  each_call([&](Call call) {
    std::vector<std::string> names;
    for (const AlgorithmRow& row : kAlgorithms) {
      if ((row.calls & collective::bit_of(call)) != 0) names.emplace_back(to_string(row.algorithm));
    }
    if (!names.empty()) calls.push_back(fmt::format("{}:{}", to_string(call), join("|", names)));
  });
  return join(", ", calls);
}

std::string table_of_algorithms() {
  std::string table = "| algorithm | of | needs | taken where | how |\n|---|---|---|---|---|\n";
  for (const AlgorithmRow& row : kAlgorithms) {
    std::vector<std::string> calls;
    each_call([&](Call call) {
      if ((row.calls & collective::bit_of(call)) != 0) {
        calls.push_back(fmt::format("`{}`", to_string(call)));
      }
    });
    const std::string of = row.calls == collective::rows::kShort        ? "all but `all_to_all_v`"
                           : row.calls == collective::rows::kReductions ? "reductions, scans"
                                                                        : join(", ", calls);
    table += fmt::format("| `{}` | {} | {} | {} | {} |\n", to_string(row.algorithm), of,
                         join("; ", words_of_all(row.needs)), join("; ", words_of_all(row.best)),
                         what_it_does(row.algorithm));
  }
  return table;
}

}  // namespace peal

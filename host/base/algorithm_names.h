// SPDX-License-Identifier: Apache-2.0
//
// The algorithms of collective calls in words, for settings, errors and docs/collectives.md: their
// names, what they do, what they need, and what helps where that is not so.
#pragma once

#include <string>
#include <string_view>

#include "device/shared/algorithms.h"

namespace peal {

/// "relay"; empty of kAny.
const char* to_string(collective::Algorithm algorithm);
/// "each member but the root fetches a share from the root and stores it at all others".
const char* what_it_does(collective::Algorithm algorithm);

/// A need in words: "all members are mapped", and what to do where it is not met.
struct NeedWords {
  const char* text;
  const char* remedy;
};
NeedWords words_of(collective::Need need);

/// "all_reduce:stage"
std::string to_string(const collective::ForcedAlgorithm& forced);
/// The algorithm that a text such as "all_reduce:stage" names; kAny if it names none.
collective::ForcedAlgorithm forced_algorithm(std::string_view text);
/// "broadcast:exchange|fetch|relay|bruck|scatter, all_gather:..."
std::string all_algorithms();

/// The table of docs/collectives.md, in Markdown.
std::string table_of_algorithms();

}  // namespace peal

// SPDX-License-Identifier: Apache-2.0
#include "host/job/same_build.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/host_name.h"
#include "host/base/error.h"

namespace peal {
namespace {

template <size_t N>
void put_text(std::array<char, N>& field, std::string_view text) {
  text.copy(field.data(), N - 1);
}

// Another build's text may be anything: bytes that cannot be printed become question marks.
template <size_t N>
std::string shown(const std::array<char, N>& field) {
  std::string text(field.begin(), std::ranges::find(field, '\0'));
  std::ranges::replace_if(
      text, [](char letter) { return letter < ' ' || letter > '~'; }, '?');
  return text;
}

}  // namespace

Build Build::here() {
  utsname machine{};
  if (::uname(&machine) != 0) machine = {};
  const char* const order =
      std::endian::native == std::endian::little ? "little endian" : "big endian";
  Build mine;
  put_text(mine.identity, fmt::format("peal {}, protocol {}, {}, {} bits, {}", PEAL_VERSION,
                                      kProtocol, machine.machine, 8 * sizeof(void*), order));
  put_text(mine.host, host_name());
  return mine;
}

std::vector<std::string> require_same_build(Bootstrap& group, const Build& mine) {
  const std::vector<Build> all = gather(group, mine);
  const auto differs = [&all](const Build& one) { return one.identity != all[0].identity; };
  const auto other = std::ranges::find_if(all, differs);
  if (other == all.end()) {
    std::vector<std::string> hosts;
    for (const Build& one : all) hosts.push_back(shown(one.host));
    return hosts;
  }
  const auto count = std::ranges::count_if(all, differs);
  fail(ErrorCode::kConfiguration,
       "PE {} on {} runs {}; PE 0 on {} runs {}{}: install one build of peal on all hosts of the "
       "job, and start programs that were built with it",
       other - all.begin(), shown(other->host), shown(other->identity), shown(all[0].host),
       shown(all[0].identity),
       count == 1 ? "" : fmt::format(" ({} of {} PEs have another than PE 0)", count, all.size()));
}

}  // namespace peal

// SPDX-License-Identifier: Apache-2.0
//
// PEs inside this process: one alone, or one per thread. See processes.cc for forked ones.
#include <fmt/format.h>

#include <optional>
#include <thread>
#include <utility>

#include "bootstrap/bootstraps.h"
#include "bootstrap/star.h"
#include "bootstrap/stream_wire.h"

namespace peal::bootstrap {
namespace {

std::optional<Error> run_rank(std::vector<Fd> links, int rank,
                              const std::function<void(Bootstrap&)>& body, Deadline deadline) {
  try {
    Star star(make_stream_wire(rank, std::move(links)), deadline);
    body(star);
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(ErrorCode::kPeerLost, error.what());
  } catch (...) {
    return Error(ErrorCode::kPeerLost, "threw something that is not a std::exception");
  }
}

}  // namespace

std::unique_ptr<Bootstrap> make_single() {
  return std::make_unique<Star>(make_stream_wire(0, std::vector<Fd>(1)), kDefaultDeadline);
}

void run_threads(int count, const std::function<void(Bootstrap&)>& body, Deadline deadline) {
  check_deadline(deadline);
  std::vector<std::vector<Fd>> links = connect_locally(count);
  std::vector<std::optional<Error>> errors(links.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < links.size(); ++r) {
      threads.emplace_back([&errors, &body, deadline, r, mine = std::move(links[r])]() mutable {
        errors[r] = run_rank(std::move(mine), static_cast<int>(r), body, deadline);
      });
    }
  }
  // Where one rank failed the others lost it: the first that says anything else is the cause.
  std::optional<ErrorCode> code;
  std::string text;
  for (std::size_t r = 0; r < errors.size(); ++r) {
    if (!errors[r]) continue;
    if (!code || *code == ErrorCode::kPeerLost) code = errors[r]->code();
    text +=
        fmt::format("{}rank {} of {}: {}", text.empty() ? "" : "; ", r, count, errors[r]->what());
  }
  if (code) throw Error(*code, text);
}

}  // namespace peal::bootstrap

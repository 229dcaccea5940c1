// SPDX-License-Identifier: Apache-2.0
//
// What peal asks of whoever started the job: who am I, how many are we, exchange a few bytes, wait
// for one another. Implemented in bootstrap/ (mpi, tcp, local) or by the user; host/ knows only
// this page.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace peal {

/// A group of processes (or threads) that start a job together. All calls but rank() and size() are
/// collective, where they do not say otherwise.
///
/// Every collective call ends: with success, or by throwing peal::Error(ErrorCode::kTimeout or
/// kPeerLost) that names the ranks which did not come. After a throw the group is broken and every
/// later call throws.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  /// This process' number, 0 to size() - 1.
  virtual int rank() const = 0;
  /// How many start the job together.
  virtual int size() const = 0;

  /// What the collective calls from now on are part of ("register_window"), for errors; "" ends it.
  /// Ranks in calls of different names are told so, and the group is broken; but where the names
  /// differ behind a colon only ("heap:free"), the callers themselves must see it. Errors leave out
  /// what a colon ends. Not collective. By default nothing: errors tell of the exchanges
  /// themselves.
  virtual void name_calls([[maybe_unused]] std::string_view name) {}

  /// What the rank's hosts call themselves, by rank, for errors from now on: "rank 2 of 3 on
  /// node2". Not collective. By default nothing: errors tell ranks alone.
  virtual void name_hosts([[maybe_unused]] std::vector<std::string> hosts) {}

  /// Gathers `mine` from every rank into `all`, in rank order. all.size() == size() * mine.size(),
  /// equal on all ranks.
  virtual void allgather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;

  /// Returns once every rank has entered.
  virtual void barrier() = 0;

  /// Returns once every rank has come to its end. While one is in another call, both throw
  /// kPeerLost: leaving is not taken for meeting. `go_on`, where there is one, is asked each time
  /// that the deadline has passed, and a rank that it answers true for waits on. By default a
  /// barrier, which has its deadline and cannot tell leaving from meeting.
  virtual void end([[maybe_unused]] const std::function<bool()>& go_on = {}) { barrier(); }

  /// Leaves without the others, and does not wait for them: collective calls that they are in, or
  /// make later, throw kPeerLost with `how` ("called exit(3)"). The last call. By default nothing:
  /// they find out as they do of a rank that has died.
  virtual void quit([[maybe_unused]] const std::string& how) noexcept {}

  /// By rank, a socket that hangs up when that rank's process ends, if not before; -1 where there
  /// is none. To be polled for that alone. It stays open as long as this object is there: the
  /// number of one that is closed may become another descriptor's. Not collective. By default there
  /// are none.
  virtual std::vector<int> connections() const { return {}; }

  /// Ends the job on all ranks as far as the launcher can; prints `reason`. Does not return.
  [[noreturn]] virtual void abort(const std::string& reason) = 0;
};

/// Every rank's `mine`, by rank. Collective.
template <class T>
std::vector<T> gather(Bootstrap& bootstrap, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<size_t>(bootstrap.size()));
  bootstrap.allgather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

}  // namespace peal

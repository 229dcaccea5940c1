// SPDX-License-Identifier: Apache-2.0
//
// How the PEs of a job find each other: one PE alone, Open MPI, TCP with a unique id, threads or
// forked processes.
//
//   make_single   make_mpi   make_tcp   run_threads   run_processes     ->     peal::Bootstrap
//   launch.h chooses one of them by the environment, or one of other launchers' (launchers.h)
//
// All are one star through rank 0 (star.h) over different wires (wire.h). Every call ends within
// its deadline.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/internet.h"
#include "host/bootstrap.h"

namespace peal::bootstrap {

/// How long one collective call may wait for the other ranks; between 1 ms and 7 days, anything
/// else is an error.
using Deadline = std::chrono::milliseconds;

inline constexpr Deadline kDefaultDeadline{30'000};

/// A job of one PE.
std::unique_ptr<Bootstrap> make_single();

/// A job started by mpirun, over *mpi_comm (a const MPI_Comm*), or over MPI_COMM_WORLD when null.
///
/// Initialises MPI when the caller has not, and then finalizes it in the destructor. Creation and
/// destruction are collective and take at most two deadlines. A caller who initialised MPI with
/// less than MPI_THREAD_SERIALIZED makes all calls from its main thread. The communicator is
/// duplicated: the caller may free its own. `plugin` is the path of libpeal_mpi.so; empty:
/// `bootstrap/libpeal_mpi.so` or `libpeal_mpi.so` in the program's folder or up to four folders
/// above it. Throws kConfiguration when there is none, kTimeout or kPeerLost when a rank does not
/// come.
std::unique_ptr<Bootstrap> make_mpi(const void* mpi_comm, Deadline deadline,
                                    const std::string& plugin = "");

struct CommRank {
  int rank;
  int size;
};
/// This process's rank in *mpi_comm, and how many there are. The program has initialised MPI; then
/// the call is not collective. Throws as make_mpi() does, which knows `plugin`.
CommRank rank_in_mpi(const void* mpi_comm, const std::string& plugin);

/// What a rank needs to join a TCP job: where rank 0 listens, and the secret that admits to this
/// job only.
///
/// The secret keeps strangers and other jobs out, and never travels: both ends of a connection
/// prove that they know it. What follows is neither encrypted nor signed: it does not protect from
/// someone who can change what is on its way.
struct UniqueId {
  std::array<std::byte, 16> secret{};
  InternetAddress address{};
  std::uint16_t port = 0;

  /// 44 hexadecimal digits, 68 with an address of IPv6.
  std::string to_string() const;

  /// The inverse; throws kInvalidArgument for anything but so many hexadecimal digits with a port
  /// that is not 0. The error calls it `name`: the variable that it comes from, say.
  static UniqueId from_string(std::string_view text, std::string_view name = "unique id");

  bool operator==(const UniqueId&) const = default;
};

/// Rank 0's listening socket together with the id that leads to it. Whoever holds it has the port
/// for sure.
class TcpRoot {
 public:
  /// Listens on an address of this machine, of IPv4 or IPv6, that the other ranks can reach; port 0
  /// takes any free one.
  explicit TcpRoot(const std::string& address = "127.0.0.1", std::uint16_t port = 0);

  /// Listens where `id` says.
  explicit TcpRoot(const UniqueId& id);

  /// The id to hand to the other ranks.
  const UniqueId& id() const { return id_; }
  /// The open socket, which stays this object's.
  int listener() const { return listener_.get(); }

 private:
  UniqueId id_;
  Fd listener_;
};

/// A fresh id for a launcher that starts rank 0 on this machine: its port stays free for rank 0,
/// and for nobody else, as long as this lives.
class ReservedId {
 public:
  /// Holds a free port of an address of this machine.
  explicit ReservedId(const std::string& address = "127.0.0.1");
  /// The id to hand to all ranks.
  const UniqueId& id() const { return id_; }

 private:
  UniqueId id_;
  Fd port_;  // bound, never listening
};

/// A fresh id for a launcher that starts rank 0 elsewhere: a random secret and, for port 0, a port
/// that is free now. Nothing holds the port until rank 0 calls make_tcp; where that matters, keep a
/// ReservedId or hand a TcpRoot to rank 0 instead.
UniqueId make_unique_id(const std::string& address = "127.0.0.1", std::uint16_t port = 0);

/// Joins the job of `id` as `rank` of `size`; rank 0 listens at the id's address and waits for all
/// others.
///
/// Connections without the secret are dropped and do not disturb the job; a rank number that is
/// taken or a size that differs from rank 0's is refused with a reason, also while the job runs.
/// Returns when all ranks have joined; throws kTimeout naming the ranks that did not come, on every
/// rank that did.
std::unique_ptr<Bootstrap> make_tcp(const UniqueId& id, int rank, int size, Deadline deadline);

/// The same for ranks that meet once more under the id of an earlier job, of which some rank has
/// died. Who is turned away, because rank 0 is in the earlier job yet or because a rank died while
/// they met, comes again until the deadline has passed.
std::unique_ptr<Bootstrap> make_tcp_again(const UniqueId& id, int rank, int size,
                                          Deadline deadline);

/// The same as rank 0, with a listener that is already open.
std::unique_ptr<Bootstrap> make_tcp(TcpRoot root, int size, Deadline deadline);

/// Runs `body` as `count` PEs, one thread each, and returns when all have returned. The body makes
/// its PE by peal::join(group).
///
/// A body that throws leaves its group: the others' collective calls end with kPeerLost. Throws
/// peal::Error naming every rank that threw and what. A body that never returns is waited for:
/// threads cannot be ended from outside.
void run_threads(int count, const std::function<void(Bootstrap&)>& body,
                 Deadline deadline = kDefaultDeadline);

/// Limits of run_processes.
struct ProcessLimits {
  Deadline deadline = kDefaultDeadline;    // of each collective call
  std::chrono::milliseconds job{600'000};  // of the whole run: processes alive after it are killed
};

/// Runs `body` as `count` PEs, one forked process each; its result is the exit code, 0 for success.
/// The body makes its PE by peal::join(group).
///
/// Call it while this process has one thread: the children have only that one. Children die with
/// the caller. Throws kPeerLost, or kTimeout when the job's limit passed, naming each rank that
/// threw, exited with another code, died of a signal or had to be killed.
void run_processes(int count, const std::function<int(Bootstrap&)>& body,
                   const ProcessLimits& limits = {});

}  // namespace peal::bootstrap

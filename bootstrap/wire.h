// SPDX-License-Identifier: Apache-2.0
//
// What the star (star.h) asks of a transport: whole messages between rank 0 and every other rank,
// in order per pair. Implemented over stream sockets (stream_wire.cc: tcp and local) and over MPI
// (mpi.cc). No call waits beyond the time it is given.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/run_clock.h"

namespace peal::bootstrap {

using Clock = RunClock;
using TimePoint = Clock::time_point;

/// The longest message a wire carries; longer ones are refused by the star, and as garbage by a
/// receiver.
inline constexpr std::size_t kMaxMessage = std::size_t{256} << 20;

/// Something a peer did: it sent a message, or it is gone for good (told once per peer, after its
/// last message).
struct Event {
  int peer = 0;
  bool lost = false;
  std::vector<std::byte> message;
};

class Wire {
 public:
  virtual ~Wire() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// As Bootstrap::connections().
  virtual int connection([[maybe_unused]] int peer) const { return -1; }

  /// Starts sending a copy of `message`; does not wait. To a peer that is lost: no effect.
  virtual void send(int peer, std::span<const std::byte> message) = 0;

  /// The next event, or nothing at `until`. Progresses sends meanwhile.
  virtual std::optional<Event> next(TimePoint until) = 0;

  /// Waits until all that was sent has left this process, or until `until`.
  virtual void flush(TimePoint until) = 0;

  /// Asks the launcher to end the whole job, where there is one that can. May return.
  virtual void abort_job() {}
};

// Over connected stream sockets, TCP connections or socket pairs: a message is its length (8 bytes,
// little endian) and its bytes, a closed connection a lost peer.

/// A wire for `rank` of peers.size(); peers[r] is the connection to rank r, empty where there is
/// none (between two ranks other than 0, to itself, or because r never came).
std::unique_ptr<Wire> make_stream_wire(int rank, std::vector<Fd> peers);

/// Socket pairs between rank 0 and every other rank, to be made before threads start or processes
/// fork: links[r] is what rank r hands to make_stream_wire. Throws kInvalidArgument when count is
/// below 1.
std::vector<std::vector<Fd>> connect_locally(int count);

/// `message` as it travels, for a sender that has no wire.
std::vector<std::byte> make_frame(std::span<const std::byte> message);

/// What libpeal_mpi.so (mpi.cc) gives to mpi_plugin.cc: a wire over a communicator. The library
/// itself links no MPI. Both sides come from one build: the interface is C++ behind one C name.
class MpiWire : public Wire {
 public:
  /// Moves to a private duplicate of the communicator. Collective; every rank is known to be there.
  virtual void separate(TimePoint until) = 0;

  /// False once somebody has called MPI_Finalize: nothing may be sent any more.
  virtual bool usable() const = 0;

  /// Gives back the communicator if all ranks do (`together`), and finalizes MPI if this wire
  /// initialised it. Returns at `until` even when other ranks do not take part.
  virtual void close(bool together, TimePoint until) noexcept = 0;
};

/// The plug-in's one function. Initialises MPI if nobody has; `comm` is a const MPI_Comm* or null.
inline constexpr const char* kOpenMpiWire = "peal_open_mpi_wire";
using OpenMpiWire = void(const void* comm, TimePoint until, std::unique_ptr<MpiWire>* wire);

}  // namespace peal::bootstrap

// SPDX-License-Identifier: Apache-2.0
//
// What libpeal_mpi.so (mpi.cc) gives to mpi_plugin.cc: a wire over a communicator. The library
// itself links no MPI. Both sides come from one build: the interface is C++ behind one C name.
#pragma once

#include <memory>

#include "bootstrap/wire.h"

namespace peal::bootstrap {

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

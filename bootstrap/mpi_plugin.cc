// SPDX-License-Identifier: Apache-2.0
//
// Finds libpeal_mpi.so, loads it and puts the star on its wire.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <utility>

#include "base/library.h"
#include "base/search.h"
#include "bootstrap/bootstraps.h"
#include "bootstrap/star.h"
#include "bootstrap/wire.h"
#include "host/base/error.h"

namespace peal::bootstrap {
namespace {

namespace fs = std::filesystem;

constexpr int kParents = 4;
constexpr std::chrono::milliseconds kGoodbye{5'000};

// The star says goodbye before its wire goes: MPI_Finalize waits for all ranks, so they should all
// be about to call it.
class MpiStar final : public Star {
 public:
  MpiStar(std::unique_ptr<MpiWire> wire, MpiWire& same_wire, Deadline deadline)
      : Star(std::move(wire), deadline), mpi_(same_wire), deadline_(deadline) {}
  MpiStar(const MpiStar&) = delete;
  MpiStar& operator=(const MpiStar&) = delete;

  ~MpiStar() override {
    const bool together = mpi_.usable() && leave();
    mpi_.close(together,
               Clock::now() + (together ? deadline_ : std::min<Deadline>(deadline_, kGoodbye)));
  }

 private:
  MpiWire& mpi_;  // owned by Star
  Deadline deadline_;
};

fs::path find_plugin() {
  constexpr std::array kFiles = {"bootstrap/libpeal_mpi.so", "libpeal_mpi.so"};
  const fs::path start = search_start();
  const fs::path found = find_above(start, kParents, kFiles);
  if (!found.empty()) return found;
  fail(ErrorCode::kConfiguration,
       "no bootstrap/libpeal_mpi.so or libpeal_mpi.so in {} or up to {} folders above: an "
       "installation has it in peal/ beside libpeal.so, where tools/install puts it (peal's "
       "workspace builds //bootstrap:libpeal_mpi.so); or give its path (PEAL_MPI_PLUGIN)",
       start.string(), kParents);
}

OpenMpiWire* load(const std::string& asked) {
  const std::string path = asked.empty() ? find_plugin().string() : asked;
  // Global: Open MPI loads its own components, which look for libmpi's symbols there. Never closed:
  // libmpi does not survive being unloaded.
  void* library = load_library(path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (library == nullptr) {
    fail(ErrorCode::kConfiguration,
         "cannot load the MPI plug-in {}: {}; check the path, and that Open MPI is installed "
         "(openmpi-bin)",
         path, ::dlerror());
  }
  auto* open = reinterpret_cast<OpenMpiWire*>(::dlsym(library, kOpenMpiWire));
  if (open == nullptr) {
    fail(ErrorCode::kConfiguration,
         "{} is not peal's MPI plug-in: it has no {}; give the path of libpeal_mpi.so", path,
         kOpenMpiWire);
  }
  return open;
}

}  // namespace

std::unique_ptr<Bootstrap> make_mpi(const void* mpi_comm, Deadline deadline,
                                    const std::string& plugin) {
  check_deadline(deadline);
  OpenMpiWire* open = load(plugin);
  std::unique_ptr<MpiWire> wire;
  open(mpi_comm, Clock::now() + deadline, &wire);
  MpiWire& mpi = *wire;
  auto star = std::make_unique<MpiStar>(std::move(wire), mpi, deadline);
  // Duplicating a communicator waits for all its ranks without a limit: first make sure that they
  // are here.
  star->start();
  mpi.separate(Clock::now() + deadline);
  return star;
}

CommRank rank_in_mpi(const void* mpi_comm, const std::string& plugin) {
  std::unique_ptr<MpiWire> wire;
  load(plugin)(mpi_comm, Clock::now() + kDefaultDeadline, &wire);
  return {wire->rank(), wire->size()};
}

}  // namespace peal::bootstrap

// SPDX-License-Identifier: Apache-2.0
//
// What a NIC has brought into a GPU's memory, and a CPU has seen the completion of, need not be
// there yet: the completion lies in the host's memory, and PCIe keeps no order between writes to
// two places. But a read passes no write before it:
//
//   the NIC   data -> the GPU's memory (a posted write)   CQE -> the host's memory
//   a CPU     sees the CQE: a READ of a word of that GPU through the NIC, by a queue pair that is
//             connected with itself; once that is complete the data is there
//
// So do the proxies of NCCL (ncclIbIflush in its net_ib).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "host/nic/device.h"
#include "host/nic/queue_end.h"
#include "host/nic/registration.h"
#include "host/nic/verbs_queue.h"

namespace peal::nic {

/// Belongs to one thread at a time.
class FlushReads {
 public:
  /// `page` is memory of the kernels' GPU, a word at least, and outlives this. `path_of` leads from
  /// the queue pair of that number to itself. Throws as VerbsQueue and MemoryRegion do.
  FlushReads(const Device& device, const ProtectionDomain& domain, const Memory& page,
             const std::function<Path(uint32_t qpn)>& path_of);

  /// Begins one behind all that the NIC has written. Its number; nothing while there is no room.
  /// After one that failed the queue pair is connected anew; throws kSystem where that fails.
  std::optional<uint64_t> begin();

  /// How it ended: a syndrome, 0 for well; nothing while it is under way.
  std::optional<uint8_t> ended(uint64_t number);

 private:
  /// The last that failed, all in a row; none: `first` is never reached.
  struct Failed {
    uint64_t first = ~uint64_t{0};
    uint64_t last = 0;
    uint8_t syndrome = 0;
  };
  void connect();
  void poll();

  uint64_t landing_ = 0;
  const MemoryRegion from_;
  const MemoryRegion to_;
  VerbsQueue queue_;
  const Path path_;
  uint64_t begun_ = 0;
  uint64_t ended_ = 0;
  Failed failed_;
  bool broken_ = false;  // the queue pair is in error
  const uint64_t from_address_;
};

}  // namespace peal::nic

// SPDX-License-Identifier: Apache-2.0
//
// Queues for kernels, made through the NIC's own interface: no runtime, no heap. The caller owns
// all memory, a GPU's; this owns what the NIC knows of it.
//
//   queues of one process, each connected to itself: what it writes lands in `data`
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/transport/model.h"
#include "host/nic/device.h"
#include "host/nic/mlx5/queue_pair.h"

namespace peal::testing {

class GpuQueues {
 public:
  struct Memory {
    std::byte* address = nullptr;
    size_t bytes = 0;
  };
  struct Options {
    std::string folder;  // with libibverbs.so.1 and libmlx5.so.1
    uint32_t count = 1;
    uint32_t depth = 1024;
    Memory queues;  // bytes(count, depth), zero but for the CQEs (cqe_offset), which are all ones
    Memory data;    // target of everything
    Memory source;
    nic::KeyOrdering ordering = nic::KeyOrdering::kRelaxed;  // of `data`
  };

  static size_t stride(uint32_t depth) { return nic::QueueMemoryLayout{depth}.bytes(); }
  static size_t cqe_offset(uint32_t depth) { return nic::QueueMemoryLayout{depth}.cqe(); }

  /// Throws peal::Error.
  explicit GpuQueues(const Options& options);

  /// As kernels use them; the caller fills in what only it knows: stop, timeout.
  std::vector<SendQueue> describe() const;

  NicKey data_rkey() const { return data_.rkey(); }
  NicKey data_lkey() const { return data_.lkey(); }
  /// Another key of `data`, always of strict ordering: for words that tell of other data.
  NicKey word_rkey() const { return words_.rkey(); }
  NicKey source_lkey() const { return source_.lkey(); }
  NicKey source_rkey() const { return source_.rkey(); }
  nic::DrivenQueuePair& pair(uint32_t index) { return pairs_[index]; }

 private:
  Options options_;
  nic::Device device_;
  nic::ProtectionDomain domain_;
  nic::QueueRegion umem_;
  nic::RegisterPage uar_;  // after memory of a GPU, hence on it
  nic::MemoryRegion landing_;
  nic::MemoryRegion data_;
  nic::MemoryRegion words_;
  nic::MemoryRegion source_;
  std::vector<nic::DrivenCompletionQueue> cqs_;
  std::vector<nic::DrivenQueuePair> pairs_;
};

}  // namespace peal::testing

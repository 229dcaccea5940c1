// SPDX-License-Identifier: Apache-2.0
//
// One queue whose work requests a CPU carries to the NIC, and whose completions it writes.
//
//   kernels: ring, doorbell record  ->  decode -> VerbsQueue -> NIC
//   kernels: CQE, landing cells     <-  report <- VerbsQueue <-
//
// In order, always: an entry that takes more than one request of the NIC (a masked atomic, a DUMP)
// holds up those behind it. The first error ends all; its CQE stays, so that it is its cause
// kernels see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/mlx5/layout.h"
#include "device/shared/send_queue.h"
#include "host/nic/carried_queue.h"
#include "host/nic/mlx5/proxy_decode.h"

namespace peal {

/// Belongs to one thread at a time.
class ProxyQueue final : public nic::CarriedQueue {
 public:
  ProxyQueue(nic::VerbsQueue& nic, const nic::CarriedMemory& memory, nic::FlushReads* flushes);

  void start() override;
  void stop() override { state_ = State::kStopped; }
  bool advance() override;
  bool busy() const override;

 private:
  enum class State : uint8_t { kStopped, kRunning, kMasked, kFlushing, kFailing, kFailed };
  static constexpr size_t kBatch = nic::VerbsQueue::kBatch;

  // What is known of a request until its completion came.
  struct Sent {
    uint64_t index;  // of the entry it is for
    mlx5::Opcode opcode;
    bool reports;  // its success is the entry's, which asked for a completion
  };

  struct Batch;

  uint16_t unseen() const;
  bool observe();
  bool collect();
  void take_completion(const nic::SendCompletion& completion);
  bool take();
  bool admit(Batch& batch, ProxyWork& work);
  void add(const ProxyWork& work, Batch& batch);
  nic::SendRequest& next_request(Batch& batch, const Sent& sent);
  int post(const Batch& batch);
  bool drained();

  bool begin_flush(const ProxyWork& work);
  bool end_flush();

  bool begin_masked(const ProxyWork& work);
  bool try_masked();
  void finish_masked(uint64_t found);
  LandingCell* cell_of(const ProxyWork& work) const;

  void fail(uint64_t index, mlx5::Opcode opcode, mlx5::Syndrome syndrome, uint8_t vendor = 0);
  void fail_when_drained(mlx5::Opcode opcode, mlx5::Syndrome syndrome);
  void write_cqe(uint64_t index, mlx5::Opcode opcode, mlx5::CqeOpcode kind);

  nic::VerbsQueue& nic_;
  nic::FlushReads* const flushes_;  // null: completions vouch for what was fetched
  const mlx5::DoorbellRecord* record_;
  mlx5::Cqe* cqe_;
  LandingCell* landing_;      // kLandingCells, the sink, and one that is the proxy's own
  uint64_t landing_address_;  // of landing_[0], as its registration knows it
  uint32_t landing_lkey_;
  ProxyRing ring_;
  State state_ = State::kStopped;
  uint64_t next_ = 0;         // first WQEBB that was not taken
  uint64_t posted_ = 0;       // by kernels
  uint64_t sent_ = 0;         // requests given to the NIC
  uint64_t told_ = 0;         // of those, up to the last signalled one
  uint64_t done_ = 0;         // of those, complete
  uint64_t cqes_ = 0;         // written
  std::vector<Sent> window_;  // by request, modulo its size
  // The masked atomic or flush under way; the error that waits for what is before it.
  ProxyWork work_;
  uint64_t flush_ = 0;
  uint64_t guess_ = 0;
  uint64_t last_word_ = ~uint64_t{0};  // where the last one was, and what it left there
  uint32_t last_rkey_ = 0;
  uint64_t last_value_ = 0;
  mlx5::Syndrome fault_ = mlx5::Syndrome::kNone;
  mlx5::Opcode fault_opcode_ = mlx5::Opcode::kNop;
};

}  // namespace peal

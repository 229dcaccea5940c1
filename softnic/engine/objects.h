// SPDX-License-Identifier: Apache-2.0
//
// The NIC's tables as plain structs: keys, completion queues, shared receive queues, queue pairs,
// and the Port that holds them. Direct-indexed, never moved; whoever drives the engine owns the
// memory and the exclusion.
//
//   send queue:   retired <= next <= posted   (running counts of 64-byte blocks, never wrapped)
//                 [retired, next) started, waiting for answers; [next, posted) not started
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/mlx5/layout.h"
#include "softnic/engine/address_vector.h"
#include "softnic/engine/attributes.h"
#include "softnic/engine/fault_plan.h"
#include "softnic/engine/packet.h"
#include "softnic/engine/word.h"

namespace peal::softnic {

/// One entry of an indirect key: what its bytes are called under the key `number`.
struct KeyEntry {
  uint64_t address = 0;
  uint32_t number = 0;
};

/// A registration: addresses [iova, iova + bytes) mean memory [memory, memory + bytes). number 0 =
/// free. An indirect key has no memory, but entries of 1 << log_entity bytes each (keys.h).
struct Key {
  uint32_t number = 0;
  uint32_t pd = 0;
  uint32_t access = 0;
  uint64_t iova = 0;
  uint64_t bytes = 0;
  std::byte* memory = nullptr;
  bool lost = false;  // the client has unmapped it (lost_memory.h): nothing is granted any more
  uint8_t log_entity = 0;
  const KeyEntry* entries = nullptr;  // enough for `bytes`
};

/// What the next event of a completion queue waits for.
enum class Arm : uint8_t { kNothing, kSolicitedOnly, kAny };

/// What CREATE_CQ fixes.
struct CompletionQueueConfig {
  std::byte* buffer = nullptr;    // 1 << log_entries CQEs; null: no queue may complete here
  std::byte* doorbell = nullptr;  // two Be32: set_ci, arm
  uint32_t log_entries = 0;
  uint32_t cqe_bytes = 64;  // or 128
  uint32_t uar_page = 0;
  bool collapsed = false;       // cc: every CQE goes to slot 0
  bool ignore_overrun = false;  // oi
};

struct CompletionQueue : CompletionQueueConfig {
  bool exists = false;
  bool overrun = false;
  Arm armed = Arm::kNothing;
  // Of one that its client arms through record and register (arm.h).
  bool listened = false;  // somebody is to be told
  bool rung = false;      // armed so
  bool spent = false;     // that arm has had its event
  bool due = false;       // which nobody has been told of
  uint8_t sequence = 0;   // number of that arm
  uint32_t cqn = 0;
  uint64_t produced = 0;
  uint64_t told = 0;     // entries when the last event was raised
  uint32_t users = 0;    // queue pairs that name it
  uint32_t writers = 0;  // send queues and receive queues that complete here
  uint32_t turn = 0;     // held while a CQE of one of several writers is written
};

/// A receive queue that queue pairs share: its entries are linked (shared_receive.h) from entry 0
/// on, 1 << log_entries of them, one of which is never posted.
struct SharedReceiveConfig {
  uint32_t pd = 0;              // of the keys in its entries
  std::byte* buffer = nullptr;  // (16 << log_stride) << log_entries bytes; null: always empty
  uint32_t log_entries = 0;
  uint32_t log_stride = 1;                   // link included
  mlx5::DoorbellRecord* doorbell = nullptr;  // its receive half
};

/// Entries taken, [next ...], and posted are counts; which entry is next, the links say.
struct SharedReceiveQueue : SharedReceiveConfig {
  bool exists = false;
  bool failed = false;  // nothing is taken from it any more
  uint32_t srqn = 0;
  uint32_t entries = 0;  // 1 << log_entries
  uint32_t stride = 0;   // bytes from entry to entry: a link, then the scatter list
  uint32_t next = 0;     // index of the oldest entry posted
  uint64_t posted = 0;
  uint64_t taken = 0;
  uint32_t limit = 0;  // an event is due when fewer wait; 0 = not armed
  uint32_t users = 0;  // queue pairs that name it
  uint32_t turn = 0;   // held while an entry is taken
};

/// A decoded work request: what decode.h makes of the bytes in the send queue, with every field in
/// host byte order and nothing left that a client could still get wrong in shape.
struct Request {
  mlx5::Opcode opcode;
  uint8_t opmod;
  mlx5::Completion completion;
  mlx5::Fence fence;
  uint8_t blocks;     // 64-byte blocks taken
  uint8_t units;      // 16-byte segments, ds
  uint8_t data_unit;  // first data segment; == units when there is none
  bool solicited;     // SE bit
  uint32_t immediate;
  uint32_t rkey;
  uint64_t address;
  uint64_t bytes;
  AtomicOperands operands;
  uint32_t wait_index;
  uint32_t wait_cqn;
  uint64_t dc_key;     // datagram: the Q_Key in its upper half
  uint32_t dc_target;  // or queue pair
  uint16_t dc_lid;
  uint8_t service_level;
  bool global;  // the address has a GRH
  bool routed;  // more than the LID counts: a GRH, or on Ethernet

  PEAL_HD bool is_atomic() const {
    return opcode >= mlx5::Opcode::kAtomicCompareSwap &&
           opcode <= mlx5::Opcode::kAtomicMaskedFetchAdd;
  }
  /// The peer answers with data.
  PEAL_HD bool fetches() const { return opcode == mlx5::Opcode::kRdmaRead || is_atomic(); }
  PEAL_HD bool travels() const {
    return fetches() || opcode == mlx5::Opcode::kRdmaWrite ||
           opcode == mlx5::Opcode::kRdmaWriteImm || opcode == mlx5::Opcode::kSend ||
           opcode == mlx5::Opcode::kSendImm;
  }
};

/// A place in the data list of a WQE.
struct Cursor {
  uint32_t unit;    // segment
  uint32_t inside;  // bytes of it already passed
};

/// A started WQE that waits for its turn to complete.
struct PendingWqe {
  uint64_t index;      // first block
  uint32_t first_psn;  //
  uint32_t packets;    // 0: nothing to wait for
  uint32_t answered;   // READ, atomic: packets whose data arrived
  uint32_t bytes;
  mlx5::Opcode opcode;
  mlx5::Completion completion;
  uint8_t blocks;
  uint8_t units;
  uint8_t data_unit;
};

/// One completion to report.
struct Completed {
  mlx5::CqeOpcode kind;
  mlx5::Syndrome syndrome = mlx5::Syndrome::kNone;  // unless kind is an error
  mlx5::Opcode opcode = mlx5::Opcode::kNop;         // of the send WQE
  uint16_t counter = 0;                             // first block of the WQE, or receive entry
  uint32_t bytes = 0;
  uint32_t immediate = 0;  // big-endian
  bool solicited = false;
  uint16_t source_lid = 0;  // of a SEND by a DC initiator, of a datagram
  uint32_t source = 0;      // likewise: GRH, service level, queue pair
};

/// What a fault plan (faults.h) has in hand for one queue pair. Without a plan nobody looks at it.
struct QueueFaults {
  uint64_t plan = 0;           // number of the plan all this belongs to
  uint64_t counted_until = 0;  // WQEs that begin before this block are counted
  uint64_t wqes = 0;
  uint64_t doorbells = 0;

  uint32_t rule = 0;   // of the WQE at `next`, from 1; 0 = none
  uint32_t tries = 0;  // it has taken
  uint64_t until = 0;  // 0 = not begun

  FaultKind held_as = FaultKind::kNone;  // a doorbell held back
  uint16_t held = 0;                     // its counter
  uint64_t held_until = 0;
  uint64_t held_behind = 0;  // doorbells the NIC must have heard

  FaultKind loses = FaultKind::kNone;  // kLoseAck or kLoseRequest: from lost_psn on
  uint32_t lost_psn = 0;
  uint32_t lost_tries = 0;  // left; 0 = all

  bool late = false;  // the CQE of the WQE at late_counter, or the first after it
  uint16_t late_counter = 0;
  uint64_t late_ns = 0;
  uint64_t late_fetch = ~0ull;  // the WQE that begins at this block fetches late
  uint64_t late_fetch_ns = 0;
  bool storms = false;  // flushes report every WQE
};

/// Sending half of a queue pair.
struct Sender {
  static constexpr uint32_t kWindow = 256;  // started WQEs, power of two
  enum class Phase : uint8_t { kIdle, kDecoded, kRunning };

  uint64_t posted = 0;
  uint64_t next = 0;
  uint64_t retired = 0;

  Phase phase = Phase::kIdle;  // of the WQE at `next`
  bool direct = false;         // kRunning: it goes straight to the peer's tables
  Request request = {};
  Cursor cursor = {};
  uint32_t offset = 0;

  uint16_t told = 0;            // blocks posted, by register (doorbell.h)
  uint32_t looked = 0;          // DoorbellPage::looks when the record was last read for it
  bool doorbell_fault = false;  // fails the queue once what was posted before is done

  uint32_t psn = 0;         // of the next new packet
  uint32_t acked_psn = 0;   // everything up to here is acknowledged
  uint32_t segment = 0;     // bytes a packet carries at most
  uint32_t reads = 0;       // READ and atomic WQEs in flight
  uint32_t read_bytes = 0;  // asked for and not yet here

  uint64_t give_up_at = 0;     // no progress until then: transport retry exceeded; 0 = not armed
  uint64_t resend_at = 0;      // 0 = not armed
  uint32_t retries = 0;        // without progress
  uint64_t stalled = 0;        // time granted to a peer that has not looked at its wire
  uint64_t paused_until = 0;   // receiver not ready
  uint32_t not_ready = 0;      // times in a row
  uint64_t sent_position = 0;  // wire position after the last packet
  uint64_t full_since = 0;  // a datagram found no room: since then the peer took nothing; 0 = room
  uint64_t full_at = 0;     // and had taken this much off the wire

  uint64_t peer_generation = 0;          // of the NIC this queue pair talks to; 0 = not yet known
  uint16_t dc_asked = 0;                 // LID in the address of the last request
  mlx5::AddressVectorGrh dc_route = {};  // and the rest of it, where it counts
  PacketPath way;  // where that leads; of a DC initiator: where it is connected
  uint32_t dc_target = 0;
  uint32_t dc_epoch = 0;
  uint32_t dc_first_psn = 0;

  uint32_t head = 0;  // oldest in window
  uint32_t tail = 0;
  PendingWqe window[kWindow];

  PEAL_HD bool drained() const { return head == tail; }
  PEAL_HD bool full() const { return tail - head == kWindow; }
  PEAL_HD PendingWqe& oldest() { return window[head % kWindow]; }
};

/// Receiving half of a queue pair.
struct Receiver {
  static constexpr uint32_t kReplay = 16;  // answers of atomics kept for repeated requests
  static constexpr uint32_t kNoEntry = ~0u;
  struct Answered {
    uint32_t psn;
    bool valid;
    uint64_t value;
  };

  uint32_t expected_psn = 0;
  bool resend_asked = false;
  uint64_t consumed = 0;     // receive entries taken
  uint64_t posted = 0;       // as last seen
  uint32_t atomics = 0;      // executed; next place in replay
  uint32_t turn = 0;         // held while receive entries are taken
  uint32_t held = kNoEntry;  // taken from the shared receive queue for the message that arrives
  bool told_last = false;    // that nothing more is taken from it
  uint64_t placing = 0;      // names what placement.h holds of this queue pair; 0 = nothing
  Answered replay[kReplay] = {};
};

/// What CREATE_QP fixes.
struct QueuePairConfig {
  Service service = Service::kReliable;
  uint32_t pd = 0;
  uint32_t uar_page = 0;
  uint32_t user_index = 0;
  uint32_t send_cq = 0;
  uint32_t receive_cq = 0;
  uint32_t shared_receive_queue = 0;  // 0 = none
  std::byte* send_buffer = nullptr;   // 64 << log_send_blocks bytes; null without a send queue
  uint32_t log_send_blocks = 0;
  std::byte* receive_buffer =
      nullptr;  // (16 << log_receive_stride) << log_receive_entries bytes; null without
  uint32_t log_receive_entries = 0;
  uint32_t log_receive_stride = 0;
  mlx5::DoorbellRecord* doorbell = nullptr;
};

struct QueuePair : QueuePairConfig {
  bool exists = false;
  QpState state = QpState::kReset;
  uint32_t qpn = 0;
  uint32_t send_blocks = 0;
  uint32_t receive_entries = 0;                   // power of two
  uint32_t receive_stride = mlx5::kSegmentBytes;  // bytes from entry to entry
  std::byte* fetched = nullptr;  // of a send queue in a GPU's memory: its blocks, as posted

  QueuePairAttributes attributes;
  QueueFaults faults;
  Receiver receive;
  Sender send;  // last, and its window the last of it: what a direct wire never uses
};

/// A UAR page: the doorbell registers of its queue pairs.
struct DoorbellPage {
  bool exists = false;
  uint32_t users = 0;           // queue pairs
  std::byte* memory = nullptr;  // null: nobody listens there
  uint32_t look_in = 0;         // passes until the records are looked at; 0 = not now
  uint32_t looks = 0;           // so far
};

/// What a DC target remembers of one initiator, to recognise repeated requests.
struct DcConnection {
  bool exists = false;
  uint16_t lid = 0;
  uint32_t qpn = 0;
  uint32_t target = 0;
  uint32_t epoch = 0;
  Receiver receive;
};

/// Events the engine raises, for the driver to collect. When full, further ones are lost (and
/// `count` goes on counting).
struct EventLog {
  static constexpr uint32_t kCapacity = 256;
  uint32_t count = 0;
  uint32_t fired = 0;  // not 0: an armed CQ has its completion
  AsyncEvent event[kCapacity] = {};

  /// False when the event is lost.
  PEAL_HD bool raise(AsyncEvent::Kind kind, uint32_t number) {
    const uint32_t place = Word<uint32_t>(count).fetch_add(1, kRelaxed);
    if (place >= kCapacity) return false;
    event[place] = {kind, number};
    return true;
  }
};

/// Bounds of one try before a request is sent again, in nanoseconds, and a factor on every try.
struct Timing {
  double scale = 1;
  uint64_t shortest_try = 4'000'000;
  uint64_t longest_try = 1'000'000'000;
  uint64_t ask_again = 500'000;           // after "nobody listens there yet"
  uint64_t stall_grace = 30'000'000'000;  // for a peer that lives and does not look at its wire
};

struct Faults;
class WritePlacement;

/// Everything one NIC's engine reaches.
struct Port {
  uint16_t lid = 0;
  Key* keys = nullptr;
  uint32_t key_count = 0;
  CompletionQueue* cqs = nullptr;
  uint32_t cq_count = 0;
  SharedReceiveQueue* srqs = nullptr;
  uint32_t srq_count = 0;
  QueuePair* qps = nullptr;
  uint32_t qp_count = 0;
  DoorbellPage* pages = nullptr;
  uint32_t page_count = 0;
  bool by_value = false;  // the register's value is what counts (doorbell.h)
  DcConnection* dc_connections = nullptr;
  uint32_t dc_connection_count = 0;
  uint32_t dc_epochs = 0;
  Timing timing;
  EventLog events;
  Violations violations;
  Faults* faults = nullptr;             // null until the first fault plan
  WritePlacement* placement = nullptr;  // of the engine on a CPU: holds WRITEs back; null: in order
  bool any_placement = false;           // of the engine on a GPU: WRITEs wait for none
  bool pci_atomics = false;             // atomics wait for no WRITE that is held there
  uint64_t lost_pages = 0;              // registered, and unmapped when touched (lost_memory.h)
};

/// True where WRITEs to the queue pair, `port`'s, are placed as they were posted.
PEAL_HD bool placed_in_order(const Port& port, const QueuePair& qp) {
  const bool in_order = port.placement == nullptr && !port.any_placement;
  return in_order || qp.service != Service::kReliable || qp.attributes.in_order;
}

PEAL_HD QueuePair* find_qp(const Port& port, uint32_t qpn) {
  if (qpn >= port.qp_count || !port.qps[qpn].exists) return nullptr;
  return &port.qps[qpn];
}

PEAL_HD CompletionQueue* find_cq(const Port& port, uint32_t cqn) {
  if (cqn >= port.cq_count || !port.cqs[cqn].exists) return nullptr;
  return &port.cqs[cqn];
}

PEAL_HD SharedReceiveQueue* find_srq(const Port& port, uint32_t srqn) {
  if (srqn >= port.srq_count || !port.srqs[srqn].exists) return nullptr;
  return &port.srqs[srqn];
}

/// The queue pair takes receive entries from a shared queue.
PEAL_HD bool shares_receives(const QueuePair& qp) {
  return qp.shared_receive_queue != 0 && qp.service != Service::kDcInitiator;
}

}  // namespace peal::softnic

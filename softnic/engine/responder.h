// SPDX-License-Identifier: Apache-2.0
//
// The answering half of a queue pair: may this packet act here, and if so, act. Called directly for
// a peer whose tables are reachable, or by serve.h for packets that came over a wire.
//
//   state -> operation enabled -> depth -> length -> key -> alignment -> receive entry -> act
//   SEND:    state -> length -> receive entry, its room, its keys -> act
//
// The order of the checks is the order in which a client can tell them apart.
#pragma once

#include <cstdint>

#include "device/mlx5/layout.h"
#include "softnic/engine/completion.h"
#include "softnic/engine/decode.h"
#include "softnic/engine/keys.h"
#include "softnic/engine/objects.h"
#include "softnic/engine/packet.h"
#include "softnic/engine/receive.h"
#include "softnic/engine/word.h"

namespace peal::softnic {

enum class Verdict : uint8_t {
  kDone,
  kDropped,   // nobody answers: the requester will give up in the end
  kRefused,   // Answer::syndrome tells the requester why
  kNotReady,  // no receive entry
};

struct Response {
  Verdict verdict = Verdict::kDone;
  mlx5::Syndrome syndrome = mlx5::Syndrome::kNone;
  std::byte* memory = nullptr;  // READ: Packet::bytes of it, unless spread
  uint64_t value = 0;           // atomic: previous value, in the byte order to be stored;
                                // kNotReady: the RNR timer code
  const Key* spread = nullptr;  // READ: its bytes lie in several runs of this key
};

/// What a request asks of the key that it names.
PEAL_HD KeySpan span_of(const Packet& packet, uint32_t right) {
  return {packet.address, packet.total, right};
}

/// Where a packet's bytes belong: in one run, or from there on in several.
struct PacketTarget {
  const Port& port;
  const Packet& packet;
  const Key* key = nullptr;  // null: a message without bytes names no memory
  MemoryRun run = {};        // the first
  uint32_t right = 0;

  PEAL_HD bool is_spread() const {
    return key != nullptr && is_indirect(*key) && run.bytes < packet.bytes;
  }
  /// All of the message is there as it begins; its further packets ask for their own bytes, so that
  /// a long one is not walked through for each.
  PEAL_HD bool find(uint32_t pd) {
    key = find_key(port, packet.rkey);
    if (!grants(key, pd, right)) return false;
    run = run_of(port, *key, span_of(packet, right), packet.offset);
    if (run.memory == nullptr) return false;
    if (!is_indirect(*key)) return true;
    const uint64_t bytes = packet.offset == 0 ? packet.total : packet.bytes;
    return each_run(port, *key, span_of(packet, right), packet.offset, bytes,
                    [](const MemoryRun&) {});
  }
  PEAL_HD Response read() const {
    return {.memory = run.memory, .spread = is_spread() ? key : nullptr};
  }
};

/// True in the two states in which requests are answered.
PEAL_HD bool responds(QpState state) {
  return state == QpState::kReadyToReceive || state == QpState::kReadyToSend;
}
PEAL_HD bool responds(const QueuePair& qp) { return responds(qp.state); }

/// A queue pair lets its peer do what needs `right`, one Access bit or 0.
PEAL_HD bool allows(const QueuePairAttributes& mine, uint32_t right) {
  if ((mine.access & right) != right) return false;
  if (right == kRemoteAtomic && mine.atomic_mode == 0) return false;
  return (right & (kRemoteRead | kRemoteAtomic)) == 0 || mine.responder_depth_valid;
}

/// A queue pair with these attributes hears requests of `qpn` at `lid`.
PEAL_HD bool hears(const QueuePairAttributes& mine, uint32_t qpn, uint16_t lid, Network network,
                   uint16_t pkey) {
  return mine.remote_qpn == qpn && mine.remote_lid == lid && mine.network == network &&
         partitions_meet(mine.pkey, pkey);
}

/// Refuses a request. A DC target survives; any other queue pair goes to the error state.
PEAL_HD Response refuse(Port& port, QueuePair& qp, mlx5::Syndrome syndrome) {
  if (qp.service != Service::kDcTarget) {
    qp.state = QpState::kError;
    port.events.raise(syndrome == mlx5::Syndrome::kRemoteAccess ? AsyncEvent::Kind::kQpAccessError
                                                                : AsyncEvent::Kind::kQpRequestError,
                      qp.qpn);
  }
  return {.verdict = Verdict::kRefused, .syndrome = syndrome};
}

/// The right a packet needs; 0 for SEND, which needs none, and for an opcode no requester sends.
PEAL_HD uint32_t right_for(mlx5::Opcode opcode) {
  using mlx5::Opcode;
  switch (opcode) {
    case Opcode::kRdmaWrite:
    case Opcode::kRdmaWriteImm:
      return kRemoteWrite;
    case Opcode::kRdmaRead:
      return kRemoteRead;
    case Opcode::kAtomicCompareSwap:
    case Opcode::kAtomicFetchAdd:
    case Opcode::kAtomicMaskedCompareSwap:
    case Opcode::kAtomicMaskedFetchAdd:
      return kRemoteAtomic;
    default:
      return 0;
  }
}

/// The peer stores what comes with the request and answers with an acknowledgement.
PEAL_HD bool brings_data(mlx5::Opcode opcode) {
  return right_for(opcode) == kRemoteWrite || is_send(opcode);
}

/// a + b where no carry leaves a bit that is set in `boundary`.
template <class T>
PEAL_HD T add_in_fields(T a, T b, T boundary) {
  // Below a boundary bit add as usual; the boundary bits themselves add without carry.
  return static_cast<T>(((a & ~boundary) + (b & ~boundary)) ^ ((a ^ b) & boundary));
}

/// One atomic on memory that CPU threads and other queue pairs use too; answers the old value.
/// `kOrder` is kRelaxed for callers with fences of their own.
template <class T, auto kOrder = kOrdered>
PEAL_HD T execute_atomic(std::byte* at, mlx5::Opcode opcode, const AtomicOperands& operands) {
  Word<T> word(word_at<T>(at));
  const T value = static_cast<T>(operands.swap_or_add);
  const T mask = static_cast<T>(operands.compare_mask);
  if (opcode == mlx5::Opcode::kAtomicFetchAdd ||
      (opcode == mlx5::Opcode::kAtomicMaskedFetchAdd && mask == 0)) {
    return word.fetch_add(value, kOrder);
  }
  // A swap without a condition that leaves no bit needs no old value.
  if (opcode != mlx5::Opcode::kAtomicMaskedFetchAdd && mask == 0 &&
      static_cast<T>(operands.swap_mask) == static_cast<T>(~T{0})) {
    return word.exchange(value, kOrder);
  }
  // A compare-swap that is going to succeed needs no look before it.
  const bool guesses =
      opcode != mlx5::Opcode::kAtomicMaskedFetchAdd && mask == static_cast<T>(~T{0});
  T old = guesses ? static_cast<T>(operands.compare)
                  : word.load(kOrder == kRelaxed ? kRelaxed : kAcquire);
  for (;;) {
    T fresh;
    if (opcode == mlx5::Opcode::kAtomicMaskedFetchAdd) {
      fresh = add_in_fields<T>(old, value, mask);
    } else {
      if (((old ^ static_cast<T>(operands.compare)) & mask) != 0) return old;
      const T swapped = static_cast<T>(operands.swap_mask);
      fresh = static_cast<T>((old & ~swapped) | (value & swapped));
    }
    if (word.compare_exchange_strong(old, fresh, kOrder)) return old;
  }
}

/// Stores the payload upwards, its last word last. Where it is words, no end of a chunk is within
/// one: the ring's end is within the inline data of a request of several blocks.
PEAL_HD void store_payload(std::byte* to, const Payload& payload) {
  if (payload.count > 1 && is_words(to, payload.bytes)) {
    alignas(8) std::byte joined[kMostWordBytes];
    std::byte* at = joined;
    for (uint32_t i = 0; i < payload.count; ++i) {
      copy(at, payload.chunk[i].memory, payload.chunk[i].bytes);
      at += payload.chunk[i].bytes;
    }
    return place_words(to, joined, payload.bytes);
  }
  for (uint32_t i = 0; i < payload.count; ++i) {
    const Payload::Chunk& chunk = payload.chunk[i];
    if (i + 1 < payload.count) {
      copy(to, chunk.memory, chunk.bytes);
    } else {
      place(to, chunk.memory, chunk.bytes);
    }
    to += chunk.bytes;
  }
}

/// Stores a packet's payload, upwards.
PEAL_HD void store_at(const PacketTarget& to, const Payload& payload) {
  if (!to.is_spread()) return store_payload(to.run.memory, payload);
  const Payload::Chunk* from = payload.chunk;
  uint32_t passed = 0;  // of `from`
  const auto fill = [&](const MemoryRun& run) {
    for (uint64_t done = 0; done < run.bytes;) {
      const uint64_t left = run.bytes - done;
      const uint64_t take = left < from->bytes - passed ? left : from->bytes - passed;
      place(run.memory + done, from->memory + passed, take);
      done += take;
      passed += static_cast<uint32_t>(take);
      if (passed < from->bytes) continue;
      ++from;
      passed = 0;
    }
  };
  const Packet& packet = to.packet;
  each_run(to.port, *to.key, span_of(packet, to.right), packet.offset, payload.bytes, fill);
}

PEAL_HD Response act_atomic(Port& port, QueuePair& qp, const Packet& packet, std::byte* at,
                            const Payload& payload) {
  const bool small = packet.bytes == 4;
  const auto execute = [&](auto word, const AtomicOperands& operands) {
    using T = decltype(word);
    if (!in_gpu(at)) return execute_atomic<T>(at, packet.opcode, operands);
    // As a card's: not atomic with what kernels do to the word themselves.
    copy_bytes(&word, at, sizeof(T));
    const T old = execute_atomic<T>(reinterpret_cast<std::byte*>(&word), packet.opcode, operands);
    if (word != old) copy_bytes(at, &word, sizeof(T));
    return old;
  };
  if (payload.count != 1 || payload.bytes != sizeof(AtomicOperands) ||
      (!small && packet.bytes != 8)) {
    return refuse(port, qp, mlx5::Syndrome::kRemoteInvalidRequest);
  }
  AtomicOperands operands;
  memcpy(&operands, payload.chunk[0].memory, sizeof(operands));
  // 8-byte results are stored in host order, 4-byte results big-endian.
  const uint64_t old =
      small ? Be32(execute(uint32_t{0}, operands)).raw : execute(uint64_t{0}, operands);
  return {.value = old};
}

/// Both ends cut the message into the same packets: one fits in a packet of either, or the path
/// MTUs are the same. A DC target has the initiator's.
PEAL_HD bool same_packets(const QueuePair& qp, const Packet& packet) {
  const uint8_t mine = qp.attributes.mtu;
  if (qp.service == Service::kDcTarget || packet.mtu == mine) return true;
  const uint32_t least = packet.mtu < mine ? packet.mtu : mine;
  return packet.total <= mtu_bytes(least);
}

/// The receive entry cannot take the message: both ends hear of it. A DC target survives.
PEAL_HD Response fail_receive(Port& port, QueuePair& qp, const Arrival& arrival,
                              mlx5::Syndrome syndrome) {
  complete_receive(port, qp, arrival, mlx5::CqeOpcode::kResponderError, syndrome);
  if (qp.service != Service::kDcTarget) qp.state = QpState::kError;
  return {.verdict = Verdict::kRefused,
          .syndrome = syndrome == mlx5::Syndrome::kLocalLength
                          ? mlx5::Syndrome::kRemoteInvalidRequest
                          : mlx5::Syndrome::kRemoteOperation};
}

/// There is no receive entry: none now, or none any more because the shared queue failed, and with
/// it the queue pair that asked.
PEAL_HD Response without_entry(Port& port, QueuePair& qp, Claim claim) {
  if (claim == Claim::kEmpty) {
    return {.verdict = Verdict::kNotReady, .value = qp.attributes.min_rnr_timer};
  }
  if (qp.service != Service::kDcTarget) {
    qp.state = QpState::kError;
    port.events.raise(AsyncEvent::Kind::kQpFatal, qp.qpn);
  }
  return {.verdict = Verdict::kRefused, .syndrome = mlx5::Syndrome::kRemoteOperation};
}

/// Executes one packet of a SEND.
PEAL_HD Response act_send(Port& port, QueuePair& qp, const Arrival& arrival,
                          const Payload& payload) {
  const Packet& packet = arrival.packet;
  const ShortLock turn(qp.receive.turn, true);
  const Claim claim = claim_receive(port, qp, arrival.stream);
  if (claim != Claim::kReady) return without_entry(port, qp, claim);
  const mlx5::Syndrome wrong = check_receive(port, qp, arrival);
  if (wrong != mlx5::Syndrome::kNone) return fail_receive(port, qp, arrival, wrong);
  if (!fill_receive(port, qp, arrival, payload)) {
    return fail_receive(port, qp, arrival, mlx5::Syndrome::kLocalProtection);
  }
  if (packet.offset + packet.bytes < packet.total) return {};
  const auto kind = packet.opcode == mlx5::Opcode::kSendImm ? mlx5::CqeOpcode::kResponderSendImm
                                                            : mlx5::CqeOpcode::kResponderSend;
  complete_receive(port, qp, arrival, kind, mlx5::Syndrome::kNone);
  return {};
}

/// The lengths of a request agree with each other; `brought` is what came with it.
PEAL_HD bool well_formed(const QueuePair& qp, const Packet& packet, uint32_t brought) {
  return packet.total <= kWholeSegment && packet.offset <= packet.total &&
         packet.bytes <= packet.total - packet.offset &&
         (!brings_data(packet.opcode) || brought == packet.bytes) && same_packets(qp, packet);
}

/// A READ that has been answered before. The peer may have lost the right to it since, or it is a
/// straggler of an older connection: it is dropped then, and the queue pair lives on.
PEAL_HD Response read_again(const Port& port, const QueuePair& qp, const Packet& packet) {
  const Response dropped = {.verdict = Verdict::kDropped};
  if (!responds(qp) || !allows(qp.attributes, kRemoteRead) || !well_formed(qp, packet, 0))
    return dropped;
  if (packet.total == 0) return {};
  PacketTarget from = {.port = port, .packet = packet, .right = kRemoteRead};
  return from.find(qp.pd) ? from.read() : dropped;
}

/// Stores what a WRITE brings at once.
struct StoreNow {
  PEAL_HD void operator()(const PacketTarget& to, const Payload& payload) const {
    store_at(to, payload);
  }
};

/// Calls `use` with each run of what a READ answers; false where one is not granted any more.
template <class Use>
PEAL_HD bool each_read(const Port& port, const Packet& packet, const Response& read,
                       const Use& use) {
  if (read.spread != nullptr) {
    return each_run(port, *read.spread, span_of(packet, kRemoteRead), packet.offset, packet.bytes,
                    use);
  }
  if (packet.bytes > 0) use(MemoryRun{read.memory, packet.bytes});
  return true;
}

/// Executes one packet that is new, in order and for this queue pair. `store` is called for the
/// bytes of a WRITE that may be.
template <class Store = StoreNow>
PEAL_HD Response respond(Port& port, QueuePair& qp, const Arrival& arrival, const Payload& payload,
                         const Store& store = {}) {
  using mlx5::Syndrome;
  const Packet& packet = arrival.packet;
  if (!responds(qp)) return {.verdict = Verdict::kDropped};
  const uint32_t right = right_for(packet.opcode);
  const bool atomic = right == kRemoteAtomic;
  const bool brings = brings_data(packet.opcode);
  const bool sends = is_send(packet.opcode);
  if ((right == 0 && !sends) || !allows(qp.attributes, right)) {
    return refuse(port, qp, Syndrome::kRemoteInvalidRequest);
  }
  if (!well_formed(qp, packet, payload.bytes))
    return refuse(port, qp, Syndrome::kRemoteInvalidRequest);
  if (sends) return act_send(port, qp, arrival, payload);
  PacketTarget target = {.port = port, .packet = packet, .right = right};
  if (packet.total > 0 && !target.find(qp.pd)) return refuse(port, qp, Syndrome::kRemoteAccess);
  if (atomic) {
    if (packet.total == 0 || (packet.address & (packet.bytes - 1)) != 0 || target.is_spread() ||
        !aligned(target.run.memory, packet.bytes)) {
      return refuse(port, qp, Syndrome::kRemoteInvalidRequest);
    }
    return act_atomic(port, qp, packet, target.run.memory, payload);
  }
  if (!brings) return target.read();
  const bool notifies =
      packet.opcode == mlx5::Opcode::kRdmaWriteImm && packet.offset + packet.bytes == packet.total;
  const ShortLock turn(qp.receive.turn, notifies);
  const Claim claim = notifies ? claim_receive(port, qp, arrival.stream) : Claim::kReady;
  if (claim != Claim::kReady) return without_entry(port, qp, claim);
  store(target, payload);
  if (notifies) {
    complete_receive(port, qp, arrival, mlx5::CqeOpcode::kResponderWriteImm, mlx5::Syndrome::kNone);
  }
  return {};
}

}  // namespace peal::softnic

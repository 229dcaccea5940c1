// SPDX-License-Identifier: Apache-2.0
//
// The wire to NICs of other hosts: RoCE v2 in UDP.
//
//   requests --> window of the queue pair --> datagrams --> network
//   network  --> ICRC, headers, whose?    --> engine; acknowledgements at the end of a round
//
// It keeps next to nothing: what is lost the engine sends again (recovery.h). All calls come from
// the engine, under its lock. What is not a packet, or for nobody, or from nobody known, is dropped
// and counted; nothing of it is believed.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "softnic/engine/engine.h"
#include "softnic/engine/recovery.h"
#include "softnic/engine/serve.h"
#include "softnic/wire/roce/datagrams.h"
#include "softnic/wire/roce/flow.h"
#include "softnic/wire/roce/remote_nics.h"
#include "softnic/wire/roce/translate.h"

namespace peal::softnic::roce {

/// Datagrams so far.
struct Counts {
  uint64_t sent = 0;
  uint64_t taken = 0;
  uint64_t wrong_icrc = 0;  // or too short for one, or too long
  uint64_t malformed = 0;   // headers that cannot be
  uint64_t strange = 0;     // for no queue pair, not from its peer, or far too old
  uint64_t no_room = 0;     // answers, and requests behind a READ, that there was no room for
};

/// A wire (see engine/wire.h).
class UdpWire {
 public:
  /// All of them must outlive it.
  UdpWire(Port& port, Datagrams& network, RemoteNics& remotes)
      : port_(port), network_(network), remotes_(remotes) {}
  UdpWire(const UdpWire&) = delete;
  UdpWire& operator=(const UdpWire&) = delete;

  SendStatus open(uint16_t lid, uint64_t& generation);
  SendStatus send(uint16_t lid, const Packet& packet, const Payload& payload);
  /// Payload of one packet at most: of a datagram with the header that the engine gives it.
  static uint32_t segment_bytes() { return kMostPayload + sizeof(GlobalHeader); }
  /// Nobody tells what the peer has taken: a packet without an answer is lost.
  static uint64_t position() { return 0; }
  static uint64_t consumed() { return 0; }

  /// Takes what has arrived. True when anything has.
  bool poll(uint64_t now);
  void flush() { network_.flush(); }
  void rest(std::chrono::microseconds time) { network_.rest(time); }

  const Counts& counts() const { return counts_; }
  /// errno of the last datagram that could not leave, once; 0: none.
  int take_trouble() { return network_.take_trouble(); }

 private:
  /// How far a request has been answered.
  struct Progress {
    uint32_t packets;
    bool repeats;  // it had been executed when it came
  };
  /// A connection that comes to here, and the acknowledgement that is held back for it.
  struct Connection {
    Inbound inbound;
    Packet held = {};
    bool holds = false;
    Address peer;
    uint16_t pkey = 0;
    /// Datagrams of requests: a READ that is answered in several polls, and what came behind it.
    std::deque<std::vector<std::byte>> waiting;
    std::optional<Progress> progress;  // of the first, once it has begun

    void meet(const QueuePair& qp) {
      if (!inbound.meet(qp)) forget();
    }
    void forget() {
      waiting.clear();
      progress.reset();
    }
  };
  /// Whether a peer numbers its datagrams, by its IPv4 headers' identifications.
  struct Numbers {
    bool numbered = false;
    bool doubt = false;  // one with a number came from a peer that has sent none
  };
  class Answers;

  Flow* flow_of(const Packet& packet);
  void hurry();
  bool goes_on(uint32_t qpn, Flow& flow) const;
  bool is_whole(const Arrived& datagram);
  void take(const Arrived& datagram);
  void take_datagram(const Arrived& datagram, const RoceFrame& frame);
  void take_request(const Arrived& datagram, const RoceFrame& frame, const QueuePair& qp);
  void keep(const Arrived& datagram, Connection& connection, uint32_t qpn);
  bool serve(const RoceFrame& frame, const QueuePair& qp, Connection& connection);
  void resume();
  bool catch_up(uint32_t qpn);
  void take_answer(const RoceFrame& frame);
  void acknowledge(uint32_t qpn);
  void acknowledge_all();
  bool emit(const Address& to, const RoceFrame& frame, const Payload& payload, uint32_t ahead);
  enum class Sent : uint8_t {
    kWhole,
    kRefusal,  // its memory has gone
    kNothing,  // no room now
  };
  Sent answer(const Connection& connection, const Packet& packet, const Payload& payload,
              BthOpcode data, uint32_t messages);

  Port& port_;
  Datagrams& network_;
  RemoteNics& remotes_;
  Counts counts_;
  uint64_t now_ = 0;
  uint64_t next_look_ = 0;
  uint32_t rest_ = 0;  // packets that READs may still be answered with in this poll
  std::unordered_map<uint32_t, Flow> flows_;              // by queue pair
  std::unordered_map<uint32_t, Connection> connections_;  // likewise
  std::unordered_map<uint16_t, Numbers> numbers_;         // by LID
  std::vector<uint32_t> holding_;                         // queue pairs that hold one back
  std::deque<uint32_t> reading_;                          // queue pairs with requests that wait
};

}  // namespace peal::softnic::roce

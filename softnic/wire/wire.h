// SPDX-License-Identifier: Apache-2.0
//
// The wire between the NICs of a host: for each ordered pair of NICs that talk, one file with two
// rings, created by the one that asks.
//
//   requester's NIC  == requests ==>  responder's NIC
//                    <== answers ===
//
// Answers have a ring of their own and are always taken at once, so a full request ring can stall a
// flow but never two NICs against each other. All calls come from the engine, under its lock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "softnic/engine/engine.h"
#include "softnic/engine/serve.h"
#include "softnic/wire/fabric.h"
#include "softnic/wire/ring.h"
#include "softnic/wire/route.h"
#include "softnic/wire/shared_region.h"
#include "softnic/wire/shortage.h"

namespace peal::softnic {

/// Head of a link's file; the two rings follow at kLinkHeaderBytes.
struct LinkHeader {
  uint64_t format;  // format_word()
  uint64_t ring_bytes;
  RingCounters requests;
  RingCounters answers;
};
static_assert(sizeof(LinkHeader) <= kLinkHeaderBytes);

/// A wire (see engine/wire.h) between processes. `generation` of its calls is the number of a
/// link's life: a link that was lost and set up anew has another.
class ShmWire {
 public:
  ShmWire(Port& port, Fabric& fabric, const Router& router)
      : port_(port), fabric_(fabric), router_(router) {}
  ~ShmWire();
  ShmWire(const ShmWire&) = delete;
  ShmWire& operator=(const ShmWire&) = delete;

  PacketPath find(const AddressVector& vector, uint8_t port) const {
    return router_.way(vector, port);
  }
  Port* direct(uint16_t lid) { return lid == port_.lid ? &port_ : nullptr; }
  SendStatus open(uint16_t lid, uint64_t& generation);
  uint32_t segment_bytes(uint16_t lid) const { return outgoing_[lid]->segment; }
  SendStatus send(uint16_t lid, const Packet& packet, const Payload& payload);
  uint64_t position(uint16_t lid) const { return outgoing_[lid]->requests.position(); }
  uint64_t consumed(uint16_t lid);
  bool lost(uint16_t lid, uint64_t generation) const;

  /// Takes what has arrived; accepts and drops links. True when anything happened.
  bool poll(uint64_t now);
  /// Shows the peers what was sent since the last call.
  void flush();

  /// What lies in this memory may be copied from there by peers; until take_back(), when its key
  /// goes.
  void share(SharedRegion region) { regions_.add(std::move(region)); }
  void take_back(uint32_t key);

 private:
  struct Link {
    uint16_t lid = 0;
    std::shared_ptr<const Peer> peer;
    Mapping file;
    uint32_t segment = 0;
    bool lost = false;
  };
  struct Outgoing : Link {
    uint64_t life = 0;
    RingWriter requests;
    RingReader answers;
    uint64_t offered = 0;              // a bit for each slot of the regions
    uint64_t mapped_by_peer = 0;       // and of those the peer has mapped
    uint64_t in_regions = 0;           // bytes since the last publish
    std::vector<uint64_t> taken_back;  // the peer does not know yet

    SendStatus send_in_region(const Packet& packet, const RegionBytes& place);
    void offer(uint32_t slot, const RegionDescriptor& offer);
    void tell_taken_back();
    void publish();
  };
  struct Incoming : Link {
    RingReader requests;
    RingWriter answers;
    Packet held = {};  // acknowledgement not yet sent: what it is for may not be in memory either
    bool holds = false;
    Packet late = {};  // answer of an atomic that has overtaken what `held` is for
    uint64_t late_value = 0;
    bool has_late = false;
    Port* port = nullptr;
    std::vector<PeerRegion> peer_regions;

    void acknowledge(const Packet& packet);
    void answer(const Packet& packet, const Payload& payload);
    void place() const;
    void release();
    bool borrow(const Packet& packet, const Payload& payload);
    bool find_in_region(const Packet& packet, Payload& payload) const;
  };

  std::shared_ptr<const Peer> peer_at(uint16_t lid);
  Mapping create_file(uint16_t lid, const Peer& peer, uint64_t* ring) const;
  SendStatus set_up(uint16_t lid, uint64_t& generation);
  SendStatus no_link(uint16_t lid, int error) const;
  bool refused(const Outgoing& link) const;
  void refuse(uint16_t lid, int error) const;
  void accept(uint16_t lid);
  bool serve(Incoming& link);
  bool take_answers(Outgoing& link);
  bool drop_lost();
  void lose(Outgoing& link);

  Port& port_;
  Fabric& fabric_;
  const Router& router_;
  SharedRegions regions_;
  uint64_t now_ = 0;
  uint64_t next_look_ = 0;  // when to ask whether peers live
  uint64_t lives_ = 0;
  std::array<std::unique_ptr<Outgoing>, kMaxSlots + 1> outgoing_;
  std::array<uint64_t, kMaxSlots + 1> next_search_{};           // for NICs that were not there
  std::array<std::weak_ptr<const Peer>, kMaxSlots + 1> peers_;  // of links: one file each
  std::vector<Outgoing*> open_;
  std::vector<std::unique_ptr<Incoming>> incoming_;
};

}  // namespace peal::softnic

// SPDX-License-Identifier: Apache-2.0
//
// Links over shared memory: set up by the side that asks, accepted when it knocks, dropped when the
// peer has gone or what it wrote cannot be right.
#include "softnic/wire/wire.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>

#include "base/across.h"
#include "softnic/engine/datagram.h"

namespace peal::softnic {

namespace {

constexpr uint64_t kLookEvery = 20'000'000;   // ns, at peers' locks
constexpr uint64_t kSearchEvery = 1'000'000;  // ns, for a NIC that is not there
constexpr uint64_t kPublishAfter = 64 << 10;  // bytes of requests
constexpr int kPacketsPerRound = 256;

/// The largest payload of a packet: an eighth of the ring, and no less than the largest datagram.
constexpr uint32_t segment_of(uint64_t ring) {
  constexpr uint64_t kLargestDatagram = 4096 + sizeof(GlobalHeader);
  return static_cast<uint32_t>(std::max(ring / 8, kLargestDatagram));
}
static_assert(segment_of(kSmallestRing) + 4 * sizeof(Packet) <= kSmallestRing);

LinkHeader& header_of(const Mapping& file) { return *reinterpret_cast<LinkHeader*>(file.memory()); }
RingMemory request_ring(const Mapping& file, uint64_t bytes) {
  return {file.memory() + kLinkHeaderBytes, bytes};
}
RingMemory answer_ring(const Mapping& file, uint64_t bytes) {
  return {file.memory() + kLinkHeaderBytes + bytes, bytes};
}

/// A record between the wires themselves.
Packet wire_record(PacketKind kind, uint64_t id, uint32_t payload) {
  Packet packet = {};
  packet.kind = kind;
  packet.address = id;
  packet.payload = payload;
  return packet;
}

template <class T>
Payload payload_of(const T& value) {
  Payload payload;
  payload.append(reinterpret_cast<const std::byte*>(&value), sizeof(value));
  return payload;
}

std::string name_link(uint32_t from, uint32_t to) {
  return "no link from LID " + std::to_string(from) + " to LID " + std::to_string(to);
}

/// Appends unless what it names has gone: false then, and nobody sees it.
bool append_sound(const Port& port, RingWriter& ring, const Packet& packet,
                  const Payload& payload) {
  const uint64_t before = port.lost_pages;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  ring.write(packet, payload);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // a handler counts
  if (port.lost_pages != before) return false;
  ring.commit(payload);
  return true;
}

/// Out of a ring, where it may lie in two pieces. False if it is not as long.
template <class T>
bool copy_out(const Payload& payload, T* value) {
  if (payload.bytes != sizeof(T)) return false;
  auto* to = reinterpret_cast<std::byte*>(value);
  for (uint32_t i = 0; i < payload.count; ++i) {
    to = std::copy_n(payload.chunk[i].memory, payload.chunk[i].bytes, to);
  }
  return true;
}

}  // namespace

ShmWire::~ShmWire() {
  for (const Outgoing* link : open_) fabric_.unlink_created_ring(link->lid, link->peer->generation);
}

SendStatus ShmWire::open(uint16_t lid, uint64_t& generation) {
  if (lid == 0 || lid > kMaxSlots) return SendStatus::kAbsent;
  const Outgoing* link = outgoing_[lid].get();
  if (link == nullptr || link->lost) {
    return generation == 0 ? set_up(lid, generation) : SendStatus::kLost;
  }
  if (generation == 0) generation = link->life;
  return generation == link->life ? SendStatus::kSent : SendStatus::kLost;
}

/// Links to and from a NIC share what they know of it.
std::shared_ptr<const Peer> ShmWire::peer_at(uint16_t lid) {
  std::shared_ptr<const Peer> peer = peers_[lid].lock();
  if (peer != nullptr && fabric_.alive(*peer)) return peer;
  peer = std::make_shared<const Peer>(fabric_.find(lid));
  peers_[lid] = peer;
  return peer;
}

/// Makes the file with rings as large as memory allows. If memory allows none, the mapping is not
/// valid and errno says why.
Mapping ShmWire::create_file(uint16_t lid, const Peer& peer, uint64_t* ring) const {
  fabric_.unlink_created_ring(lid, peer.generation);  // of a link that was dropped
  for (*ring = Room::in(fabric_.directory()).ring_bytes();; *ring /= 2) {
    Mapping file = fabric_.create_ring(lid, peer.generation, link_bytes(*ring));
    const bool smaller_might = errno == ENOSPC || errno == EDQUOT || errno == ENOMEM;
    if (file.valid() || !smaller_might || *ring == kSmallestRing) return file;
  }
}

/// Fails what goes there at once: what is short now will be short when a try has timed out.
SendStatus ShmWire::no_link(uint16_t lid, int error) const {
  fabric_.report(name_link(port_.lid, lid), error, shortage(error, fabric_.directory()));
  return SendStatus::kLost;
}

SendStatus ShmWire::set_up(uint16_t lid, uint64_t& generation) {
  if (now_ < next_search_[lid]) return SendStatus::kAbsent;
  next_search_[lid] = now_ + kSearchEvery;
  std::shared_ptr<const Peer> peer = peer_at(lid);
  if (peer->error != 0) return no_link(lid, peer->error);
  if (!peer->found()) return SendStatus::kAbsent;
  uint64_t ring = 0;
  Mapping file = create_file(lid, *peer, &ring);
  if (!file.valid()) return no_link(lid, errno);
  auto link = std::make_unique<Outgoing>();
  LinkHeader& header = header_of(file);
  header.ring_bytes = ring;
  header.format = format_word(kFabricFormat);
  link->lid = lid;
  link->life = generation = ++lives_;
  link->segment = segment_of(ring);
  link->requests = RingWriter(&header.requests, request_ring(file, ring));
  link->answers = RingReader(&header.answers, answer_ring(file, ring));
  link->file = std::move(file);
  link->peer = std::move(peer);
  fabric_.knock(*link->peer);
  open_.push_back(link.get());
  outgoing_[lid] = std::move(link);
  return SendStatus::kSent;
}

SendStatus ShmWire::send(uint16_t lid, const Packet& packet, const Payload& payload) {
  if (port_down(port_, now_)) return SendStatus::kSent;
  Outgoing& link = *outgoing_[lid];
  RegionBytes place{};
  const bool large = payload.count == 1 && payload.bytes >= SharedRegion::kLeastBytes;
  const uint32_t slot = large ? regions_.find(payload.chunk[0].memory, payload.bytes, &place.at)
                              : SharedRegions::kMax;
  if (slot != SharedRegions::kMax && (link.mapped_by_peer >> slot & 1) != 0) {
    place.id = regions_[slot].id();
    return link.send_in_region(packet, place);
  }
  if (!link.requests.room(record_bytes(payload.bytes))) return SendStatus::kFull;
  if (!append_sound(port_, link.requests, packet, payload)) return SendStatus::kFull;
  if (slot != SharedRegions::kMax) link.offer(slot, regions_[slot].offer());
  if (link.requests.unpublished() > kPublishAfter) link.publish();
  return SendStatus::kSent;
}

/// The request, with where its bytes are instead of them.
SendStatus ShmWire::Outgoing::send_in_region(const Packet& packet, const RegionBytes& place) {
  if (!requests.room(record_bytes(sizeof(place)))) return SendStatus::kFull;
  Packet lean = packet;
  lean.flags |= kInRegion;
  lean.payload = sizeof(place);
  requests.append(lean, payload_of(place));
  in_regions += packet.bytes;
  if (in_regions > kPublishAfter) publish();
  return SendStatus::kSent;
}

/// Once. Where there is no room, the next packet tries again; where the peer cannot, it is silent.
/// It never holds more than there are slots, so what had this one before goes first.
void ShmWire::Outgoing::offer(uint32_t slot, const RegionDescriptor& offer) {
  if ((offered >> slot & 1) != 0) return;
  tell_taken_back();
  if (!taken_back.empty() || !requests.room(record_bytes(sizeof(offer)))) return;
  offered |= uint64_t{1} << slot;
  requests.append(wire_record(PacketKind::kOffer, offer.id, sizeof(offer)), payload_of(offer));
}

void ShmWire::Outgoing::tell_taken_back() {
  while (!taken_back.empty() && requests.room(record_bytes(0))) {
    requests.append(wire_record(PacketKind::kTakeBack, taken_back.back(), 0), Payload{});
    taken_back.pop_back();
  }
}

void ShmWire::Outgoing::publish() {
  in_regions = 0;
  if (requests.unpublished() != 0) tell_others();
  requests.publish();
}

void ShmWire::take_back(uint32_t key) {
  regions_.remove(key, [this](uint32_t slot, uint64_t id) {
    const uint64_t bit = uint64_t{1} << slot;
    for (Outgoing* link : open_) {
      if ((link->offered & bit) != 0) link->taken_back.push_back(id);
      link->offered &= ~bit;
      link->mapped_by_peer &= ~bit;
    }
  });
}

uint64_t ShmWire::consumed(uint16_t lid) {
  Outgoing* link = lid <= kMaxSlots ? outgoing_[lid].get() : nullptr;
  return link == nullptr || link->lost ? ~0ull : link->requests.consumed();
}

bool ShmWire::lost(uint16_t lid, uint64_t generation) const {
  const Outgoing* link = lid <= kMaxSlots ? outgoing_[lid].get() : nullptr;
  return link == nullptr || link->lost || link->life != generation;
}

/// The NIC at `lid` would wait for answers that cannot come.
void ShmWire::refuse(uint16_t lid, int error) const {
  if (!is_shortage(error)) return;
  fabric_.refuse(lid, error);
  fabric_.report(name_link(lid, port_.lid), error, shortage(error, fabric_.directory()));
}

void ShmWire::accept(uint16_t lid) {
  std::shared_ptr<const Peer> peer = peer_at(lid);
  if (peer->error != 0) refuse(lid, peer->error);
  if (!peer->found()) return;
  Mapping file = fabric_.open_ring(lid, peer->generation);
  if (!file.valid()) return refuse(lid, errno);
  fabric_.unlink_opened_ring(lid, peer->generation);
  if (file.bytes() < kLinkHeaderBytes) return;
  LinkHeader& header = header_of(file);
  const uint64_t ring = header.ring_bytes;  // read once, then checked
  const bool sound = header.format == format_word(kFabricFormat) && ring >= kSmallestRing &&
                     ring <= kLargestRing && (ring & (ring - 1)) == 0 &&
                     file.bytes() == kLinkHeaderBytes + 2 * ring;
  if (!sound) return;
  std::erase_if(incoming_, [lid](const auto& link) {
    if (link->lid == lid) link->place();
    return link->lid == lid;
  });
  auto link = std::make_unique<Incoming>();
  link->lid = lid;
  link->port = &port_;
  link->segment = segment_of(ring);
  link->requests = RingReader(&header.requests, request_ring(file, ring));
  link->answers = RingWriter(&header.answers, answer_ring(file, ring));
  link->peer = std::move(peer);
  link->file = std::move(file);
  incoming_.push_back(std::move(link));
}

void ShmWire::Incoming::acknowledge(const Packet& packet) {
  if ((holds && held.destination != packet.destination) || has_late) release();
  held = packet;
  holds = true;
}

/// What came over the link is in memory afterwards.
void ShmWire::Incoming::place() const {
  if (holds) place_held(*port, held.source);
}

void ShmWire::Incoming::release() {
  if (!holds) return;
  place();
  holds = false;
  Payload payload;
  payload.clear();
  answers.append(held, payload);
  if (!has_late) return;
  has_late = false;
  payload.append(reinterpret_cast<const std::byte*>(&late_value), late.payload);
  answers.append(late, payload);
}

void ShmWire::Incoming::answer(const Packet& packet, const Payload& payload) {
  // It acknowledges what the atomic overtook as well.
  const bool overtook = port->pci_atomics && right_for(packet.opcode) == kRemoteAtomic;
  if (overtook && holds && !has_late && held.destination == packet.destination &&
      payload.count == 1 && payload.bytes <= sizeof late_value) {
    std::memcpy(&late_value, payload.chunk[0].memory, payload.bytes);
    late = packet;
    has_late = true;
    return;
  }
  release();
  if (append_sound(*port, answers, packet, payload)) return;
  Packet refusal = packet;
  refusal.kind = PacketKind::kRefuse;
  refusal.detail = static_cast<uint8_t>(mlx5::Syndrome::kRemoteAccess);
  refusal.payload = 0;
  answers.append(refusal, Payload{});
}

/// An offer, or the end of one. What cannot be mapped is not answered; false if it is neither.
bool ShmWire::Incoming::borrow(const Packet& packet, const Payload& payload) {
  const auto held_already = [&](const auto& one) { return one.id() == packet.address; };
  if (packet.kind == PacketKind::kTakeBack) {
    std::erase_if(peer_regions, held_already);
    return true;
  }
  RegionDescriptor offer;
  if (packet.kind != PacketKind::kOffer || !copy_out(payload, &offer) ||
      offer.id != packet.address || peer_regions.size() >= SharedRegions::kMax ||
      std::ranges::any_of(peer_regions, held_already)) {
    return false;
  }
  auto mapped = PeerRegion::open(offer);
  if (!mapped) return true;
  peer_regions.push_back(std::move(*mapped));
  answer(wire_record(PacketKind::kBorrowed, offer.id, 0), Payload{});
  return true;
}

/// Makes `payload` the bytes in the region. False if they are not.
bool ShmWire::Incoming::find_in_region(const Packet& packet, Payload& payload) const {
  RegionBytes place;
  if (!copy_out(payload, &place)) return false;
  for (const auto& one : peer_regions) {
    const std::byte* const at = one.id() == place.id ? one.at(place.at, packet.bytes) : nullptr;
    if (at == nullptr) continue;
    payload.clear();
    payload.append(at, packet.bytes);
    return true;
  }
  return false;
}

/// Serves requests of one link until none is left, or the answers have no room.
bool ShmWire::serve(Incoming& link) {
  Packet packet;
  Payload payload;
  int served = 0;
  const bool down = port_down(port_, now_);
  RequestServer<Incoming> server(port_, link.lid, link, now_);
  for (; served < kPacketsPerRound && link.requests.peek(packet, payload); ++served) {
    if (served == 0) hear_others();
    const bool reads = packet.opcode == mlx5::Opcode::kRdmaRead;
    if (packet.payload > link.segment || packet.bytes > link.segment ||
        ((packet.flags & kInRegion) != 0 && !link.find_in_region(packet, payload))) {
      link.lost = true;
      break;
    }
    const uint64_t answer = record_bytes(reads ? packet.bytes : sizeof(uint64_t));
    if (!link.answers.room(answer + 2 * record_bytes(0) + record_bytes(sizeof link.late_value)))
      break;
    if (packet.kind != PacketKind::kRequest) {
      if (!link.borrow(packet, payload)) {
        link.lost = true;
        break;
      }
    } else if (!down) {
      server.serve(packet, payload);
    }
    link.requests.take();
  }
  const bool keeps = link.holds && port_.placement != nullptr &&
                     port_.placement->keeps(find_qp(port_, link.held.source), now_);
  if (!keeps) link.release();
  if (served > 0) tell_others();
  link.answers.publish();
  link.requests.publish();
  if (link.requests.broken() || link.answers.broken()) link.lost = true;
  return served > 0;
}

bool ShmWire::take_answers(Outgoing& link) {
  const bool down = port_down(port_, now_);
  Packet packet;
  Payload payload;
  int taken = 0;
  for (; taken < kPacketsPerRound && link.answers.peek(packet, payload); ++taken) {
    if (taken == 0) hear_others();
    if (packet.kind == PacketKind::kBorrowed) {
      const uint32_t slot = regions_.find(packet.address);
      if (slot != SharedRegions::kMax) link.mapped_by_peer |= link.offered & uint64_t{1} << slot;
    } else if (!down) {
      take_answer(port_, packet, payload, now_);
    }
    link.answers.take();
  }
  link.answers.publish();
  return taken > 0;
}

/// The other end cannot take it, and has said so.
bool ShmWire::refused(const Outgoing& link) const {
  const int error = fabric_.refused_by(*link.peer);
  if (error == 0) return false;
  fabric_.report(name_link(port_.lid, link.lid), error,
                 error == EMFILE
                     ? "those of the other process: raise its ulimit -n (docs/running.md)"
                     : "the other process says more itself");
  return true;
}

void ShmWire::lose(Outgoing& link) {
  fabric_.unlink_created_ring(link.lid, link.peer->generation);
  link.lost = true;
  link.file = {};
  link.peer = {};
}

bool ShmWire::drop_lost() {
  const bool look = now_ >= next_look_;
  if (look) next_look_ = now_ + kLookEvery;
  const size_t before = open_.size() + incoming_.size();
  std::erase_if(open_, [&](Outgoing* link) {
    const bool broken = link->requests.broken() || link->answers.broken();
    if (!broken && (!look || (fabric_.alive(*link->peer) && !refused(*link)))) return false;
    // Answers written before the peer went still count.
    while (!broken && take_answers(*link)) {
    }
    lose(*link);
    return true;
  });
  std::erase_if(incoming_, [&](const std::unique_ptr<Incoming>& link) {
    const bool gone = link->lost || (look && !fabric_.alive(*link->peer) && !serve(*link));
    if (gone) link->place();
    return gone;
  });
  return open_.size() + incoming_.size() != before;
}

bool ShmWire::poll(uint64_t now) {
  now_ = now;
  for (const uint16_t lid : fabric_.knocks()) accept(lid);
  bool worked = false;
  for (const auto& link : incoming_) worked |= serve(*link);
  for (Outgoing* link : open_) worked |= take_answers(*link);
  worked |= drop_lost();
  return worked;
}

void ShmWire::flush() {
  for (Outgoing* link : open_) {
    link->tell_taken_back();
    link->publish();
  }
}

}  // namespace peal::softnic

// SPDX-License-Identifier: Apache-2.0
//
// The files of the shared-memory wire as an impostor of the same user writes them: ring headers,
// counters, records, offers of memory, slot pages, file names. The NIC that maps them may drop a
// link; it must not read or write outside its mappings and its keys' memory, and each look must
// end.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "softnic/wire/wire.h"
#include "tests/fuzz/station.h"

namespace peal::fuzz {
namespace {

constexpr uint64_t kRing = 32 << 10;  // the smallest
constexpr size_t kSlotPageBytes = 4096;
constexpr uint64_t kRegionBytes = 64 << 10;

/// The folder and two NICs' places in it, the same for all inputs: claiming a slot takes longer
/// than a run.
struct Ground {
  Ground() : home(settings()), away(settings()) {}
  ~Ground() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  const Settings& settings() {
    chosen.directory = folder;
    return chosen;
  }
  static std::string make_folder() {
    char name[] = "/dev/shm/peal-fuzz-XXXXXX";
    require(mkdtemp(name) != nullptr);
    return name;
  }
  /// A file that the impostor may lend.
  static RegionDescriptor make_offer() {
    const int fd = memfd_create("lent", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct stat info;
    require(ftruncate(fd, kRegionBytes) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0 &&
            fstat(fd, &info) == 0);
    return {1, getpid(), fd, info.st_dev, info.st_ino, 0, kRegionBytes};
  }

  std::string folder = make_folder();
  Settings chosen;
  Fabric home;
  Fabric away;
  PresentedDevice device;
  std::vector<GidTableEntry> gids = gid_table(device, home.lid(), home.guid());
  Router router{home, device, gids};
  RegionDescriptor lent = make_offer();
};

Ground& ground() {
  static Ground it;
  return it;
}

class Run {
 public:
  explicit Run(Input& input)
      : in_(input),
        home_(input, ground().home.lid(), ground().away.lid()),
        wire_(*home_.port, ground().home, ground().router),
        slot_(ground().away.find(ground().home.lid())),
        own_slot_(ground().home.find(ground().away.lid())) {
    require(slot_.found() && own_slot_.found());
    std::memcpy(saved_.data(), slot_.slot.memory(), kSlotPageBytes);
    std::memcpy(own_saved_.data(), own_slot_.slot.memory(), kSlotPageBytes);
  }
  ~Run() {
    std::memcpy(slot_.slot.memory(), saved_.data(), kSlotPageBytes);
    std::memcpy(own_slot_.slot.memory(), own_saved_.data(), kSlotPageBytes);
    static_cast<void>(ground().home.knocks());
    ground().away.unlink_created_ring(ground().home.lid(), ground().home.generation());
    ground().home.unlink_created_ring(ground().away.lid(), ground().away.generation());
  }

  void go() {
    for (int actions = 0; actions < 100 && !in_.done(); ++actions) {
      act();
      home_.check();
    }
  }

 private:
  void act() {
    switch (in_.below(14)) {
      case 0:
        return offer_link();
      case 1:
        return write_header();
      case 2:
      case 3:
      case 4:
        return write_request();
      case 5:
        return write_bytes();
      case 6:
        return post();
      case 7:
        return open_answers();
      case 8:
      case 9:
        return write_answer();
      case 10:
        return write_slot();
      case 11:
        return offer_memory();
      case 12:
        return write_lent();
      default:
        now_ += uint64_t{in_.byte()} << in_.below(24);
        static_cast<void>(wire_.poll(now_));
        wire_.flush();
        return;
    }
  }

  /// A ring file of a size that is right, or not.
  void offer_link() {
    const uint8_t how = in_.byte();
    const size_t sound = kLinkHeaderBytes + 2 * kRing;
    const size_t bytes = (how & 7) == 7 ? 1 + in_.number<uint16_t>() * 4ull : sound;
    ground().away.unlink_created_ring(ground().home.lid(), ground().home.generation());
    offered_ = ground().away.create_ring(ground().home.lid(), ground().home.generation(), bytes);
    tail_ = 0;
    if (offered_.valid() && bytes >= sizeof(LinkHeader)) {
      auto& header = *reinterpret_cast<LinkHeader*>(offered_.memory());
      header.format = format_word(kFabricFormat) ^ ((how & 0x38) == 0x38 ? 1 : 0);
      header.ring_bytes = (how & 0xc0) == 0xc0 ? in_.number<uint64_t>() : kRing;
      unsound_ = bytes != sound || header.format != format_word(kFabricFormat) ||
                 header.ring_bytes != kRing;
    }
    ground().away.knock(slot_);
    static_cast<void>(wire_.poll(now_));
  }

  static bool reaches(const Mapping& file, size_t bytes) {
    return file.valid() && file.bytes() >= bytes;
  }

  void write_header() {
    Mapping& file = in_.flag() ? offered_ : asked_;
    if (!reaches(file, sizeof(LinkHeader))) return;
    auto& header = *reinterpret_cast<LinkHeader*>(file.memory());
    uint64_t* const words[] = {&header.requests.tail, &header.requests.head, &header.answers.tail,
                               &header.answers.head, &header.ring_bytes};
    uint64_t* word = words[in_.below(5)];
    unsound_ = false;  // whatever it was, it has changed
    store<uint64_t>(word, in_.flag() ? in_.number<uint64_t>() : *word + 64 * in_.byte());
  }

  /// A record at `tail` of a ring; the payload is whatever lay there.
  void write_record(const Mapping& file, size_t ring, RingCounters LinkHeader::*counters,
                    uint64_t* tail, const Packet& packet) {
    const size_t at = ring + (*tail & (kRing - 1));
    if (!reaches(file, at + sizeof(packet))) return;
    auto& header = *reinterpret_cast<LinkHeader*>(file.memory());
    std::memcpy(file.memory() + at, &packet, sizeof(packet));
    *tail += record_bytes(packet.payload);
    store<uint64_t>(&(header.*counters).tail, *tail);
  }
  Packet packet() {
    static constexpr uint8_t kOpcodes[] = {0x08, 0x09, 0x10, 0x11, 0x12, 0x14, 0x15, 0x0a};
    static constexpr uint32_t kLengths[] = {0, 4, 8, 32, 99, 1024, 4096, 4097, 32 << 10, 1u << 30};
    Packet packet = {};
    const uint8_t shape = in_.byte();
    packet.opcode = static_cast<mlx5::Opcode>(in_.choice(kOpcodes));
    packet.flags = static_cast<uint8_t>(in_.below(8));
    packet.destination = packet.source = 1 + in_.below(kQps);
    packet.address = static_cast<uint64_t>(in_.number<int16_t>());
    packet.rkey = home_.key(in_.below(kKeys));
    packet.total = in_.choice(kLengths);
    packet.bytes = (shape & 1) != 0 ? in_.choice(kLengths) : packet.total;
    packet.offset = (shape & 2) != 0 ? in_.choice(kLengths) : 0;
    packet.payload = (shape & 4) != 0   ? in_.number<uint32_t>()
                     : (shape & 8) != 0 ? in_.choice(kLengths)
                                        : packet.bytes;
    packet.dc_key = kDcKey;
    packet.epoch = shape >> 6;
    packet.detail = kDefaultPkey;
    return packet;
  }
  void write_request() {
    Packet it = packet();
    it.kind = in_.below(8) != 7 ? PacketKind::kRequest : static_cast<PacketKind>(in_.byte());
    const uint32_t qpn = it.destination < kQps ? it.destination : 0;
    it.psn = home_.qp(qpn).receive.expected_psn + static_cast<uint32_t>(in_.below(4) % 3);
    write_record(offered_, kLinkHeaderBytes, &LinkHeader::requests, &tail_, it);
    if (!in_.flag()) return;
    static_cast<void>(wire_.poll(now_));
    // Nothing is taken of a file that is not what it says.
    if (unsound_ && reaches(offered_, sizeof(LinkHeader))) {
      const auto& header = *reinterpret_cast<const LinkHeader*>(offered_.memory());
      require(load<uint64_t>(&header.requests.head) == 0);
    }
  }
  /// A record of the wire itself: an offer that is sound, or not, or the end of one.
  void offer_memory() {
    const uint8_t how = in_.byte();
    RegionDescriptor offer = ground().lent;
    offer.id = in_.below(4);
    uint64_t* const words[] = {&offer.device, &offer.inode, &offer.offset, &offer.bytes};
    if ((how & 1) != 0) *words[how >> 1 & 3] = in_.number<uint64_t>();
    if ((how & 8) != 0) offer.fd = in_.byte();
    Packet packet = {};
    packet.kind = (how & 0x30) == 0x30 ? PacketKind::kTakeBack : PacketKind::kOffer;
    packet.address = (how & 0x40) != 0 ? in_.byte() : offer.id;
    packet.payload = (how & 0x80) != 0 ? in_.byte() : sizeof(offer);
    write_behind_next(&offer, sizeof(offer));
    write_record(offered_, kLinkHeaderBytes, &LinkHeader::requests, &tail_, packet);
  }
  /// A request whose bytes are lent.
  void write_lent() {
    Packet it = packet();
    it.kind = PacketKind::kRequest;
    it.flags |= kInRegion;
    it.psn = home_.qp(it.destination < kQps ? it.destination : 0).receive.expected_psn;
    it.payload = in_.below(8) != 7 ? sizeof(RegionBytes) : in_.byte();
    const RegionBytes place{in_.below(4),
                            in_.flag() ? in_.number<uint64_t>() : in_.below(kRegionBytes)};
    write_behind_next(&place, sizeof(place));
    write_record(offered_, kLinkHeaderBytes, &LinkHeader::requests, &tail_, it);
    static_cast<void>(wire_.poll(now_));
  }
  /// What the next request in the ring is followed by; not across the ring's end.
  void write_behind_next(const void* from, size_t bytes) {
    const size_t at = kLinkHeaderBytes + ((tail_ + sizeof(Packet)) & (kRing - 1));
    if (reaches(offered_, at + bytes)) std::memcpy(offered_.memory() + at, from, bytes);
  }
  void write_bytes() {
    Mapping& file = in_.flag() ? offered_ : asked_;
    const size_t at = kLinkHeaderBytes + in_.number<uint32_t>() % (2 * kRing);
    const auto bytes = in_.take(in_.below(65));
    for (size_t i = 0; i < bytes.size() && reaches(file, at + i + 1); ++i) {
      file.memory()[at + i] = std::byte{bytes[i]};
    }
  }

  /// A request of the NIC's own client, which makes it set up a link and send.
  void post() {
    constexpr uint32_t kQpn = 1;
    const bool reads = in_.flag();
    const uint64_t where = uint64_t{in_.below(1024)} << 32 | home_.key(1);
    const uint64_t words[] = {0, 0, 0x100, uint64_t{0x4321} << 32, where, 0};
    uint64_t wqe[6];
    for (int i = 0; i < 6; ++i) wqe[i] = Be64(words[i]).raw;
    const mlx5::ControlSegment control{Be32((reads ? 0x10 : 0x08) | (posted_ & 0xffff) << 8),
                                       Be32(kQpn << 8 | 3), Be32(8u), Be32(0u)};
    std::memcpy(wqe, &control, sizeof(control));
    home_.put(kQpn, posted_++, wqe, sizeof(wqe));
    home_.set_doorbell(kQpn, posted_);
    static_cast<void>(advance(*home_.port, wire_, home_.qp(kQpn), now_, 16));
    wire_.flush();
  }
  void open_answers() {
    Mapping file = ground().away.open_ring(ground().home.lid(), ground().home.generation());
    if (!file.valid()) return;
    asked_ = std::move(file);
    asked_ring_ = (asked_.bytes() - kLinkHeaderBytes) / 2;
    answer_tail_ = 0;
  }
  void write_answer() {
    Packet it = packet();
    it.kind = static_cast<PacketKind>(in_.below(8));
    const uint32_t qpn = it.destination < kQps ? it.destination : 0;
    const Sender& send = home_.qp(qpn).send;
    it.psn = send.acked_psn + in_.below(8);
    write_record(asked_, kLinkHeaderBytes + asked_ring_, &LinkHeader::answers, &answer_tail_, it);
    if (in_.flag()) static_cast<void>(wire_.poll(now_));
  }
  /// The NIC's own slot page, which all may write for the knocks, or the impostor's.
  void write_slot() {
    const Peer& peer = in_.flag() ? slot_ : own_slot_;
    const size_t at = in_.number<uint16_t>() % 256;
    const auto bytes = in_.take(in_.below(17));
    for (size_t i = 0; i < bytes.size(); ++i) peer.slot.memory()[at + i] = std::byte{bytes[i]};
  }

  Input& in_;
  Station home_;
  ShmWire wire_;
  Peer slot_;
  Peer own_slot_;
  Mapping offered_;
  Mapping asked_;
  size_t asked_ring_ = 0;
  bool unsound_ = false;
  uint64_t tail_ = 0;
  uint64_t answer_tail_ = 0;
  uint64_t now_ = 1;
  uint32_t posted_ = 0;
  std::array<std::byte, kSlotPageBytes> saved_;
  std::array<std::byte, kSlotPageBytes> own_saved_;
};

}  // namespace
}  // namespace peal::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  peal::fuzz::Input input(data, bytes);
  peal::fuzz::Run(input).go();
  return 0;
}

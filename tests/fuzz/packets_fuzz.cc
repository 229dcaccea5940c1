// SPDX-License-Identifier: Apache-2.0
//
// A peer that says anything: requests no requester would send, answers to what was never asked,
// sequence numbers from anywhere. What a wire checks before it hands a packet on (lengths against
// its segment) holds here too; nothing else does.
#include "tests/fuzz/parcel_wire.h"
#include "tests/fuzz/station.h"

namespace peal::fuzz {
namespace {

constexpr uint16_t kHome = 1;
constexpr uint16_t kAway = 2;
constexpr uint64_t kSecond = 1'000'000'000;

class Run {
 public:
  explicit Run(Input& input)
      : in_(input), home_(input, kHome, kAway), wire_{home_.port.get(), kAway} {}

  void go() {
    post_requests();
    for (int actions = 0; actions < 200 && !in_.done(); ++actions) {
      act();
      home_.check();
    }
    settle();
  }

 private:
  void act() {
    switch (in_.below(8)) {
      case 0:
      case 1:
      case 2:
        return request();
      case 3:
      case 4:
        return answer();
      case 5:
        static_cast<void>(
            advance(*home_.port, wire_, home_.qp(1 + in_.below(3)), now_, in_.byte()));
        wire_.requests.clear();
        wire_.taken = wire_.sent;
        return;
      case 6:
        now_ += uint64_t{in_.byte()} << in_.below(28);
        return;
      default:
        return change();
    }
  }

  /// Something to answer: one request of each kind on the queue pair with a peer.
  void post_requests() {
    constexpr uint32_t kQpn = 1;
    const auto post = [&](uint32_t head, std::initializer_list<uint64_t> words) {
      const auto units = static_cast<uint32_t>(1 + words.size() / 2);
      std::vector<uint64_t> wqe(2 + words.size());
      std::copy(words.begin(), words.end(), wqe.begin() + 2);
      for (uint64_t& word : wqe) word = Be64(word).raw;
      const mlx5::ControlSegment control{Be32(head | posted_ << 8), Be32(kQpn << 8 | units),
                                         Be32(8u), Be32(0u)};
      std::memcpy(wqe.data(), &control, sizeof(control));
      if (posted_ + (units + 3) / 4 > 1u << home_.log_blocks) return;
      home_.put(kQpn, posted_, wqe.data(), wqe.size() * sizeof(uint64_t));
      posted_ += (units + 3) / 4;
      home_.set_doorbell(kQpn, posted_);
    };
    const uint64_t remote = uint64_t{0x4321} << 32;
    const uint64_t lkey = home_.key(1);
    post(0x10, {0x100, remote, 300ull << 32 | lkey, 0});              // READ
    post(0x08, {0x100, remote, 300ull << 32 | lkey, 64});             // WRITE
    post(0x12, {0x100, remote, 7, 0, 8ull << 32 | lkey, 512});        // fetch-add
    post(0x10, {0x100, remote, 9ull << 32 | home_.key(2), 0x10000});  // READ
    post(0x00, {});                                                   // NOP
    post(0x09, {0x100, remote, 4ull << 32 | lkey, 600});              // WRITE with immediate
    static_cast<void>(advance(*home_.port, wire_, home_.qp(kQpn), now_, 16));
    wire_.requests.clear();
    wire_.taken = wire_.sent;
  }

  /// A number near `base`, or any.
  uint32_t near(uint32_t base) {
    const uint8_t how = in_.byte();
    if (how == 255) return in_.number<uint32_t>();
    return base + static_cast<uint32_t>(static_cast<int8_t>(how) / 8);
  }
  uint32_t length() {
    static constexpr uint32_t kLengths[] = {0, 1, 2, 4, 8, 16, 32, 99, 128, 256, 1024};
    return in_.flag() ? in_.choice(kLengths) : in_.number<uint32_t>();
  }
  std::vector<std::byte> content() {
    std::vector<std::byte> bytes(in_.choice({0u, 1u, 4u, 8u, 32u, 32u, 99u, ParcelWire::kSegment}));
    const auto given = in_.take(in_.below(33));
    for (size_t i = 0; i < given.size() && i < bytes.size(); ++i) bytes[i] = std::byte{given[i]};
    return bytes;
  }
  Packet packet() {
    static constexpr uint8_t kOpcodes[] = {0x08, 0x09, 0x10, 0x11, 0x12, 0x14, 0x15, 0x0a, 0x00};
    static constexpr uint64_t kBases[] = {0, 0, 0x10000, ~0ull - 63};
    Packet packet = {};
    const uint8_t shape = in_.byte();
    packet.opcode = static_cast<mlx5::Opcode>((shape & 1) != 0 ? in_.choice(kOpcodes) : in_.byte());
    packet.opmod = in_.byte();
    packet.flags = in_.byte();
    packet.destination = near(1 + shape % 4);
    packet.source = near(1 + shape % 4);
    packet.address = in_.choice(kBases) + static_cast<uint64_t>(in_.number<int16_t>());
    packet.rkey = (shape & 0x80) != 0 ? in_.number<uint32_t>() : home_.key(in_.below(kKeys + 1));
    packet.total = length();
    packet.offset = (shape & 0x40) != 0 ? length() : 0;
    packet.bytes = std::min((shape & 0x20) != 0 ? length() : packet.total, ParcelWire::kSegment);
    packet.immediate = in_.byte();
    packet.dc_key = kDcKey ^ (shape >> 4 & 1);
    packet.epoch = in_.below(4);
    const uint8_t timer = in_.byte();
    packet.detail = static_cast<uint16_t>(in_.byte() << 8 | timer);
    return packet;
  }
  /// In one piece, or in two as at the end of a ring.
  Payload payload_of(const std::vector<std::byte>& bytes) {
    Payload payload;
    payload.clear();
    const auto all = static_cast<uint32_t>(bytes.size());
    const uint32_t first = in_.flag() ? all : in_.below(all + 1);
    if (first > 0) payload.append(bytes.data(), first);
    if (first < all) payload.append(bytes.data() + first, all - first);
    return payload;
  }

  void request() {
    Packet it = packet();
    it.kind = PacketKind::kRequest;
    if (it.detail % 8 != 0) it.detail = kDefaultPkey;  // else mostly one of another partition
    const uint32_t qpn = it.destination < kQps ? it.destination : 0;
    it.psn = near(home_.qp(qpn).receive.expected_psn) & (in_.flag() ? ~0u : kPsnMask);
    const auto bytes = content();
    it.payload = static_cast<uint32_t>(bytes.size());
    const uint16_t from = in_.flag() ? kAway : in_.number<uint16_t>();
    RequestServer<ParcelWire> server(*home_.port, from, wire_, now_);
    server.serve(it, payload_of(bytes));
    wire_.answers.clear();  // their bytes have been read by now
  }
  void answer() {
    Packet it = packet();
    it.kind = static_cast<PacketKind>(in_.flag() ? 2 + in_.below(6) : in_.byte());
    const uint32_t qpn = it.destination < kQps ? it.destination : 0;
    const Sender& send = home_.qp(qpn).send;
    const bool oldest = in_.flag() && !send.drained();
    it.psn = near(oldest ? home_.qp(qpn).send.oldest().first_psn : send.psn);
    const auto bytes = content();
    it.payload = static_cast<uint32_t>(bytes.size());
    take_answer(*home_.port, it, payload_of(bytes), now_);
  }
  void change() {
    const uint32_t qpn = 1 + in_.below(4);
    switch (in_.below(5)) {
      case 0:
        home_.post_receives(qpn, in_.byte());
        return;
      case 1:
        home_.renew(in_.below(kKeys));
        return;
      case 2:
        home_.qp(qpn).state = static_cast<QpState>(in_.below(7));
        ++home_.lived;  // no command leads back from ERR like that: it may fail once more
        return;
      case 3:
        home_.set_doorbell(qpn, posted_ + in_.byte());
        return;
      default:
        home_.reset(qpn);
        if (qpn == 1) posted_ = 0;
        return;
    }
  }

  /// Nobody answers any more: queues whose retries end must end.
  void settle() {
    for (int second = 0; second < 400; ++second, now_ += kSecond) {
      bool busy = false;
      for (uint32_t qpn = 1; qpn < 4; ++qpn) {
        QueuePair& qp = home_.qp(qpn);
        for (int i = 0; i < 64 && advance(*home_.port, wire_, qp, now_, 64); ++i) {
          wire_.requests.clear();
          wire_.taken = wire_.sent;
        }
        const bool patient = qp.attributes.ack_timeout == 0 || qp.attributes.rnr_retry == 7;
        busy |= unsettled(qp) && !patient;
      }
      home_.check();
      home_.port->events.count = 0;  // somebody takes them
      if (!busy) return;
    }
    require(false);
  }

  Input& in_;
  Station home_;
  ParcelWire wire_;
  uint64_t now_ = 1;
  uint32_t posted_ = 0;
};

}  // namespace
}  // namespace peal::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  peal::fuzz::Input input(data, bytes);
  peal::fuzz::Run(input).go();
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// A client that writes anything into its send rings and doorbell records, at any time, over a wire
// that loses, repeats and reorders. The engine may refuse all of it; it must not touch memory that
// no valid key covers, and every queue whose retries end must come to rest.
#pragma once

#include "softnic/engine/faults.h"
#include "tests/fuzz/parcel_wire.h"
#include "tests/fuzz/station.h"

namespace peal::fuzz {

inline constexpr uint16_t kHome = 1;
inline constexpr uint16_t kAway = 2;

inline constexpr mlx5::Opcode kOpcodes[] = {
    mlx5::Opcode::kNop,
    mlx5::Opcode::kRdmaWrite,
    mlx5::Opcode::kRdmaWriteImm,
    mlx5::Opcode::kRdmaRead,
    mlx5::Opcode::kAtomicCompareSwap,
    mlx5::Opcode::kAtomicFetchAdd,
    mlx5::Opcode::kAtomicMaskedCompareSwap,
    mlx5::Opcode::kAtomicMaskedFetchAdd,
    mlx5::Opcode::kWait,
    mlx5::Opcode::kDump,
    mlx5::Opcode::kSend,
};

class EngineRun {
 public:
  explicit EngineRun(Input& input, Faults* faults = nullptr)
      : in_(input),
        home_(input, kHome, kAway),
        away_(input, kAway, kHome),
        wire_{home_.port.get(), kAway} {
    if (in_.flag()) wire_.peer = away_.port.get();
    home_.port->faults = faults;
  }

  void go() {
    for (int actions = 0; actions < 200 && !in_.done(); ++actions) {
      attend_faults();
      act();
      home_.check();
      away_.check();
    }
    settle();
  }

 private:
  /// As the driver's rounds do.
  void attend_faults() {
    if (home_.port->faults == nullptr) return;
    home_.port->faults->begin_timed(now_);
    release_late(*home_.port, now_);
  }
  uint32_t sending_qp() { return 1 + in_.below(3); }

  void act() {
    switch (in_.below(12)) {
      case 0:
      case 1:
        return post_sound();
      case 2:
        return post_raw();
      case 3: {
        const uint32_t qpn = sending_qp();
        return home_.set_doorbell(qpn, in_.flag() ? in_.number<uint16_t>() : posted_[qpn]);
      }
      case 4:
        static_cast<void>(advance(*home_.port, wire_, home_.qp(sending_qp()), now_, in_.byte()));
        return;
      case 5:
        now_ += uint64_t{in_.byte()} << in_.below(28);
        return;
      case 6:
        return serve();
      case 7:
        return answer();
      case 8:
        return meddle();
      case 9:
        home_.post_receives(sending_qp(), in_.byte());
        return away_.post_receives(sending_qp(), in_.byte());
      case 10:
        return home_.consume_cqes(1 + in_.below(2), in_.byte());
      default:
        return change_state();
    }
  }

  template <class Segment>
  void add(const Segment& segment) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&segment);
    wqe_.insert(wqe_.end(), bytes, bytes + sizeof(segment));
  }
  void add_data() {
    const uint32_t bytes = in_.byte();
    if ((bytes & 0x80) != 0) {
      const auto content = in_.take(bytes & 0x7f);
      add(Be32(mlx5::kInlineFlag | static_cast<uint32_t>(content.size())));
      for (const uint8_t byte : content) wqe_.push_back(std::byte{byte});
      while (wqe_.size() % 16 != 0) wqe_.push_back(std::byte{0});
      return;
    }
    const uint32_t key = in_.below(kKeys + 1);
    const uint64_t where = address(home_, key, bytes);
    add(mlx5::DataSegment{Be32(bytes), Be32(home_.key(key)), Be64(where)});
  }
  /// Somewhere, or just where `bytes` bytes of the key's memory end, give or take a little.
  uint64_t address(Station& station, uint32_t key, uint32_t bytes) {
    static constexpr uint64_t kBases[] = {0, 0x10000, ~0ull - 63, 56};
    if (in_.flag() && key < kKeys) {
      const Key& it = station.keys[key];
      return it.iova + it.bytes - bytes + in_.below(8) / 5;
    }
    return in_.choice(kBases) + static_cast<uint64_t>(in_.number<int16_t>() >> in_.below(8));
  }

  /// A request of the right shape; its addresses, lengths and keys are the input's.
  void post_sound() {
    const uint32_t qpn = sending_qp();
    const mlx5::Opcode opcode = in_.choice(kOpcodes);
    const uint8_t modes = in_.byte();
    const bool wide = in_.flag();
    const bool masked_swap = opcode == mlx5::Opcode::kAtomicMaskedCompareSwap;
    wqe_.assign(16, std::byte{0});
    if (qpn == 3)
      add(mlx5::CompactAddressVector{Be64(kDcKey ^ (modes >> 6)), Be32(4u), Be32(kAway)});
    if (opcode == mlx5::Opcode::kWait) {
      add(mlx5::WaitSegment{Be64(0ull), Be32(in_.byte()), Be32(1 + in_.below(3))});
    } else if (opcode != mlx5::Opcode::kNop && opcode != mlx5::Opcode::kDump) {
      const uint32_t key = in_.below(kKeys + 1);
      const uint64_t where = address(away_, key, in_.byte());
      add(mlx5::RemoteAddressSegment{Be64(where), Be32(away_.key(key)), Be32(0u)});
    }
    if (opcode >= mlx5::Opcode::kAtomicCompareSwap &&
        opcode <= mlx5::Opcode::kAtomicMaskedFetchAdd) {
      add(mlx5::AtomicSegment{Be64(in_.number<uint64_t>()), Be64(in_.number<uint16_t>())});
      if (masked_swap && wide) add(mlx5::AtomicSegment{Be64(~0ull), Be64(~0ull)});
    }
    const uint32_t lists = opcode == mlx5::Opcode::kNop ? 0 : in_.below(4);
    for (uint32_t i = 0; i < lists; ++i) add_data();
    const uint32_t opmod = wide ? mlx5::kOpmodAtomic8 : mlx5::kOpmodAtomic4;
    finish(qpn, opmod << 24 | static_cast<uint32_t>(opcode), modes & 0xec);
  }
  /// Any bytes behind a control segment that finds its way.
  void post_raw() {
    const uint32_t qpn = sending_qp();
    const auto head = in_.number<uint32_t>();
    const uint8_t modes = in_.byte();
    wqe_.assign(16, std::byte{0});
    for (const uint8_t byte : in_.take(in_.byte())) wqe_.push_back(std::byte{byte});
    finish(qpn, head & 0xff0000ff, modes);
  }
  void finish(uint32_t qpn, uint32_t head, uint32_t modes) {
    const auto units = static_cast<uint32_t>((wqe_.size() + 15) / 16);
    mlx5::ControlSegment control;
    control.opmod_idx_opcode = Be32(head | (posted_[qpn] & 0xffffu) << 8);
    control.qpn_ds = Be32(qpn << 8 | (units & 0x3f));
    control.signature_fm_ce_se = Be32(modes);
    control.imm = Be32(0x01020304u);
    std::memcpy(wqe_.data(), &control, sizeof(control));
    home_.put(qpn, posted_[qpn], wqe_.data(), wqe_.size());
    posted_[qpn] = static_cast<uint16_t>(posted_[qpn] + (units + 3) / 4);
    home_.set_doorbell(qpn, posted_[qpn]);
  }
  /// Changes the ring under the engine, or the keys.
  void meddle() {
    const uint32_t qpn = sending_qp();
    if (in_.flag()) return (in_.flag() ? home_ : away_).renew(in_.below(kKeys));
    const uint64_t block = in_.byte();
    const auto bytes = in_.take(1 + in_.below(32));
    home_.put(qpn, block, bytes.data(), bytes.size());
  }
  void change_state() {
    const uint32_t qpn = sending_qp();
    switch (in_.below(4)) {
      case 0:
        home_.qp(qpn).state = QpState::kError;
        return;
      case 1:
        wire_.gone = in_.flag();
        return;
      default:
        home_.reset(qpn);
        away_.reset(qpn == 3 ? 4 : qpn);
        posted_[qpn] = 0;
        return;
    }
  }

  void serve() {
    if (wire_.requests.empty()) return;
    const uint8_t fate = in_.byte();
    const size_t which = (fate >> 4) % wire_.requests.size();
    const Parcel parcel = wire_.requests[which];
    if ((fate & 1) == 0) wire_.requests.erase(wire_.requests.begin() + static_cast<long>(which));
    wire_.taken = wire_.sent;
    RequestServer<ParcelWire> server(*away_.port, kHome, wire_, now_);
    if ((fate & 6) != 6) server.serve(parcel.packet, parcel.payload());
  }
  void answer() {
    if (wire_.answers.empty()) return;
    const uint8_t fate = in_.byte();
    const size_t which = (fate >> 4) % wire_.answers.size();
    const Parcel parcel = wire_.answers[which];
    if ((fate & 1) == 0) wire_.answers.erase(wire_.answers.begin() + static_cast<long>(which));
    if ((fate & 6) != 6) take_answer(*home_.port, parcel.packet, parcel.payload(), now_);
  }

  /// Lets everything arrive and all deadlines pass.
  void settle() {
    wire_.answers.clear();
    wire_.requests.clear();
    wire_.taken = wire_.sent;
    for (int second = 0; second < 400; ++second, now_ += 1'000'000'000) {
      bool busy = false;
      attend_faults();
      for (uint32_t qpn = 1; qpn < 4; ++qpn) {
        while (advance(*home_.port, wire_, home_.qp(qpn), now_, 64)) deliver_all();
        busy |= unsettled(home_.qp(qpn)) && must_end(home_.qp(qpn));
      }
      home_.check();
      away_.check();
      home_.port->events.count = 0;  // somebody takes them
      if (!busy) return;
    }
    require(home_.port->faults != nullptr);  // a plan may hold a queue up for good
  }
  void deliver_all() {
    RequestServer<ParcelWire> server(*away_.port, kHome, wire_, now_);
    for (; !wire_.requests.empty(); wire_.requests.pop_front()) {
      server.serve(wire_.requests.front().packet, wire_.requests.front().payload());
    }
    wire_.taken = wire_.sent;
    for (; !wire_.answers.empty(); wire_.answers.pop_front()) {
      take_answer(*home_.port, wire_.answers.front().packet, wire_.answers.front().payload(), now_);
    }
  }
  /// WAIT may wait for ever, and so may who was told to.
  static bool must_end(const QueuePair& qp) {
    const bool waits =
        qp.send.phase == Sender::Phase::kDecoded && qp.send.request.opcode == mlx5::Opcode::kWait;
    return !waits && qp.attributes.ack_timeout != 0 && qp.attributes.rnr_retry != 7;
  }

  Input& in_;
  Station home_;
  Station away_;
  ParcelWire wire_;
  uint64_t now_ = 1;
  std::array<uint16_t, kQps> posted_{};
  std::vector<std::byte> wqe_;
};

}  // namespace peal::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// A ring of work requests as kernels could leave it, right or wrong, before the CPU thread that
// carries them: what kernels compose comes out as composed, all else is refused or is within the
// bounds that the proxy relies on, and nothing beside the ring is read.
#include <array>
#include <cstring>
#include <memory>

#include "device/mlx5/wqe.h"
#include "host/nic/mlx5/proxy_decode.h"
#include "tests/fuzz/input.h"

namespace peal::fuzz {
namespace {

using mlx5::Syndrome;
using Kind = ProxyWork::Kind;

constexpr uint32_t kQpn = 0x123456;

class Run {
 public:
  explicit Run(Input& in)
      : in_(in),
        depth_(1u << in.below(5)),
        blocks_(std::make_unique<std::byte[]>(depth_ * mlx5::kWqebbBytes)),
        index_(in.flag() ? in.below(64) : in.number<uint64_t>() >> 1) {}

  void go() {
    while (!in_.done()) {
      if (in_.flag()) {
        compose();
      } else {
        scribble();
        decode(in_.below(depth_ + 1));
      }
      index_ += in_.below(3);
    }
  }

 private:
  /// Bytes anywhere in the ring, or the control segment of an entry that is otherwise sound.
  void scribble() {
    std::byte* at = blocks_.get() + in_.below(depth_ * mlx5::kWqebbBytes);
    if (in_.flag()) {
      at = block(index_);
      const uint32_t head =
          uint32_t{in_.byte()} << 24 | static_cast<uint32_t>(index_ & 0xffff) << 8 | in_.byte();
      const mlx5::ControlSegment control{Be32(head), Be32(kQpn << 8 | in_.byte()),
                                         Be32(uint32_t{in_.byte()}), Be32(0u)};
      std::memcpy(at, &control, sizeof(control));
      at += sizeof(control);
    }
    const auto bytes = in_.take(in_.below(65));
    const auto room = static_cast<size_t>(blocks_.get() + depth_ * mlx5::kWqebbBytes - at);
    if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size() < room ? bytes.size() : room);
  }

  std::byte* block(uint64_t index) const {
    return blocks_.get() + (index & (depth_ - 1)) * mlx5::kWqebbBytes;
  }

  Syndrome decode(uint64_t posted) {
    const ProxyRing ring{blocks_.get(), depth_, kQpn};
    const Syndrome verdict = decode_for_proxy(ring, index_, index_ + posted, work_);
    require(work_.blocks >= 1);
    if (verdict == Syndrome::kNone) check(posted);
    return verdict;
  }

  void check(uint64_t posted) {
    require(work_.blocks <= posted && work_.blocks <= 2);
    require(work_.bytes <= mlx5::kMaxMessageBytes);
    switch (work_.kind) {
      case Kind::kInlineWrite:
        return require(work_.bytes >= 1 && work_.bytes <= mlx5::kMaxInlineBytes);
      case Kind::kCompareSwap:
      case Kind::kFetchAdd:
        return require(work_.bytes == 8 && work_.remote % 8 == 0);
      case Kind::kMasked:
        return check_masked();
      default:
        return;
    }
  }
  /// A word changes within its 8 bytes, and by its mask only.
  void check_masked() {
    const MaskedAtomic& op = work_.masked;
    require(op.bytes == work_.bytes && work_.remote % op.bytes == 0);
    require(op.bytes == 4 || op.bytes == 8);
    const auto around = in_.number<uint64_t>();
    const uint64_t after = op.apply_around(around, work_.remote);
    require(op.word_in(after, work_.remote) == op.apply(op.word_in(around, work_.remote)));
    if (op.bytes == 4) {
      const uint64_t other = work_.remote ^ 4;
      require(op.word_in(after, other) == op.word_in(around, other));
    }
    if (op.kind == MaskedAtomic::Kind::kCompareSwap) {
      require(((op.word_in(after, work_.remote) ^ op.word_in(around, work_.remote)) &
               ~op.swap_mask) == 0);
    }
  }

  /// What kernels do: all of it has to arrive.
  void compose() {
    const mlx5::Header header{
        .index = index_,
        .qpn_shifted = Be32(kQpn << 8),
        .completion = in_.flag() ? mlx5::Completion::kAlways : mlx5::Completion::kOnError,
        .fence = in_.flag() ? mlx5::Fence::kFence : mlx5::Fence::kNone};
    const nic::Remote remote{in_.number<uint64_t>() & ~uint64_t{7},
                             mlx5::key(in_.number<uint32_t>())};
    const nic::Local local{in_.number<uint64_t>(), mlx5::key(in_.number<uint32_t>())};
    const auto a = in_.number<uint64_t>();
    const auto b = in_.number<uint64_t>();
    const uint32_t bytes = 1 + in_.number<uint32_t>() % mlx5::kMaxMessageBytes;
    switch (in_.below(7)) {
      case 0:
        if (!passes(mlx5::compose(header, nic::Write{remote, local, bytes}))) return;
        return require(work_.kind == Kind::kWrite && goes(remote, local, bytes));
      case 1:
        if (!passes(mlx5::compose(header, nic::Read{remote, local, bytes}))) return;
        return require(work_.kind == Kind::kRead && goes(remote, local, bytes));
      case 2:
        return compose_inline(header, remote);
      case 3:
        if (!passes(mlx5::compose(header, nic::Atomic<Update::kAdd, uint64_t>{remote, local, a})))
          return;
        return require(work_.kind == Kind::kFetchAdd && goes(remote, local, 8) &&
                       work_.swap_or_add == a);
      case 4:
        if (!passes(mlx5::compose(header, nic::CompareSwap<uint64_t>{remote, local, a, b}))) return;
        return require(work_.kind == Kind::kCompareSwap && goes(remote, local, 8) &&
                       work_.compare == a && work_.swap_or_add == b);
      case 5: {
        const mlx5::MaskedSwap<uint64_t> op{
            .compare = a, .compare_mask = b, .swap = b, .swap_mask = a};
        if (!passes(mlx5::compose_masked(header, remote, op, local))) return;
        const bool plain = ~a == 0 && ~b == 0;
        return require(goes(remote, local, 8) &&
                       work_.kind == (plain ? Kind::kCompareSwap : Kind::kMasked));
      }
      default: {
        const mlx5::MaskedAdd<uint32_t> op{static_cast<uint32_t>(a), static_cast<uint32_t>(b)};
        if (!passes(mlx5::compose_masked(header, remote, op, local))) return;
        require(work_.kind == Kind::kMasked && goes(remote, local, 4));
        const auto sum = static_cast<uint32_t>(work_.masked.apply(b & 0xffffffff));
        require(op.boundary != 0 || sum == static_cast<uint32_t>(a + (b & 0xffffffff)));
      }
    }
  }
  void compose_inline(const mlx5::Header& header, const nic::Remote& remote) {
    uint32_t payload[7] = {};
    const auto bytes = in_.take(1 + in_.below(mlx5::kMaxInlineBytes));
    if (bytes.empty()) return;
    std::memcpy(payload, bytes.data(), bytes.size());
    const auto count = static_cast<uint32_t>(bytes.size());
    const uint32_t(&few)[3] = {payload[0], payload[1], payload[2]};
    const bool passed =
        count <= 12 ? passes(mlx5::compose(header, nic::write_inline(remote, few, count)))
                    : passes(mlx5::compose(header, nic::write_inline(remote, payload, count)));
    if (!passed) return;
    require(work_.kind == Kind::kInlineWrite && work_.bytes == count &&
            work_.remote == remote.address && work_.rkey == mlx5::wire(remote.key).host());
    require(std::memcmp(work_.in_place, bytes.data(), count) == 0);
  }

  /// Puts an entry in the ring and decodes it; false if it is longer than the ring. Not posted to
  /// its end, of another lap or for another queue it is refused.
  template <uint32_t kLines>
  bool passes(const mlx5::Wqe<kLines>& wqe) {
    constexpr uint32_t kBlocks = mlx5::Wqe<kLines>::kBlocks;
    if (kBlocks > depth_) return false;
    for (uint32_t i = 0; i < kLines; ++i) {
      std::memcpy(block(index_ + i / 4) + i % 4 * sizeof(wqe.line[0]), &wqe.line[i],
                  sizeof(wqe.line[0]));
    }
    require(decode(kBlocks - 1) == Syndrome::kLocalQpOperation);
    index_ += depth_;
    require(decode(kBlocks) == Syndrome::kLocalQpOperation);
    index_ -= depth_;
    require(decode(kBlocks) == Syndrome::kNone);
    require(work_.blocks == kBlocks);
    return true;
  }
  bool goes(const nic::Remote& remote, const nic::Local& local, uint32_t bytes) const {
    return work_.remote == remote.address && work_.rkey == mlx5::wire(remote.key).host() &&
           work_.local == local.address && work_.lkey == mlx5::wire(local.key).host() &&
           work_.bytes == bytes;
  }

  Input& in_;
  uint32_t depth_;
  std::unique_ptr<std::byte[]> blocks_;
  uint64_t index_;
  ProxyWork work_;
};

}  // namespace
}  // namespace peal::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  peal::fuzz::Input input(data, bytes);
  peal::fuzz::Run(input).go();
  return 0;
}

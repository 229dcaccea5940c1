// SPDX-License-Identifier: Apache-2.0
//
// Bytes from the other ranks of a job, as rank 0 and as a member hear them, in pieces of any size,
// ending anywhere; and unique ids as texts. Each collective call returns or throws an Error; none
// waits for a rank that has hung up.
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "bootstrap/bootstraps.h"
#include "bootstrap/star.h"
#include "bootstrap/wire.h"
#include "host/base/error.h"
#include "tests/fuzz/input.h"

namespace peal::fuzz {
namespace {

using namespace peal::bootstrap;

// A call that lasts longer has waited for somebody who is gone.
constexpr Deadline kDeadline{4'000};
constexpr auto kTooLong = std::chrono::seconds(3);

/// A connection whose other end has said `bytes` and hung up, or says no more.
Fd heard(std::span<const uint8_t> bytes, std::vector<Fd>* others) {
  int ends[2];
  require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  Fd other(ends[1]);
  require(::send(other.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(bytes.size()));
  ::shutdown(other.get(), SHUT_WR);
  others->push_back(std::move(other));
  return Fd(ends[0]);
}

/// Header and payload of a message that fits the call, but for what the input changes.
std::vector<uint8_t> frame(Input& in, uint64_t call) {
  FrameHeader header;
  header.call = call + in.below(4) / 3;
  header.kind = static_cast<FrameKind>(in.byte() % 10);
  header.code = in.byte();
  const auto payload = in.take(in.below(33));
  header.bytes = payload.size();
  const uint32_t lie = in.below(8);
  if (lie == 6) header.bytes -= in.below(33);
  if (lie == 7) header.bytes = in.number<uint64_t>();
  std::vector<std::byte> message(sizeof(FrameHeader) + payload.size());
  std::memcpy(message.data(), &header, sizeof(FrameHeader));
  for (size_t i = 0; i < payload.size(); ++i)
    message[sizeof(FrameHeader) + i] = std::byte{payload[i]};
  const std::vector<std::byte> bytes = make_frame(message);
  const auto* first = reinterpret_cast<const uint8_t*>(bytes.data());
  return {first, first + bytes.size()};
}

std::vector<uint8_t> speech(Input& in) {
  std::vector<uint8_t> bytes;
  const uint32_t pieces = in.below(5);
  for (uint32_t i = 0; i < pieces; ++i) {
    if (in.below(4) == 3) {
      const auto raw = in.take(in.byte());
      bytes.insert(bytes.end(), raw.begin(), raw.end());
    } else {
      const auto sound = frame(in, i);
      bytes.insert(bytes.end(), sound.begin(), sound.end());
    }
  }
  return bytes;
}

/// A few collective calls on `star`: what the others say decides how each ends.
void call(Input& in, Star& star) {
  const auto ranks = static_cast<size_t>(star.size());
  for (int i = 0; i < 4; ++i) {
    const uint8_t which = in.byte();
    const auto before = Clock::now();
    try {
      if ((which & 1) != 0) {
        star.barrier();
      } else {
        const std::vector<std::byte> mine(which >> 3);
        std::vector<std::byte> all(mine.size() * ranks);
        star.allgather(mine, all);
      }
    } catch (const Error&) {
    }
    require(Clock::now() - before < kTooLong);
  }
  star.leave();
}

void converse(Input& in) {
  const int size = 2 + static_cast<int>(in.below(3));
  const int rank = in.flag() ? 0 : 1;
  std::vector<Fd> peers(static_cast<size_t>(size));
  std::vector<Fd> others;
  for (int r = 0; r < size; ++r) {
    const bool connected = rank == 0 ? r != 0 : r == 0;
    if (connected) peers[static_cast<size_t>(r)] = heard(speech(in), &others);
  }
  Star star(make_stream_wire(rank, std::move(peers)), kDeadline);
  call(in, star);
}

void read_id(Input& in) {
  const auto bytes = in.take(in.left());
  const std::string text(bytes.begin(), bytes.end());
  try {
    const UniqueId id = UniqueId::from_string(text);
    require(id.port != 0 && UniqueId::from_string(id.to_string()) == id);
  } catch (const Error& error) {
    require(error.code() == ErrorCode::kInvalidArgument);
    // A secret that was mistyped by a digit must not end in a log.
    const std::string secret = text.substr(0, text.find_first_not_of("0123456789abcdefABCDEF"));
    require(secret.size() < 8 || std::string(error.what()).find(secret) == std::string::npos);
  }
}

}  // namespace
}  // namespace peal::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  peal::fuzz::Input input(data, bytes);
  if (input.byte() == 'u') {
    peal::fuzz::read_id(input);
  } else {
    peal::fuzz::converse(input);
  }
  return 0;
}

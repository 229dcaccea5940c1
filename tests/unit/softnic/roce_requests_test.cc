// SPDX-License-Identifier: Apache-2.0
//
// What a RoCE responder makes of a requester of another make, which is played by frames written by
// hand: rows of packets, repeats, stragglers, and bytes that are no packets.
#include "softnic/wire/roce/icrc.h"
#include "softnic/wire/roce/udp_wire.h"
#include "tests/unit/softnic/bad_network.h"

namespace peal::softnic::testing {
namespace {

using roce::RoceFrame;
using RoceOpcode = roce::BthOpcode;

/// Seals a frame with that much payload, each byte `fill`, as the local end would send it.
Mailbox::Letter letter_of(RoceFrame frame, uint32_t bytes = 0, int filler = 0x5a,
                          uint16_t number = 0) {
  frame.bytes = bytes;
  frame.qpn = Side::kQpn;
  if (frame.pkey == 0) frame.pkey = kDefaultPkey;
  std::vector<std::byte> datagram(roce::kMostDatagram);
  const uint32_t headers = roce::encode(frame, datagram.data());
  std::memset(datagram.data() + headers, filler, bytes);
  const size_t covered = headers + bytes + roce::padding(bytes);
  roce::seal({Far::kHere, Far::kThere, roce::kUdpPort, roce::kUdpPort, number}, datagram.data(),
             covered);
  datagram.resize(covered + roce::kIcrcBytes);
  datagram.shrink_to_fit();
  return {Far::kHere, datagram};
}

void deliver(Far& pair, const Mailbox::Letter& letter) {
  pair.to_there.letters.push_back(letter);
  pair.remote.udp.poll(pair.now);
}

RoceFrame last_answer(const Far& pair) {
  const auto& datagram = pair.there.sent.back();
  return roce::decode(datagram.data(), datagram.size()).value();
}

RoceFrame frame_of(RoceOpcode opcode, uint32_t psn, uint64_t address = 0, uint32_t length = 0) {
  RoceFrame frame;
  frame.opcode = opcode;
  frame.psn = psn;
  frame.address = address;
  frame.rkey = Side::kKey;
  frame.length = length;
  return frame;
}

TEST(UdpWire, OneReadRequestHasAnAnswerOfManyPackets) {
  Far pair;
  fill(pair.b.memory.data(), 1000, 4);
  deliver(pair, letter_of(frame_of(RoceOpcode::kReadRequest, 0, 0, 700)));
  EXPECT_EQ(opcodes_of(pair.there), (std::vector<int>{0x0d, 0x0e, 0x0f}));
  std::vector<std::byte> data;
  for (uint32_t i = 0; i < 3; ++i) {
    const auto& datagram = pair.there.sent[i];
    const RoceFrame frame = roce::decode(datagram.data(), datagram.size()).value();
    EXPECT_EQ(frame.psn, i);
    data.insert(data.end(), frame.data, frame.data + frame.bytes);
  }
  EXPECT_EQ(last_answer(pair).msn, 1u);
  ASSERT_EQ(data.size(), 700u);
  EXPECT_EQ(std::memcmp(data.data(), pair.b.memory.data(), 700), 0);
  EXPECT_EQ(pair.b.qp().receive.expected_psn, 3u);
  // Again, from its second packet on.
  deliver(pair, letter_of(frame_of(RoceOpcode::kReadRequest, 1, 256, 444)));
  EXPECT_EQ(opcodes_of(pair.there), (std::vector<int>{0x0d, 0x0e, 0x0f, 0x0d, 0x0f}));
  EXPECT_EQ(pair.b.qp().receive.expected_psn, 3u);
}

TEST(UdpWire, MessagesDoneAreCounted) {
  Far pair;
  for (uint32_t i = 0; i < 3; ++i) {
    deliver(pair, letter_of(frame_of(RoceOpcode::kWriteOnly, i, 0, 8), 8));
    EXPECT_EQ(last_answer(pair).msn, i + 1);
  }
  deliver(pair, letter_of(frame_of(RoceOpcode::kWriteOnly, 1, 0, 8), 8));  // a repeat
  EXPECT_EQ(last_answer(pair).msn, 3u);
  EXPECT_EQ(last_answer(pair).psn, 2u);
}

TEST(UdpWire, AGapIsAskedForOnce) {
  Far pair;
  deliver(pair, letter_of(frame_of(RoceOpcode::kWriteOnly, 2, 0, 8), 8));
  EXPECT_EQ(last_answer(pair).syndrome, 0x60);
  EXPECT_EQ(last_answer(pair).psn, 0u);
  deliver(pair, letter_of(frame_of(RoceOpcode::kWriteOnly, 3, 0, 8), 8));
  EXPECT_EQ(pair.there.sent.size(), 1u);
}

TEST(UdpWire, PacketsThatMakeNoMessageAreRefused) {
  const auto answer_to = [](const std::vector<Mailbox::Letter>& letters) {
    Far pair;
    for (const auto& letter : letters) deliver(pair, letter);
    EXPECT_EQ(pair.b.qp().state, QpState::kError);
    return last_answer(pair).syndrome;
  };
  constexpr uint8_t kInvalid = 0x61;
  EXPECT_EQ(answer_to({letter_of(frame_of(RoceOpcode::kWriteMiddle, 0), 256)}), kInvalid);
  EXPECT_EQ(answer_to({letter_of(frame_of(RoceOpcode::kSendLast, 0), 256)}), kInvalid);
  const auto first = letter_of(frame_of(RoceOpcode::kWriteFirst, 0, 0, 600), 256);
  EXPECT_EQ(answer_to({first, letter_of(frame_of(RoceOpcode::kSendLast, 1), 9)}), kInvalid);
  EXPECT_EQ(answer_to({first, letter_of(frame_of(RoceOpcode::kWriteOnly, 1, 0, 8), 8)}), kInvalid);
  EXPECT_EQ(answer_to({first, letter_of(frame_of(RoceOpcode::kWriteLast, 1), 9)}), kInvalid);
  EXPECT_EQ(answer_to({letter_of(frame_of(RoceOpcode::kWriteFirst, 0, 0, 600), 255)}), kInvalid);
  EXPECT_EQ(answer_to({letter_of(frame_of(RoceOpcode::kWriteOnly, 0, 0, 300), 300)}), kInvalid);
  EXPECT_EQ(answer_to({letter_of(frame_of(RoceOpcode::kWriteOnly, 0, 0, 9), 8)}), kInvalid);
}

TEST(UdpWire, NothingInterruptsAMessage) {
  for (const RoceOpcode opcode : {RoceOpcode::kReadRequest, RoceOpcode::kFetchAdd}) {
    Far pair;
    deliver(pair, letter_of(frame_of(RoceOpcode::kWriteFirst, 0, 0, 600), 256));
    deliver(pair, letter_of(frame_of(opcode, 1, 1024, 8)));
    EXPECT_EQ(last_answer(pair).syndrome, 0x61);
    EXPECT_EQ(pair.b.qp().state, QpState::kError);
  }
}

TEST(UdpWire, WhatIsOldFailsNothing) {
  Far pair;
  for (uint32_t psn = 0; psn < 3; ++psn)
    deliver(pair, letter_of(frame_of(RoceOpcode::kWriteOnly, psn, 0, 8), 8));
  const size_t answers = pair.there.sent.size();
  RoceFrame wrong_key = frame_of(RoceOpcode::kReadRequest, 0, 0, 8);
  wrong_key.rkey = 0x777;
  deliver(pair, letter_of(wrong_key));
  wrong_key.length = 2000;  // from what is old into what is new
  deliver(pair, letter_of(wrong_key));
  deliver(pair, letter_of(frame_of(RoceOpcode::kReadRequest, 1, 1 << 20, 8)));
  deliver(pair, letter_of(frame_of(RoceOpcode::kFetchAdd, 1, 1 << 20)));
  pair.b.qp().attributes.access = 0;
  deliver(pair, letter_of(frame_of(RoceOpcode::kReadRequest, 0, 0, 8)));
  EXPECT_EQ(pair.there.sent.size(), answers);
  EXPECT_EQ(pair.b.qp().state, QpState::kReadyToSend);
  EXPECT_EQ(pair.b.qp().receive.expected_psn, 3u);
}

TEST(UdpWire, ARepeatBeginsNothingNew) {
  Far pair;
  deliver(pair, letter_of(frame_of(RoceOpcode::kReadRequest, 0, 0, 500)));
  deliver(pair, letter_of(frame_of(RoceOpcode::kReadRequest, 1, 256, 2000)));
  EXPECT_EQ(opcodes_of(pair.there), (std::vector<int>{0x0d, 0x0f, 0x0d}));
  EXPECT_EQ(pair.b.qp().receive.expected_psn, 2u);
}

TEST(UdpWire, WhatIsFarTooOldIsNoRepeat) {
  Far pair({}, 1 << 17);
  deliver(pair, letter_of(frame_of(RoceOpcode::kWriteOnly, 1 << 16, 0, 8), 8));
  EXPECT_EQ(pair.there.sent.size(), 1u);  // acknowledged
  deliver(pair, letter_of(frame_of(RoceOpcode::kWriteOnly, (1 << 16) - 1, 0, 8), 8));
  EXPECT_EQ(pair.there.sent.size(), 1u);
  EXPECT_EQ(pair.remote.udp.counts().strange, 1u);
  // A READ's answer may be that long, and its beginning lost.
  deliver(pair, letter_of(frame_of(RoceOpcode::kReadRequest, 1, 0, 8)));
  EXPECT_EQ(last_answer(pair).opcode, RoceOpcode::kReadResponseOnly);
}

TEST(UdpWire, BehindAReceiverThatIsNotReadyThereIsNoGap) {
  Far pair;
  deliver(pair, letter_of(frame_of(RoceOpcode::kSendOnly, 0), 8));
  EXPECT_EQ(last_answer(pair).syndrome >> 5, 1);
  deliver(pair, letter_of(frame_of(RoceOpcode::kSendOnly, 1), 8));
  EXPECT_EQ(pair.there.sent.size(), 1u);
  pair.remote.receive_into(0, 64, 1);
  deliver(pair, letter_of(frame_of(RoceOpcode::kSendOnly, 0), 8));
  EXPECT_EQ(last_answer(pair).syndrome, 0x1f);
  deliver(pair, letter_of(frame_of(RoceOpcode::kSendOnly, 2), 8));
  EXPECT_EQ(last_answer(pair).syndrome, 0x60);
  EXPECT_EQ(last_answer(pair).psn, 1u);
}

/// READs of so many packets each, one behind the other.
constexpr uint32_t kEach = 200;
Mailbox::Letter long_read(uint32_t number) {
  return letter_of(frame_of(RoceOpcode::kReadRequest, number * kEach, 0, kEach * 256));
}

/// All that was sent is data of those READs, each packet once and in order.
void expect_long_reads(const Far& pair, uint32_t packets) {
  ASSERT_EQ(pair.there.sent.size(), packets);
  for (uint32_t i = 0; i < packets; ++i) {
    const auto& datagram = pair.there.sent[i];
    const RoceFrame frame = roce::decode(datagram.data(), datagram.size()).value();
    ASSERT_EQ(frame.psn, i);
    ASSERT_EQ(frame.bytes, 256u);
    ASSERT_EQ(std::memcmp(frame.data, pair.b.memory.data() + i % kEach * 256, 256), 0) << i;
  }
}

// Linux' rxe takes a NAK in the middle of an answer for an error.
TEST(UdpWire, AReadIsAnsweredInSeveralPolls) {
  Far pair;
  fill(pair.b.memory.data(), kEach * 256, 6);
  for (uint32_t i = 0; i < 4; ++i) pair.to_there.letters.push_back(long_read(i));
  pair.remote.udp.poll(pair.now);
  expect_long_reads(pair, 512);
  EXPECT_TRUE(pair.remote.udp.poll(pair.now));
  expect_long_reads(pair, 4 * kEach);
  EXPECT_EQ(last_answer(pair).msn, 4u);
  EXPECT_FALSE(pair.remote.udp.poll(pair.now));
}

TEST(UdpWire, AReadMayBeLongerThanAPoll) {
  Far pair;
  constexpr uint32_t kPackets = 1500;
  const Pages large(kPackets * 256);
  Key& key = pair.b.port->keys[Side::kKey >> 8];
  key.memory = large.data();
  key.bytes = large.bytes();
  pair.to_there.letters.push_back(
      letter_of(frame_of(RoceOpcode::kReadRequest, 0, 0, kPackets * 256)));
  pair.to_there.letters.push_back(letter_of(frame_of(RoceOpcode::kWriteOnly, kPackets, 0, 8), 8));
  for (int poll = 0; poll < 3; ++poll) pair.remote.udp.poll(pair.now);
  ASSERT_EQ(pair.there.sent.size(), kPackets + 1);
  const std::vector<int> opcodes = opcodes_of(pair.there);
  EXPECT_EQ(opcodes.front(), 0x0d);
  EXPECT_EQ(std::count(opcodes.begin(), opcodes.end(), 0x0e), kPackets - 2);
  EXPECT_EQ((std::vector<int>{opcodes.end() - 2, opcodes.end()}), (std::vector<int>{0x0f, 0x11}));
}

TEST(UdpWire, RepeatsOfWhatWaitsTakeNoPlace) {
  Far pair;
  for (uint32_t i = 0; i < 4; ++i) pair.to_there.letters.push_back(long_read(i));
  for (int i = 0; i < 100; ++i) pair.to_there.letters.push_back(long_read(2 + i % 2));
  for (int poll = 0; poll < 3; ++poll) pair.remote.udp.poll(pair.now);
  EXPECT_EQ(pair.there.sent.size(), 4 * kEach);
  EXPECT_EQ(pair.remote.udp.counts().no_room, 0u);
}

TEST(UdpWire, AReadWhoseMemoryGoesWhileThereIsNoRoomIsRefused) {
  Far pair;
  pair.there.room = 5;
  pair.to_there.letters = {long_read(0)};
  pair.remote.udp.poll(pair.now);
  pair.there.room = SIZE_MAX;
  pair.b.port->keys[Side::kKey >> 8].number = 0;
  pair.remote.udp.poll(pair.now);
  EXPECT_EQ(pair.there.sent.size(), 6u);
  EXPECT_EQ(last_answer(pair).syndrome, 0x62);
  EXPECT_EQ(last_answer(pair).psn, 5u);
}

TEST(UdpWire, WhatComesBehindAReadWaitsForItsAnswer) {
  Far pair;
  for (uint32_t i = 0; i < 3; ++i) pair.to_there.letters.push_back(long_read(i));
  pair.to_there.letters.push_back(letter_of(frame_of(RoceOpcode::kWriteOnly, 3 * kEach, 0, 8), 8));
  pair.to_there.letters.push_back(letter_of(frame_of(RoceOpcode::kFetchAdd, 3 * kEach + 1, 0)));
  pair.remote.udp.poll(pair.now);
  EXPECT_EQ(*pair.b.memory.as<uint64_t>(), 0u);
  pair.remote.udp.poll(pair.now);
  EXPECT_EQ(*pair.b.memory.as<uint64_t>(), 0x5a5a5a5a5a5a5a5au);
  EXPECT_EQ(pair.b.qp().receive.expected_psn, 3 * kEach + 2);
  const std::vector<int> opcodes = opcodes_of(pair.there);
  EXPECT_EQ((std::vector<int>{opcodes.end() - 2, opcodes.end()}), (std::vector<int>{0x11, 0x12}));
}

TEST(UdpWire, WhatWaitedIsAcknowledgedInThePollThatServesIt) {
  Far pair;
  for (uint32_t i = 0; i < 3; ++i) pair.to_there.letters.push_back(long_read(i));
  pair.to_there.letters.push_back(letter_of(frame_of(RoceOpcode::kWriteOnly, 3 * kEach, 0, 8), 8));
  pair.remote.udp.poll(pair.now);
  pair.remote.udp.poll(pair.now);
  EXPECT_EQ(last_answer(pair).opcode, RoceOpcode::kAcknowledge);
  EXPECT_EQ(last_answer(pair).psn, 3 * kEach);
}

TEST(UdpWire, AReadGoesOnWhereThereWasNoRoom) {
  Far pair;
  fill(pair.b.memory.data(), kEach * 256, 6);
  for (const size_t room : {size_t{0}, size_t{1}, size_t{kEach - 1}, size_t{kEach}}) {
    pair.there.room = room;
    if (room == 0) pair.to_there.letters = {long_read(0), long_read(1)};
    pair.remote.udp.poll(pair.now);
  }
  expect_long_reads(pair, 2 * kEach);
  EXPECT_EQ(last_answer(pair).msn, 2u);
  EXPECT_EQ(pair.b.qp().receive.expected_psn, 2 * kEach);
}

TEST(UdpWire, AReadEndsWithItsMemoryAndWithItsConnection) {
  Far gone;
  gone.to_there.letters = {long_read(0), long_read(1), long_read(2)};
  gone.remote.udp.poll(gone.now);
  gone.b.qp().attributes.access = 0;
  gone.remote.udp.poll(gone.now);
  EXPECT_EQ(last_answer(gone).syndrome, 0x61);
  EXPECT_EQ(gone.there.sent.size(), 512u + 1);

  Far anew;
  anew.to_there.letters = {long_read(0), long_read(1), long_read(2)};
  anew.remote.udp.poll(anew.now);
  anew.b.qp().receive = {};
  deliver(anew, letter_of(frame_of(RoceOpcode::kWriteOnly, 0, 0, 8), 8));
  EXPECT_EQ(anew.there.sent.size(), 512u + 1);
  EXPECT_EQ(last_answer(anew).psn, 0u);
}

TEST(UdpWire, SoManyRequestsWaitBehindARead) {
  Far pair;
  pair.to_there.letters = {long_read(0), long_read(1), long_read(2)};
  for (uint32_t i = 0; i < 100; ++i) {
    pair.to_there.letters.push_back(
        letter_of(frame_of(RoceOpcode::kWriteOnly, 3 * kEach + i, 0, 8), 8));
  }
  pair.remote.udp.poll(pair.now);
  EXPECT_EQ(pair.remote.udp.counts().no_room, 100u - 63);
  pair.remote.udp.poll(pair.now);
  EXPECT_EQ(pair.b.qp().receive.expected_psn, 3 * kEach + 63);
}

TEST(UdpWire, AnswersAreOfThePartitionOfTheQueuePair) {
  Far pair;
  pair.b.qp().attributes.pkey = 0x8001;
  RoceFrame frame = frame_of(RoceOpcode::kWriteOnly, 0, 0, 8);
  frame.pkey = 0x8001;
  deliver(pair, letter_of(frame, 8));
  EXPECT_EQ(last_answer(pair).syndrome, 0x1f);
  EXPECT_EQ(last_answer(pair).pkey, 0x8001);
}

TEST(UdpWire, OnlyHostsHaveANumber) {
  roce::RemoteNics remotes({192, 0, 2, 1});
  EXPECT_EQ(remotes.lid_for({0, 0, 0, 1}), 0);
  EXPECT_EQ(remotes.lid_for({224, 0, 0, 1}), 0);
  EXPECT_EQ(remotes.lid_for({255, 255, 255, 255}), 0);
  EXPECT_NE(remotes.lid_for({223, 0, 0, 1}), 0);
}

TEST(UdpWire, HostsOfIpv6HaveANumberForThoseOfIpv6) {
  const auto address = [](uint8_t first, uint8_t second, uint8_t last) {
    return roce::Address(
        std::array<uint8_t, 16>{first, second, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last});
  };
  roce::RemoteNics remotes(address(0xfd, 0, 1));
  EXPECT_NE(remotes.lid_for(address(0xfd, 0, 2)), 0);
  EXPECT_EQ(remotes.lid_for(address(0xfd, 0, 2)), remotes.known_lid(address(0xfd, 0, 2)));
  EXPECT_EQ(remotes.lid_for({10, 0, 0, 1}), 0) << "IPv4";
  EXPECT_EQ(remotes.lid_for(address(0xfe, 0x80, 2)), 0) << "link-local";
  EXPECT_EQ(remotes.lid_for(address(0xff, 2, 1)), 0) << "multicast";
  EXPECT_EQ(remotes.lid_for(roce::Address()), 0);
}

TEST(UdpWire, AConnectionAnewKnowsNothingOfTheOneBefore) {
  Far pair;
  deliver(pair, letter_of(frame_of(RoceOpcode::kWriteOnly, 0, 0, 8), 8));
  deliver(pair, letter_of(frame_of(RoceOpcode::kWriteFirst, 1, 0, 600), 256));
  pair.b.qp().receive = {};  // reset in the middle of a message; to the same peer, from 0 on
  deliver(pair, letter_of(frame_of(RoceOpcode::kWriteOnly, 0, 0, 8), 8));
  EXPECT_EQ(last_answer(pair).syndrome, 0x1f);
  EXPECT_EQ(last_answer(pair).msn, 1u);
}

TEST(UdpWire, StrangersAreNotHeard) {
  Far pair;
  const auto letter = letter_of(frame_of(RoceOpcode::kWriteOnly, 0, 0, 8), 8);
  auto forged = letter;
  forged.from = {192, 0, 2, 3};
  deliver(pair, forged);  // its ICRC names another sender
  EXPECT_EQ(pair.remote.udp.counts().wrong_icrc, 1u);
  roce::seal({forged.from, Far::kThere, roce::kUdpPort, roce::kUdpPort}, forged.bytes.data(),
             forged.bytes.size() - 4);
  deliver(pair, forged);
  EXPECT_EQ(pair.remote.udp.counts().strange, 1u);
  EXPECT_TRUE(pair.there.sent.empty());
  EXPECT_EQ(*pair.b.memory.as<uint64_t>(), 0u);
  deliver(pair, letter);
  EXPECT_EQ(*pair.b.memory.as<uint64_t>(), 0x5a5a5a5a5a5a5a5au);
}

// As hardware and Linux' rxe do it: by the IPv4 header's identification, which no socket tells.
TEST(UdpWire, APeerMayNumberItsDatagrams) {
  Far pair;
  const auto write = [](uint32_t psn, uint16_t number) {
    return letter_of(frame_of(RoceOpcode::kWriteOnly, psn, 0, 8), 8, 0x5a, number);
  };
  deliver(pair, write(0, 0xfffe));
  deliver(pair, write(1, 0xffff));
  deliver(pair, write(2, 0));
  deliver(pair, write(3, 1));
  deliver(pair, write(4, 1000));
  EXPECT_EQ(pair.b.qp().receive.expected_psn, 5u);
  EXPECT_EQ(pair.remote.udp.counts().wrong_icrc, 0u);
}

// One number from a peer that has none is damage; a second one in a row, another kind of NIC.
TEST(UdpWire, ANumberFromAPeerThatHasNoneIsNotBelievedAtOnce) {
  Far pair;
  const auto write = [](uint32_t psn, uint16_t number) {
    return letter_of(frame_of(RoceOpcode::kWriteOnly, psn, 0, 8), 8, 0x5a, number);
  };
  deliver(pair, write(0, 0));
  deliver(pair, write(1, 700));
  EXPECT_EQ(pair.b.qp().receive.expected_psn, 1u);
  deliver(pair, write(1, 0));
  deliver(pair, write(2, 900));
  EXPECT_EQ(pair.b.qp().receive.expected_psn, 2u);
  deliver(pair, write(2, 901));
  EXPECT_EQ(pair.b.qp().receive.expected_psn, 3u);
  EXPECT_EQ(pair.remote.udp.counts().wrong_icrc, 2u);
}

// Linux counts the datagrams of a train, which begin at 0: that is no other kind of NIC.
TEST(UdpWire, APlaceInATrainIsNoNumber) {
  Far pair;
  const auto write = [](uint32_t psn, uint16_t number) {
    return letter_of(frame_of(RoceOpcode::kWriteOnly, psn, 0, 8), 8, 0x5a, number);
  };
  for (uint32_t psn = 0; psn < 4; ++psn) {
    deliver(pair, write(psn, static_cast<uint16_t>(psn % 2 == 0 ? 0 : 62 + psn / 2)));
  }
  EXPECT_EQ(pair.b.qp().receive.expected_psn, 4u);
  deliver(pair, write(4, 64));  // beyond the longest
  EXPECT_EQ(pair.b.qp().receive.expected_psn, 4u);
  EXPECT_EQ(pair.remote.udp.counts().wrong_icrc, 1u);
}

/// One of each kind, with the sequence number 0.
std::vector<Mailbox::Letter> valid_letters() {
  std::vector<Mailbox::Letter> letters;
  for (int opcode = 0; opcode < 256; ++opcode) {
    const auto layout = roce::layout_of(static_cast<RoceOpcode>(opcode));
    if (!layout) continue;
    const uint32_t bytes = layout->payload ? 256 : 0;
    letters.push_back(letter_of(frame_of(static_cast<RoceOpcode>(opcode), 0, 64, 256), bytes));
  }
  return letters;
}

TEST(UdpWire, WhatIsCutShortIsDropped) {
  for (const Mailbox::Letter& letter : valid_letters()) {
    Far pair;
    for (size_t keep = 0; keep < letter.bytes.size(); ++keep) {
      deliver(pair, {letter.from,
                     {letter.bytes.begin(), letter.bytes.begin() + static_cast<long>(keep)}});
    }
    EXPECT_EQ(pair.remote.udp.counts().wrong_icrc, letter.bytes.size());
    EXPECT_EQ(pair.remote.udp.counts().taken, 0u);
    EXPECT_TRUE(pair.there.sent.empty());
  }
}

TEST(UdpWire, WhatIsChangedOnTheWayIsDropped) {
  const auto letters = valid_letters();
  std::mt19937 random(11);
  Far pair;
  deliver(pair, letters[0]);  // from a peer that does not number its datagrams
  for (int run = 0; run < 10'000; ++run) {
    auto letter = letters[random() % letters.size()];
    const auto before = letter.bytes;
    for (uint32_t changes = 1 + below(random, 3); changes > 0; --changes) {
      letter.bytes[random() % letter.bytes.size()] ^= static_cast<std::byte>(1 + random() % 255);
    }
    letter.bytes[4] = before[4];  // congestion bits may change
    if (letter.bytes == before) continue;
    deliver(pair, letter);
  }
  EXPECT_EQ(pair.remote.udp.counts().taken, 1u);
  EXPECT_EQ(pair.b.qp().state, QpState::kReadyToSend);
}

TEST(UdpWire, AnythingWithARightIcrcIsSurvived) {
  const auto letters = valid_letters();
  std::mt19937 random(13);
  for (int round = 0; round < 200; ++round) {
    Far pair;
    pair.remote.receive_into(0, 512, 8);
    pair.b.post(read_into(0, Side::kKey, 256, Side::kKey, 0));
    for (int run = 0; run < 50; ++run) {
      auto letter = letters[random() % letters.size()];
      for (uint32_t changes = below(random, 3); changes > 0; --changes) {
        letter.bytes[random() % 40 % letter.bytes.size()] = static_cast<std::byte>(random());
      }
      letter.bytes[11] = static_cast<std::byte>(random() % 4);  // near the number that is expected
      roce::seal({Far::kHere, Far::kThere, roce::kUdpPort, roce::kUdpPort}, letter.bytes.data(),
                 letter.bytes.size() - 4);
      deliver(pair, letter);
      pair.step();
    }
  }
}

}  // namespace
}  // namespace peal::softnic::testing

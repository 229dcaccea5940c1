// SPDX-License-Identifier: Apache-2.0
//
// What two ends make of each other, on the fake NIC.
#include "host/transport/connection.h"

#include <gtest/gtest.h>

#include "tests/unit/fake_rdma_fixture.h"

namespace peal {
namespace {

class Connection : public nic::FakeRdmaTest {
 protected:
  /// An end on a NIC as the fake is now.
  Endpoint end(uint32_t qpn = 0x100) { return endpoint_of(nic::Device(library(), ""), qpn); }
};

TEST_F(Connection, TellsTheOtherEndWhatItNeeds) {
  fake_.general_capabilities[10] = 3u << 16 | 2;  // 8 READs in flight from here, 4 towards
  const Endpoint mine = end(0xabcdef);
  EXPECT_EQ(mine.qpn, 0xabcdefu);
  EXPECT_EQ(mine.lid, 0x1234);
  EXPECT_EQ(mine.mtu, 5);
  EXPECT_EQ(mine.log_initiator_depth, 3);
  EXPECT_EQ(mine.log_responder_depth, 2);
}

TEST_F(Connection, LimitsReadsInFlightWhereTheNicDoesNot) {
  fake_.general_capabilities[10] = 6u << 16 | 5;
  EXPECT_EQ(end().log_initiator_depth, 4);
  EXPECT_EQ(end().log_responder_depth, 4);
}

TEST_F(Connection, TakesTheSmallerMtuAtBothEnds) {
  const nic::Device device(library(), "");
  Endpoint here = endpoint_of(device, 1);
  Endpoint there = here;
  there.mtu = 3;
  EXPECT_EQ(path_to(device, here, there).mtu, 3);
  EXPECT_EQ(path_to(device, there, here).mtu, 3);
}

TEST_F(Connection, HasNoMoreReadsInFlightThanTheOtherEndAnswers) {
  const nic::Device device(library(), "");
  Endpoint here = endpoint_of(device, 1);
  Endpoint there = here;
  here.log_initiator_depth = 4;
  here.log_responder_depth = 3;
  there.log_initiator_depth = 1;
  there.log_responder_depth = 2;
  const nic::Path out = path_to(device, here, there);
  EXPECT_EQ(out.log_initiator_depth, 2);
  EXPECT_EQ(out.log_responder_depth, 1);
  const nic::Path back = path_to(device, there, here);
  EXPECT_EQ(back.log_initiator_depth, 1);
  EXPECT_EQ(back.log_responder_depth, 2);
}

TEST_F(Connection, GoesToTheOthersLid) {
  const nic::Device device(library(), "");
  const Endpoint here = endpoint_of(device, 1);
  Endpoint there = here;
  there.lid = 0x77;
  EXPECT_EQ(path_to(device, here, there).dlid, 0x77);
  EXPECT_EQ(path_to(device, here, there).port, 1);
}

}  // namespace
}  // namespace peal

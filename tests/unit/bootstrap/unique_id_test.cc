// SPDX-License-Identifier: Apache-2.0
//
// The unique id as text, as a listening socket, and as what both ends of a connection prove to
// know.
#include <gtest/gtest.h>

#include <set>

#include "bootstrap/bootstraps.h"
#include "bootstrap/proof.h"
#include "host/base/random.h"
#include "tests/support/error_of.h"
#include "tests/support/ipv6.h"

namespace peal::bootstrap {
namespace {

TEST(UniqueId, SurvivesTheWayThroughText) {
  const UniqueId id = make_unique_id();
  EXPECT_EQ(id.to_string().size(), 44U);
  EXPECT_EQ(UniqueId::from_string(id.to_string()), id);
  EXPECT_NE(id.port, 0);
}

TEST(UniqueId, ReadsBothCasesAndItsFieldsInOrder) {
  const UniqueId id = UniqueId::from_string("000102030405060708090a0B0c0D0e0f7f00000110e1");
  EXPECT_EQ(id.secret[10], std::byte{0x0a});
  EXPECT_EQ(id.secret[15], std::byte{0x0f});
  EXPECT_EQ(id.address, (InternetAddress{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}));
  EXPECT_EQ(id.port, 0x10e1);
}

TEST(UniqueId, HasAnAddressOfEitherFamily) {
  const std::string text = "000102030405060708090a0b0c0d0e0ffd00000000000000000000000000000210e1";
  const UniqueId id = UniqueId::from_string(text);
  EXPECT_EQ(id.secret[15], std::byte{0x0f});
  EXPECT_EQ(id.address, (InternetAddress{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}));
  EXPECT_EQ(id.port, 0x10e1);
  EXPECT_EQ(id.to_string(), text);
}

TEST(UniqueId, IsNeverTheSameTwice) {
  std::set<std::array<std::byte, 16>> secrets;
  for (int i = 0; i < 64; ++i) secrets.insert(make_unique_id().secret);
  EXPECT_EQ(secrets.size(), 64U);
}

TEST(UniqueId, RefusesTextOfAnotherLength) {
  const std::string text = make_unique_id().to_string();
  for (const std::string& wrong : {std::string(), text.substr(1), text + "0", text + "\n"}) {
    const Error error = error_of([&] { UniqueId::from_string(wrong); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(contains(error, "44 hexadecimal digits expected, or 68")) << error.what();
  }
}

TEST(UniqueId, RefusesOtherCharactersAndSaysWhere) {
  const std::string text = make_unique_id().to_string();
  for (const char wrong : {'g', ' ', 'x', '-', '\0', '\xff'}) {
    std::string bad = text;
    bad[20] = wrong;
    const Error error = error_of([&] { UniqueId::from_string(bad); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(contains(error, "character 21 ")) << error.what();
  }
}

TEST(UniqueId, KeepsTheSecretOutOfErrors) {
  std::string text = make_unique_id().to_string();
  text.back() = 'z';
  const Error error = error_of([&] { UniqueId::from_string(text); });
  EXPECT_FALSE(contains(error, text.substr(0, 8))) << error.what();
}

TEST(UniqueId, RefusesPortZero) {
  const std::string text = std::string(40, '1') + "0000";
  EXPECT_TRUE(contains(error_of([&] { UniqueId::from_string(text); }), "port is 0"));
}

TEST(TcpRoot, RefusesWhatIsNoAddress) {
  for (const char* wrong : {"", "localhost", "1.2.3", "127.0.0.1:80", "256.0.0.1", "::1%lo",
                            "1::2::3", "[::1", "[127.0.0.1]"}) {
    const Error error = error_of([&] { TcpRoot root(wrong); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << wrong;
  }
}

TEST(TcpRoot, RefusesALinkLocalAddress) {
  const Error error = error_of([] { TcpRoot root("fe80::1"); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(contains(error, "'fe80::1' is a link-local address")) << error.what();
}

TEST(TcpRoot, ListensByIpv6) {
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6 here";
  const TcpRoot root("[::1]");
  EXPECT_EQ(root.id().to_string().size(), 68U);
  const Error error = error_of([&] { TcpRoot second(root.id()); });
  EXPECT_TRUE(contains(error, "bind to [::1]:" + std::to_string(root.id().port))) << error.what();
}

TEST(TcpRoot, SaysWhenThePortIsTaken) {
  const TcpRoot first;
  const Error error = error_of([&] { TcpRoot second(first.id()); });
  EXPECT_EQ(error.code(), ErrorCode::kSystem);
  EXPECT_TRUE(contains(error, "bind to 127.0.0.1:" + std::to_string(first.id().port)))
      << error.what();
}

TEST(TcpRoot, SaysWhenTheAddressIsOfAnotherMachine) {
  const Error error = error_of([&] { TcpRoot root("192.0.2.1"); });
  EXPECT_EQ(error.code(), ErrorCode::kSystem);
  EXPECT_TRUE(contains(error, "bind to 192.0.2.1")) << error.what();
}

template <class Bytes>
void count_up(Bytes& bytes, unsigned first) {
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(first++);
}

std::string hex(const Proof& proof) {
  std::string text;
  for (const std::byte byte : proof) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

// HMAC-SHA256 of b"peal: joiner" or b"peal: rank 0", hello and challenge, as Python's hmac has it.
TEST(Proofs, AreThoseOfTheStandard) {
  Secret secret;
  Hello hello{.rank = 2, .size = 3};
  Challenge challenge;
  count_up(secret, 0);
  count_up(hello.challenge, 16);
  count_up(challenge, 32);
  const Proof joiner = make_proof(secret, ProofSide::kJoiner, hello, challenge);
  const Proof root = make_proof(secret, ProofSide::kRoot, hello, challenge);
  EXPECT_EQ(hex(joiner), "a678313fffdd4be32a7f2b19d178e21450d79e7261780ee6be1eb60479823209");
  EXPECT_EQ(hex(root), "4dd07523ea0e77a61a05fa5c51692101308f417de1f3f2de7648277b02d431a2");
  EXPECT_TRUE(same_proof(joiner, joiner));
  EXPECT_FALSE(same_proof(joiner, root));
}

TEST(Proofs, AreOfFreshBytes) { EXPECT_NE(random_bytes(), random_bytes()); }

}  // namespace
}  // namespace peal::bootstrap
